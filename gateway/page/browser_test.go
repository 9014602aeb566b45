package page

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"runnerd/internal/testdep"
)

// A host answers the page as a gateway would. Whether its person is signed in may change while it runs.
type host struct {
	*httptest.Server
	signedIn atomic.Bool

	mu   sync.Mutex
	keys []string // Idempotency-Key of each run that was asked for
}

func newHost(t *testing.T) *host {
	files, err := Handler()
	if err != nil {
		t.Fatal(err)
	}
	h := &host{}
	h.signedIn.Store(true)
	mux := http.NewServeMux()
	mux.Handle("/", files)
	answer := func(pattern string, status int, body string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
	}
	const own = "/v1/host/runnerd/"
	answer("GET "+own+"me", 200, `{"subject":"default/ada"}`)
	answer("GET "+own+"runners", 200, `{"runners":[{"id":"r","name":"laptop","presence":"online","providers":{"one":{"models":["m"]},"two":{}}}]}`)
	answer("GET "+own+"pairings/{code}", 404, `{"error":"not_found","message":"no such pairing"}`)
	answer("POST "+own+"sign-in", 401, `{"error":"unauthenticated","message":"a valid bearer credential is required"}`)
	answer("GET /v1/runs", 200, `{"runs":[]}`)
	answer("GET /v1/runs/{id}", 404, `{"error":"not_found","message":"no such run"}`)
	answer("GET /v1/runs/{id}/events", 404, `{"error":"not_found","message":"no such run"}`)
	answer("GET "+own+"runs/{id}/steps", 404, `{"error":"not_found","message":"no such run"}`)
	mux.HandleFunc("POST "+own+"bearer", func(w http.ResponseWriter, _ *http.Request) {
		if !h.signedIn.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"token":"owb_x","expiresIn":61}`)) // the page renews a minute early: after a second
	})
	mux.HandleFunc("POST /v1/runs", func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.keys = append(h.keys, r.Header.Get("Idempotency-Key"))
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"error":"unavailable","message":"busy number ` + strings.Repeat("I", len(h.keys)) + `."}`))
	})
	h.Server = httptest.NewServer(mux)
	t.Cleanup(h.Close)
	return h
}

func (h *host) asked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.keys)
}

// A tab is a real browser at the size of a phone.
type tab struct {
	t   *testing.T
	ctx context.Context
}

func newTab(t *testing.T) tab {
	alloc, stop := chromedp.NewExecAllocator(context.Background(), chromedp.ExecPath(testdep.Program(t, "chromium", "Debian's package chromium")),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Headless, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch)); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	return tab{t, ctx}
}

func (b tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("on the page: %v", err)
	}
}

// shows waits until the page's text holds all of the words.
func (b tab) shows(words ...string) {
	b.t.Helper()
	b.until(`[` + "`" + strings.Join(words, "`,`") + "`" + `].every(w => document.querySelector("main").innerText.includes(w))`)
}

func (b tab) until(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	for {
		_, err := chromedp.Run(ctx, chromedp.Poll[bool]("Boolean("+expression+")", chromedp.WithPollingInterval(20*time.Millisecond)))
		if err == nil {
			return
		}
		if ctx.Err() == nil && leftDocument(err) {
			continue
		}
		last, cancel := context.WithTimeout(b.ctx, 5*time.Second)
		defer cancel()
		text, _ := chromedp.Run(last, chromedp.Evaluate[string]("document.body.innerText"))
		b.t.Fatalf("the page does not come to %s: %v; it shows %q", expression, err, text)
	}
}

// leftDocument says that a question got no answer because the tab went to another document meanwhile: it is asked again there.
func leftDocument(err error) bool {
	return strings.Contains(err.Error(), "context") || strings.Contains(err.Error(), "navigated or closed")
}

func TestThePageSaysWhatToDoWhenSomethingIsNotThere(t *testing.T) {
	h, b := newHost(t), newTab(t)
	for address, words := range map[string][]string{
		"/sign-in#owl_used":   {"That link did not work", "used before", "gateway user link"},
		"/#/runs/run_unknown": {"No such run"},
		"/pair?code=AAAA-AAA": {"No laptop waits under this code"},
	} {
		b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(h.URL+address))
		b.shows(words...)
	}
}

func TestHomeLeavesEveryScreen(t *testing.T) {
	h, b := newHost(t), newTab(t)
	for _, address := range []string{"/pair", "/#/runs/run_x", "/#/runs/%"} {
		b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(h.URL+address))
		b.until(`document.querySelector("main h1, main form")`)
		b.do(chromedp.Tap("#home"))
		b.until(`document.querySelector("#prompt") && location.pathname === "/"`)
	}
}

func TestAnEndedSessionAsksForASignIn(t *testing.T) {
	h, b := newHost(t), newTab(t)
	b.do(chromedp.Navigate(h.URL))
	b.until(`document.querySelector(".dot.online")`)
	h.signedIn.Store(false)
	b.shows("Sign in", "gateway user link")
	b.until(`document.querySelector("#sign-out").hidden`)
}

// The key of a request belongs to all that is in the form: another provider after a lost answer is another request.
func TestWhatIsInTheFormIsSentUnderItsOwnKey(t *testing.T) {
	h, b := newHost(t), newTab(t)
	b.do(chromedp.Navigate(h.URL))
	b.until(`document.querySelectorAll("#provider option").length === 3`)
	b.do(chromedp.SendKeys("#prompt", "   "), chromedp.Tap("#start"))
	b.shows("Write a prompt first")
	if got := h.asked(); len(got) != 0 {
		t.Fatalf("blanks were sent: %v", got)
	}
	b.do(chromedp.SendKeys("#prompt", "hello"), chromedp.Tap("#start"))
	b.shows("number I.")
	b.do(chromedp.Tap("#start"))
	b.shows("number II.")
	b.do(chromedp.Evaluate[chromedp.Void](`void (document.querySelector("#provider").value = "two", document.querySelector("#provider").dispatchEvent(new Event("input")))`), chromedp.Tap("#start"))
	b.shows("number III.")
	if got := h.asked(); got[0] == "" || got[0] != got[1] || got[1] == got[2] {
		t.Errorf("keys %v", got)
	}
}
