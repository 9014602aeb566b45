package channel_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/dispatch"
	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

func TestAStepGoesThroughOfferPermitAndResult(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, `{"runner.timeoutMs":60000}`)
	d := st.frame()
	if d.RunID != string(row.ID) || d.StepID != "chat:1:1" || d.Kind != wire.KindModel || d.Provider != "echo" || d.Model != "echo-1" || d.Seq != 1 {
		t.Errorf("frame %+v", d)
	}
	reply := r.accept(d)
	if len(reply.Permits) != 1 || reply.Permits[0].StepRef != d.Ref() || reply.Permits[0].RemainingMs > 60_000 || reply.Permits[0].RemainingMs < 50_000 {
		t.Errorf("permits %+v", reply.Permits)
	}
	if reply.Cursor != 1 || reply.Limits != wire.DefaultLimits() {
		t.Errorf("reply %+v", reply)
	}
	if v := r.post(output(d, "hi there")); v != wire.VerdictAccepted {
		t.Errorf("verdict %s", v)
	}
	if got := w.status(row); got != "completed" {
		t.Errorf("run is %s", got)
	}
	if d := cmp.Diff([]string{store.AuditOffer, store.AuditPermit, store.AuditResult}, w.kinds(row)); d != "" {
		t.Error(d)
	}
	for i, e := range w.events(row) {
		if e.Sequence != int64(i) {
			t.Errorf("event %d has sequence %d", i, e.Sequence)
		}
	}
}

func TestTheNextStepLeavesWithTheResultOfTheOneBefore(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	w.define("acme", "two", "first", "second")
	row := w.create(request(r.subject, "two"))
	r.finish(st.frame())
	d := st.frame()
	if d.StepID != "second:1:1" || d.Seq != 2 {
		t.Errorf("second frame %+v", d.Ref())
	}
	r.finish(d)
	if got := w.status(row); got != "completed" {
		t.Errorf("run is %s", got)
	}
}

func TestPartialOutputGoesToTheRunsLog(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, "")
	d := st.frame()
	r.accept(d)
	piece := func(n int64, delta string) func(*wire.Report) {
		return func(rep *wire.Report) {
			rep.Progress = append(rep.Progress, wire.Progress{StepRef: d.Ref(), N: n, Delta: delta})
		}
	}
	r.report(piece(1, "Hel"), piece(2, "lo"))
	r.report(piece(2, "lo"), piece(3, " you"), piece(4, canary+"x"))
	foreign := d
	foreign.Seq++
	r.report(func(rep *wire.Report) {
		rep.Progress = []wire.Progress{{StepRef: foreign.Ref(), N: 9, Delta: "not mine"}}
	})
	var got []string
	for _, e := range w.events(row) {
		if e.Type == "output.chunk" {
			var p struct{ Chunk string }
			if err := json.Unmarshal(e.Payload, &p); err != nil {
				t.Fatal(err)
			}
			got = append(got, p.Chunk)
		}
	}
	if d := cmp.Diff([]string{"Hel", "lo", " you"}, got); d != "" {
		t.Error(d)
	}
}

// N05, UD-22: whatever was lost on the way back is asked again, and answered as before.
func TestLostAnswersAreGivenAgain_N05_UD22(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, "")
	d := st.frame()

	accept := r.next()
	accept.Accept = []wire.StepRef{d.Ref()}
	first := must[wire.ReportReply](r, "POST", "/reports", accept)
	again := must[wire.ReportReply](r, "POST", "/reports", accept) // the same report, because its answer was lost
	held := r.report(accepting(d))                                 // or the same accept in the next one
	for _, reply := range []wire.ReportReply{first, again, held} {
		if len(reply.Permits) != 1 || reply.Permits[0].StepRef != d.Ref() {
			t.Errorf("permits %+v", reply.Permits)
		}
	}
	for i, want := range []string{wire.VerdictAccepted, wire.VerdictDeduplicated, wire.VerdictDeduplicated} {
		if got := r.post(output(d, "once")); got != want {
			t.Errorf("post %d: %s, want %s", i, got, want)
		}
	}
	if d := cmp.Diff([]string{store.AuditOffer, store.AuditPermit, store.AuditResult}, w.kinds(row)); d != "" {
		t.Error(d)
	}
}

