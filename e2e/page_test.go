package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"runnerd/e2e/vendor"
	"runnerd/internal/testdep"
)

// The whole of first light: pair from the phone, start runs that the real programs answer, see text arrive, cancel a long
// one, kill the runner in the middle.
func TestAPersonStartsRunsFromThePhoneAndRealProgramsAnswer(t *testing.T) {
	v := vendor.New()
	t.Cleanup(v.Close)
	w := serve(t)
	ada := w.person("ada")
	p := newPhone(t)
	p.open(ada.link)
	p.until("no laptop yet", `document.querySelector("#runners")?.innerText.includes("No laptop yet")`)
	if got := query(p, chromedp.Location()); strings.Contains(got, "#") && strings.Contains(ada.link, got[strings.Index(got, "#"):]) {
		t.Errorf("the one-time token is still in the address: %s", got)
	}

	l := newLaptop(t)
	pairing := start(t, l.env, "runnerd", "pair", w.url, "--json", "--data", l.dir, "--credential-store", "file")
	var code struct{ VerificationURIComplete string }
	pairing.line(&code)
	p.open(code.VerificationURIComplete)
	p.until("the machine's facts", `document.querySelector("#approve")`)
	p.picture("pair")
	p.do(chromedp.Tap("#approve"))
	var got struct{ RunnerID string }
	pairing.line(&got)
	l.id = got.RunnerID

	for provider, c := range map[string]struct{ backend, program, url, key string }{
		"anthropic": {"claude-cli", "claude", v.URL, "key-for-claude-000"},
		"openai":    {"codex-cli", "codex", v.URL + "/v1", "key-for-codex-0000"},
	} {
		call(t, l.env, c.key, nil, "runnerd", "credential", "set", provider, "--data", l.dir)
		l.with(provider, "--backend", c.backend, "--base-url", c.url, "--path", testdep.CLI(t, c.program), "--model", "fake-large", "--accept-terms")
	}
	l.run()
	ada.presence(l.id, "online", 30*time.Second)

	p.open(w.url + "/")
	p.until("the laptop online", `document.querySelector(".dot.online")`)
	p.start("say hello from claude on the laptop\nslow 300", "anthropic", "fake-large")
	p.until("the first words, well before the end", `document.querySelector("#output").textContent.includes("hello") && document.querySelector("#status").textContent !== "completed"`)
	p.picture("streaming")
	p.until("the end", `document.querySelector("#status").textContent === "completed"`)
	if got := p.text("#output"); got != "hello from claude on the laptop" {
		t.Errorf("the page shows %q", got)
	}
	p.picture("completed")

	p.do(chromedp.Tap("#home"))
	p.start("say hello from codex", "openai", "fake-large")
	p.until("the end", `document.querySelector("#status").textContent === "completed"`)
	if got := p.text("#output"); got != "hello from codex" {
		t.Errorf("the page shows %q", got)
	}

	p.do(chromedp.Tap("#home"))
	p.start("say a b c d e f g h i j k\nslow 2000", "anthropic", "fake-large")
	p.until("some text", `document.querySelector("#output").textContent.length > 1`)
	p.do(chromedp.Tap("#cancel"))
	p.until("cancelled", `document.querySelector("#status").textContent === "cancelled"`)

	p.do(chromedp.Tap("#home"))
	p.start("say k l m n o p q r s t\nslow 2000", "anthropic", "fake-large")
	p.until("some text", `document.querySelector("#output").textContent.length > 1`)
	l.proc.kill()
	l.run()
	p.until("failed with the reason", `document.querySelector("#problem").textContent.includes("runner_unavailable")`)
	p.picture("lost")

	p.do(chromedp.Tap("#home"))
	p.until("all runs listed", `document.querySelectorAll("a.run").length === 4`)
	p.picture("home")
	for _, prompt := range []string{"hello from claude", "hello from codex", "say a b c", "say k l m"} {
		if n := v.Turns(prompt); n != 1 {
			t.Errorf("%q: %d turns", prompt, n)
		}
	}
}

func TestUD85_ThePageComesBackAfterThePhoneSlept(t *testing.T) {
	w := serve(t)
	ada := w.person("ada")
	l := newLaptop(t)
	l.pair(ada, "")
	l.run()
	p := newPhone(t)
	p.open(ada.link)
	p.until("the laptop online", `document.querySelector(".dot.online")`)
	p.until("echo says what it is", `document.querySelector("#note").textContent.includes("only repeats")`)
	words := strings.Repeat("word ", 40) + "end" // 8 s
	p.start(words, "echo", "echo-slow")
	p.until("some text", `document.querySelector("#output").textContent.includes("word")`)
	p.do(lifecycle("frozen"))
	w.proc.kill() // while it sleeps every connection dies
	w.restart()
	p.do(lifecycle("active"))
	p.until("the end, without a reload", `document.querySelector("#output").textContent.endsWith("end") && document.querySelector("#status").textContent === "completed"`)
	if got := p.text("#output"); got != words {
		t.Errorf("the page shows %q", got)
	}
}

// lifecycle freezes or wakes a tab as a phone does.
func lifecycle(state page.SetWebLifecycleStateState) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, page.SetWebLifecycleState, page.SetWebLifecycleStateParams{State: state})
		return chromedp.Void{}, err
	}
}
