package e2e

import (
	"fmt"
	"strings"
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
		{"G05", completed}, {"G06", completed}, {"G07", completed}, {"G07b", either}, {"G08", completed},
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
			prompt := fmt.Sprintf("say the answer of %s", c.point)
			gatewayDies := strings.HasPrefix(c.point, "G")
			if gatewayDies {
				w.proc.stop()
				w.restart("GATEWAY_FAULT_POINT=" + c.point)
				l.run()
			} else {
				l.run("RUNNERD_FAULT_POINT=" + c.point)
			}
			ada.presence(l.id, "online", 30*time.Second)
			id := ada.chat(prompt, object{"ai.provider": "fake", "runner.waitMs": 60_000})
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
