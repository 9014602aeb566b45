package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"runnerd/e2e/vendor"
)

// A link that is cut every 2 s for a minute while steps are started all the time: each ends, none twice, and what the vendor
// answered arrives.
func TestN19_AFlakyLinkLosesNothingAndStartsNothingTwice(t *testing.T) {
	t.Parallel()
	v := vendor.New()
	t.Cleanup(v.Close)
	w := serve(t)
	ada := w.person("ada")
	p := newProxy(t, func() string { return w.listen }, nil)
	l := newLaptop(t)
	l.pair(ada, p.url)
	l.api(v, "key-of-ada-000000")
	l.run()
	ada.presence(l.id, "online", 20*time.Second)

	var ids []string
	stop := time.Now().Add(time.Minute)
	var wg sync.WaitGroup
	wg.Go(func() {
		for time.Now().Before(stop) {
			time.Sleep(2 * time.Second)
			p.cut()
		}
	})
	for n := 0; time.Now().Before(stop); n++ {
		ids = append(ids, ada.chat(fmt.Sprintf("say answer number %d.\nslow 100", n), object{"ai.provider": "fake", "runner.waitMs": 120_000}))
		time.Sleep(300 * time.Millisecond)
	}
	wg.Wait()
	for n, id := range ids {
		s := ada.end(id, 2*time.Minute)
		text := ada.text(id)
		if s.Status != "completed" || text != fmt.Sprintf("answer number %d.", n) {
			t.Errorf("run %d: %+v, text %q", n, s, text)
		}
		if turns := v.Turns(fmt.Sprintf("answer number %d.", n)); turns != 1 {
			t.Errorf("run %d: %d turns", n, turns)
		}
	}
	t.Logf("%d runs through %d cuts", len(ids), p.cuts)
}

// Canaries stand wherever a credential may: in the real keychain, in the environment, in what the vendor answers. None
// may reach the gateway: not its disk, not its log, not the wire, not the page's streams.
func TestI6_NoCredentialReachesTheGateway(t *testing.T) {
	t.Parallel()
	const stored, inherited = "canary-stored-8d1f2a7730c5", "canary-environment-41b09c66e2"
	v := vendor.New()
	t.Cleanup(v.Close)
	w := serve(t)
	ada := w.person("ada")
	p := newProxy(t, func() string { return w.listen }, nil)
	l := newLaptop(t, append(keychain(t), "ANTHROPIC_API_KEY="+inherited, "OPENAI_API_KEY="+inherited, "SOME_TOKEN="+inherited)...)
	l.kind = "system"
	l.pair(ada, p.url)
	l.api(v, stored)
	l.run()
	ada.presence(l.id, "online", 20*time.Second)
	for _, prompt := range []string{"say before\nleak\nsay after", "fail 401", "say a\nleak\nhang", "slow 50\nleak"} {
		id := ada.chat(prompt, object{"ai.provider": "fake", "runner.timeoutMs": 4000})
		s := ada.end(id, 30*time.Second)
		t.Logf("%q: %s %+v", prompt, s.Status, s.Error)
		if status, body := ada.do("GET", "/v1/runs/"+id+"/events?streamMode=updates,messages", nil); status != 200 || strings.Contains(string(body), stored) {
			t.Errorf("stream of %q: %d %s", prompt, status, body)
		}
	}
	if v.Turns("leak") != 3 {
		t.Fatalf("%d turns leaked: the canary was never in danger", v.Turns("leak"))
	}
	if got := v.Requests()[0].Key; got != stored {
		t.Fatalf("the vendor got the key %q", got)
	}
	l.proc.stop()
	w.proc.stop()
	haystacks := tree(t, w.dir)
	haystacks["the wire"] = p.carried()
	haystacks["the gateway's log"] = []byte(w.proc.text(&w.proc.stdout) + w.proc.text(&w.proc.stderr))
	haystacks["the runner's log"] = []byte(l.proc.text(&l.proc.stdout) + l.proc.text(&l.proc.stderr))
	for name, b := range tree(t, l.dir) {
		haystacks["laptop:"+name] = b
	}
	for _, canary := range []string{stored, inherited} {
		for where, b := range haystacks {
			for _, form := range encodings(canary) {
				if strings.Contains(string(b), form) {
					t.Errorf("%q is in %s", form, where)
				}
			}
		}
	}
}