// N06: a proxy delivers the same POST twice, the second time ten minutes later.
func TestAResultDeliveredAgainMuchLaterChangesNothing_N06(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, "")
	d := st.frame()
	r.finish(d)
	before := w.step(row)
	w.pass(10 * time.Minute)
	if got := r.post(output(d, "done")); got != wire.VerdictDeduplicated {
		t.Errorf("verdict %s", got)
	}
	if d := cmp.Diff(before, w.step(row)); d != "" {
		t.Error(d)
	}
}

// N06, late rule: the step ended while its result was on the way.
func TestALateResultIsKeptAndChangesNothing_N06(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, "")
	d := st.frame()
	r.accept(d)
	st.close()
	w.pass(wire.LostAfter + time.Second)
	if code, outcome := w.failure(row); code != "runner_unavailable" || outcome != dispatch.OutcomeUnknown {
		t.Errorf("failed as %s %s", code, outcome)
	}
	before, events := w.step(row), len(w.events(row))
	for range 2 {
		if got := r.post(output(d, "at last")); got != wire.VerdictLate {
			t.Errorf("verdict %s", got)
		}
	}
	if d := cmp.Diff(before, w.step(row)); d != "" || len(w.events(row)) != events {
		t.Errorf("the late result changed the step or the log: %s", d)
	}
	var kept []store.Late
	w.view(func(rd store.Reader) error {
		for l, err := range rd.LateResults(row.Tenant, row.ID) {
			if err != nil {
				return err
			}
			kept = append(kept, l)
		}
		return nil
	})
	if len(kept) != 1 || !strings.Contains(string(kept[0].Output), "at last") || kept[0].Seq != d.Seq {
		t.Errorf("kept %+v", kept)
	}
	if d := cmp.Diff([]string{store.AuditOffer, store.AuditPermit, store.AuditFailed, store.AuditLate}, w.kinds(row)); d != "" {
		t.Error(d)
	}
}

