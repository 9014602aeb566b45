package channel_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/dispatch"
	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// plain makes a plain RFC 0122 runner: it registers, reads its stream and posts results, and knows of nothing else.
func (w *world) plain(s store.Subject) (*runner, *stream) {
	w.t.Helper()
	r := w.runner(s)
	r.register()
	r.epoch = 0 // it does not know of epochs
	return r, r.open("")
}

func TestAPlainRunnerIsServed(t *testing.T) {
	w := newWorld(t)
	r, st := w.plain(w.subject("acme", "ann"))
	row := w.ask(r.subject, "")
	w.pass(wire.PlainAfter - time.Second)
	st.silent() // it could still be one of ours, about to report
	w.pass(2 * time.Second)
	d := st.frame()
	if s := w.step(row); s.State != store.StepAccepted || !s.Plain {
		t.Errorf("step is %s, plain %v", s.State, s.Plain)
	}
	if p := w.dispatch.Presence(r.row()); p.Status != dispatch.Online || !p.Plain {
		t.Errorf("presence %+v", p)
	}
	if v := r.post(output(d, "plain")); v != wire.VerdictAccepted {
		t.Errorf("verdict %s", v)
	}
	if got := w.status(row); got != "completed" {
		t.Errorf("run is %s", got)
	}
	if d := cmp.Diff([]string{store.AuditOffer, store.AuditPermit, store.AuditResult}, w.kinds(row)); d != "" {
		t.Error(d)
	}
}

func TestAPlainRunnerHoldsAFewSteps(t *testing.T) {
	w := newWorld(t)
	r, st := w.plain(w.subject("acme", "ann"))
	w.pass(wire.PlainAfter)
	for range wire.DefaultMaxStep + 1 {
		w.ask(r.subject, "")
	}
	first := st.frame()
	for range wire.DefaultMaxStep - 1 {
		st.frame()
	}
	st.silent()
	r.post(output(first, ""))
	st.frame()
}

// An open stream is a plain runner's sign of life; when it is closed the window begins.
func TestAPlainRunnersStepsAreUnknownAfterTheWindow(t *testing.T) {
	w := newWorld(t)
	r, st := w.plain(w.subject("acme", "ann"))
	w.pass(wire.PlainAfter)
	row := w.ask(r.subject, "")
	d := st.frame()
	w.pass(5 * time.Minute)
	if got := w.step(row).State; got != store.StepAccepted {
		t.Fatalf("step is %s while the stream is open", got)
	}
	st.close()
	w.until("disconnected", func() bool { return w.dispatch.Presence(r.row()).Status == dispatch.Disconnected })
	w.pass(wire.LostAfter - 2*time.Second)
	if got := w.step(row).State; got != store.StepAccepted {
		t.Fatalf("step is %s within the window", got)
	}
	st = r.open("") // without a cursor: what it was sent is not sent again, for it may have begun
	w.pass(time.Second)
	st.silent()
	st.close()
	w.until("disconnected", func() bool { return w.dispatch.Presence(r.row()).Status == dispatch.Disconnected })
	w.pass(wire.LostAfter + time.Second)
	if code, outcome := w.failure(row); code != "runner_unavailable" || outcome != dispatch.OutcomeUnknown {
		t.Errorf("failed as %s %s", code, outcome)
	}
	if v := r.post(output(d, "")); v != wire.VerdictLate {
		t.Errorf("verdict %s", v)
	}
}

func TestARunnerThatEverReportedIsNotPlain(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	st.close()
	r.register()
	st = r.open("")
	w.pass(wire.PlainAfter + time.Second)
	w.ask(r.subject, "")
	st.silent()
	r.report()
	st.frame()
}

func TestAPlainRunnerMayLearnToReport(t *testing.T) {
	w := newWorld(t)
	r, st := w.plain(w.subject("acme", "ann"))
	w.pass(wire.PlainAfter)
	row := w.ask(r.subject, "")
	st.frame()
	r.epoch = r.row().Epoch
	r.report() // it holds nothing, says its first report
	if code, outcome := w.failure(row); code != "runner_unavailable" || outcome != dispatch.OutcomeUnknown {
		t.Errorf("failed as %s %s", code, outcome)
	}
	w.ask(r.subject, "")
	r.finish(st.frame())
}

func TestAPlainRunnersRefusalIsItsResult(t *testing.T) {
	w := newWorld(t)
	r, st := w.plain(w.subject("acme", "ann"))
	w.pass(wire.PlainAfter)
	row := w.ask(r.subject, "")
	if v := r.post(failed(st.frame(), wire.CodeRateLimited)); v != wire.VerdictAccepted {
		t.Errorf("verdict %s", v)
	}
	if code, _ := w.failure(row); code != "rate_limited" {
		t.Errorf("failed as %s", code)
	}
}
