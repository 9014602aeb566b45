package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"runnerd/e2e/vendor"
)

// The crash matrix (faults.md G05 to G12 and R02 to R08, and the rest of the runner's): one of the two programs kills itself
// at a named point in the middle of a step, and is started again. Whatever happens, the vendor is asked at most once, the
// run ends, and a result that was finished arrives.
func TestI1_AtEveryFaultPointAStepIsPaidForAtMostOnce(t *testing.T) {
	v := vendor.New()
	t.Cleanup(v.Close)
	completed, either := "completed", "completed or unknown"
	for _, c := range []struct {
		point string
		want  string
	}{
		{"G05", completed}, {"G07", completed}, {"G07b", either}, {"G08", completed},
		{"G09", completed}, {"G10", completed}, {"G11", completed}, {"G12", completed},
		{"R02", completed}, {"R03", either}, {"R04", either}, {"R05", either}, {"R06", "unknown"},
		{"R07", "unknown"}, {"R08", "unknown"}, {"R09", "unknown"}, {"R10", "unknown"},
		{"R11", completed}, {"R12", completed}, {"R13", completed},
	} {
		t.Run(c.point, func(t *testing.T) {
			t.Parallel()
			w := serve(t)
			ada := w.person("ada")
			l := newLaptop(t)
			l.pair(ada, "")
			l.api(v, "key-of-ada-000000")
			prompt := fmt.Sprintf("say the answer of %s\nslow 300", c.point)
			gatewayDies := strings.HasPrefix(c.point, "G")
			if gatewayDies {
				w.proc.stop()
				w.restart("GATEWAY_FAULT_POINT=" + c.point)
				l.run()
			} else {
				l.run("RUNNERD_FAULT_POINT=" + c.point)
			}
			ada.presence(l.id, "online", 30*time.Second)
			create := func() string {
				_, body := ada.do("POST", "/v1/runs", object{"workflowId": "chat", "inputs": object{"prompt": prompt},
					"configurable": object{"ai.provider": "fake", "runner.waitMs": 60_000}}, "Idempotency-Key", "create-"+c.point)
				var run struct{ RunID string }
				_ = json.Unmarshal(body, &run) // no answer, no id
				return run.RunID
			}
			id := create()
			victim := l.proc
			if gatewayDies {
				victim = w.proc
			}
			victim.wait(30 * time.Second)
			if gatewayDies {
				w.restart()
			} else {
				l.run()
			}
			if id == "" && gatewayDies { // the answer was lost with the gateway, and the same key gives the same run (G02)
				id = create()
			}
			s := ada.end(id, 60*time.Second)
			outcome := s.Status
			for _, e := range ada.events(id) {
				if e.Type == "node.failed" {
					outcome = fmt.Sprint(e.Payload.Error.Details["outcome"])
				}
			}
			if !strings.Contains(c.want, outcome) {
				t.Errorf("ended %s (%+v), want %s", outcome, s.Error, c.want)
			}
			turns := v.Turns(prompt)
			if turns > 1 || s.Status == "completed" && (turns != 1 || ada.text(id) != "the answer of "+c.point) {
				t.Errorf("%d turns, text %q", turns, ada.text(id))
			}
		})
	}
}

// G06: the gateway dies when half of the frame's bytes are out. The runner drops the half and gets the whole frame once more.
func TestG06_HalfAFrameIsNoFrame(t *testing.T) {
	t.Parallel()
	v := vendor.New()
	t.Cleanup(v.Close)
	w := serve(t)
	ada := w.person("ada")
	died := make(chan struct{})
	var once sync.Once
	p := newProxy(t, func() string { return w.listen }, func(b []byte) (int, bool) {
		cut := false
		if at := bytes.Index(b, []byte("event: dispatch")); at >= 0 {
			once.Do(func() { cut = true; w.proc.kill(); close(died) })
			return at + (len(b)-at)/2, cut
		}
		return 0, false
	})
	l := newLaptop(t)
	l.pair(ada, p.url)
	l.api(v, "key-of-ada-000000")
	l.run()
	ada.presence(l.id, "online", 20*time.Second)
	create := func() (string, int) {
		status, body := ada.do("POST", "/v1/runs", object{
			"workflowId": "chat", "inputs": object{"prompt": "say half and whole"},
			"configurable": object{"ai.provider": "fake", "runner.waitMs": 60_000},
		}, "Idempotency-Key", "once")
		var run struct{ RunID string }
		if status != 0 && json.Unmarshal(body, &run) != nil {
			t.Fatalf("create: %d %s", status, body)
		}
		return run.RunID, status
	}
	create() // may lose its answer with the gateway
	<-died
	w.restart()
	id, status := create() // the same run
	if status != 201 {
		t.Fatalf("create again: %d", status)
	}
	if s := ada.end(id, 60*time.Second); s.Status != "completed" || ada.text(id) != "half and whole" || v.Turns("half and whole") != 1 {
		t.Errorf("%+v, %q, %d turns", s, ada.text(id), v.Turns("half and whole"))
	}
}