func TestRefusals(t *testing.T) {
	t.Run("busy puts the step back into the queue, and the runner gets nothing until it has a lane", func(t *testing.T) {
		w := newWorld(t)
		r, st := w.online(w.subject("acme", "ann"))
		row := w.ask(r.subject, "")
		first := st.frame()
		r.report(refusing(first, wire.CodeBusy), func(rep *wire.Report) { rep.Capacity.Free = 0 })
		if got := w.step(row).State; got != store.StepQueued {
			t.Errorf("step is %s", got)
		}
		r.report(func(rep *wire.Report) { rep.Capacity.Free = 0 })
		st.silent()
		r.report()
		second := st.frame()
		if second.StepID != first.StepID || second.Seq != first.Seq+1 || string(second.Inputs) != string(first.Inputs) {
			t.Errorf("offered again as %+v", second)
		}
		r.finish(second)
		if d := cmp.Diff([]string{store.AuditOffer, store.AuditRefused, store.AuditOffer, store.AuditPermit, store.AuditResult}, w.kinds(row)); d != "" {
			t.Error(d)
		}
	})
	t.Run("busy at one runner is another's step", func(t *testing.T) {
		w := newWorld(t)
		r, st := w.online(w.subject("acme", "ann"))
		w.ask(r.subject, "")
		d := st.frame()
		_, st2 := w.online(r.subject)
		r.report(refusing(d, wire.CodeBusy))
		if got := st2.frame(); got.StepID != d.StepID || got.Seq != 1 {
			t.Errorf("offered as %+v", got.Ref())
		}
	})
	for name, say := range map[string]func(*runner, wire.Dispatch){
		"in a report": func(r *runner, d wire.Dispatch) { r.report(refusing(d, wire.CodePolicyDenied)) },
		"as a result without a permit": func(r *runner, d wire.Dispatch) {
			if v := r.post(failed(d, wire.CodePolicyDenied)); v != wire.VerdictAccepted {
				r.t.Errorf("verdict %s", v)
			}
		},
	} {
		t.Run("any other code fails the step as not started, "+name, func(t *testing.T) {
			w := newWorld(t)
			r, st := w.online(w.subject("acme", "ann"))
			row := w.ask(r.subject, "")
			say(r, st.frame())
			if code, _ := w.failure(row); code != "policy_denied" {
				t.Errorf("failed as %s", code)
			}
			if s := w.step(row); s.State != store.StepFailed || s.Outcome != dispatch.OutcomeNotStarted {
				t.Errorf("step is %s %s", s.State, s.Outcome)
			}
			if d := cmp.Diff([]string{store.AuditOffer, store.AuditRefused, store.AuditFailed}, w.kinds(row)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestAResultWithoutAPermitIsRefused(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, "")
	d := st.frame()
	if got := r.post(output(d, "I could not wait")); got != "refused not_found" {
		t.Errorf("verdict %s", got)
	}
	if got := w.step(row); got.State != store.StepOffered || got.Output != nil {
		t.Errorf("step is %s", got.State)
	}
	r.finish(d)
}

// A step that was interrupted on the laptop says so, and nobody tries it again.
func TestOutcomeUnknownEndsAsRunnerUnavailable(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, "")
	d := st.frame()
	r.accept(d)
	if got := r.post(failed(d, wire.CodeOutcomeUnknown)); got != wire.VerdictAccepted {
		t.Errorf("verdict %s", got)
	}
	if code, outcome := w.failure(row); code != "runner_unavailable" || outcome != dispatch.OutcomeUnknown {
		t.Errorf("failed as %s %s", code, outcome)
	}
	if got := r.post(failed(d, wire.CodeOutcomeUnknown)); got != wire.VerdictDeduplicated {
		t.Errorf("verdict %s", got)
	}
	st.silent()
}

// UD-28: cancel is decided at once, the runner learns by a stop in every answer, and cancelling again does nothing.
func TestCancelIsDecidedAtOnce_UD28(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, "")
	d := st.frame()
	r.accept(d)
	for range 2 {
		got, err := w.runs.Cancel(t.Context(), row.Tenant, row.ID, "no longer wanted", "ann")
		if err != nil || got != "cancelled" {
			t.Errorf("cancel: %s, %v", got, err)
		}
	}
	if got := st.control(); got != wire.ControlReport {
		t.Errorf("control %s", got)
	}
	want := []wire.Stop{{StepRef: d.Ref(), Reason: wire.StopCancelled}}
	for range 2 { // a stop is repeated while the step is held
		if diff := cmp.Diff(want, r.report().Stop); diff != "" {
			t.Error(diff)
		}
	}
	if got := r.post(failed(d, wire.CodeCancelled)); got != wire.VerdictLate {
		t.Errorf("verdict %s", got)
	}
	if got := r.report().Stop; got != nil {
		t.Errorf("stop %+v for nothing", got)
	}
	if d := cmp.Diff([]string{store.AuditOffer, store.AuditPermit, store.AuditCancel, store.AuditLate}, w.kinds(row)); d != "" {
		t.Error(d)
	}
	events := w.events(row)
	if last := events[len(events)-1]; last.Type != "run.cancelled" {
		t.Errorf("the log ends with %s", last.Type)
	}
}

// UD-28: a runner that is gone does not hold up a cancel.
func TestCancelDoesNotWaitForARunnerThatIsGone_UD28(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, "")
	d := st.frame()
	r.accept(d)
	st.close()
	if got, err := w.runs.Cancel(t.Context(), row.Tenant, row.ID, "", "ann"); err != nil || got != "cancelled" {
		t.Errorf("cancel: %s, %v", got, err)
	}
	r.open("")
	if diff := cmp.Diff([]wire.Stop{{StepRef: d.Ref(), Reason: wire.StopCancelled}}, r.report().Stop); diff != "" {
		t.Error(diff)
	}
	w.pass(time.Hour)
	if got := w.status(row); got != "cancelled" {
		t.Errorf("run is %s", got)
	}
}

func TestACancelledStepsLaneIsTakenUntilTheRunnerSaysOtherwise(t *testing.T) {
	w := newWorld(t)
	r := w.runner(w.subject("acme", "ann"))
	r.max = 1
	st := r.connect()
	row := w.ask(r.subject, "")
	d := st.frame()
	r.accept(d)
	r.report()
	if _, err := w.runs.Cancel(t.Context(), row.Tenant, row.ID, "", "ann"); err != nil {
		t.Fatal(err)
	}
	st.control()
	w.ask(r.subject, "")
	r.report() // still holds the first
	st.silent()
	r.drop(d.Ref())
	r.report()
	if got := st.frame(); got.Seq != 2 {
		t.Errorf("frame %+v", got.Ref())
	}
}

func TestTheStepsDeadlineIsTheGatewaysToo(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, `{"runner.timeoutMs":1000}`)
	d := st.frame()
	r.accept(d)
	w.clock.advance(30 * time.Second)
	r.report()
	w.sweep()
	if got := w.status(row); got != "running" {
		t.Fatalf("run is %s within the grace", got)
	}
	w.pass(16 * time.Second)
	if code, outcome := w.failure(row); code != "runner_unavailable" || outcome != dispatch.OutcomeUnknown {
		t.Errorf("failed as %s %s", code, outcome)
	}
	if diff := cmp.Diff([]wire.Stop{{StepRef: d.Ref(), Reason: wire.StopEnded}}, r.report().Stop); diff != "" {
		t.Error(diff)
	}
}

func TestWaitingStepsAreOfferedOldestFirstAsLanesComeFree(t *testing.T) {
	w := newWorld(t)
	r := w.runner(w.subject("acme", "ann"))
	r.max = 2
	var rows []store.Run
	for range 4 {
		rows = append(rows, w.ask(r.subject, ""))
	}
	st := r.connect()
	var frames []wire.Dispatch
	take := func(n int) {
		t.Helper()
		for range n {
			frames = append(frames, st.frame())
		}
		st.silent()
	}
	take(2)
	r.accept(frames[0])
	r.accept(frames[1])
	if v := r.post(output(frames[0], "")); v != wire.VerdictAccepted {
		t.Fatal(v)
	}
	take(1)
	if v := r.post(output(frames[1], "")); v != wire.VerdictAccepted {
		t.Fatal(v)
	}
	take(1)
	for i, d := range frames {
		if d.RunID != string(rows[i].ID) {
			t.Errorf("frame %d is of another run", i)
		}
	}
}

func TestAProvidersLanesBoundIt(t *testing.T) {
	w := newWorld(t)
	r := w.runner(w.subject("acme", "ann"))
	r.can = wire.Capabilities{Providers: []string{"login", "local"}}
	r.has = &wire.Inventory{Providers: map[string]wire.Provider{"login": {Lanes: 1}, "local": {}}}
	st := r.connect()
	for range 2 {
		w.ask(r.subject, `{"ai.provider":"login"}`)
	}
	d := st.frame()
	st.silent()
	w.ask(r.subject, "") // takes any
	if got := st.frame(); got.Provider != "local" {
		t.Errorf("the third went to %s", got.Provider)
	}
	r.finish(d)
	if got := st.frame(); got.Provider != "login" {
		t.Errorf("the second went to %s", got.Provider)
	}
}

// An idle heartbeat writes nothing.
func TestAnIdleReportIsNotWritten(t *testing.T) {
	w := newWorld(t)
	r, _ := w.online(w.subject("acme", "ann"))
	w.sweep()
	before := w.store.count.Load()
	for range 3 {
		w.clock.advance(wire.ReportEvery)
		r.report()
		w.sweep()
	}
	if got := w.store.count.Load() - before; got != 0 {
		t.Errorf("%d transactions in 45 idle seconds", got)
	}
	w.clock.advance(wire.ReportEvery)
	r.report()
	w.sweep()
	if got := w.store.count.Load() - before; got != 1 {
		t.Errorf("%d transactions in an idle minute; last_seen is stored once", got)
	}
	if seen := r.row().LastSeen; w.clock.now().Sub(seen) > time.Second {
		t.Errorf("last seen %v ago", w.clock.now().Sub(seen))
	}
}

func TestDelaysFireWithoutARunner(t *testing.T) {
	w := newWorld(t)
	s := w.subject("acme", "ann")
	doc := `{"id":"nap","name":"nap","version":"1","nodes":[{"id":"n","typeId":"core.delay","name":"n","position":{"x":0,"y":0},"config":{"delayMs":5000},"inputs":{}}],
		"edges":[],"triggers":[{"id":"t","type":"manual","enabled":true}],"variables":[],"metadata":{},"settings":{}}`
	w.update(func(tx store.Tx) error {
		return tx.PutWorkflow(store.Workflow{Tenant: "acme", ID: "nap", Doc: []byte(doc), Updated: at()})
	})
	row := w.create(request(s, "nap"))
	w.pass(4 * time.Second)
	if got := w.status(row); got != "running" {
		t.Errorf("run is %s", got)
	}
	w.pass(2 * time.Second)
	if got := w.status(row); got != "completed" {
		t.Errorf("run is %s; events %v", got, slices.Collect(types(w.events(row))))
	}
}
