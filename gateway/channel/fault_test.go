package channel_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/dispatch"
	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// G05: killed after the offer was made durable, before its frame left.
func TestAnOfferOutlivesTheGateway_G05(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	st.close()
	r.register() // connected again, but its stream is not open yet
	row := w.ask(r.subject, "")
	if got := w.step(row).State; got != store.StepQueued {
		t.Fatalf("step is %s", got)
	}
	st = r.open("")
	r.report()
	first := st.event()
	w.kill()
	r.register()
	st = r.open("") // the runner never processed the frame, so its cursor is below it
	if again := st.event(); again.ID != first.ID || !bytes.Equal(again.Data, first.Data) {
		t.Errorf("the frame came again as\n%s %s, first it was\n%s %s", again.ID, again.Data, first.ID, first.Data)
	}
	r.report()
	d, err := wire.Decode[wire.Dispatch](first.Data)
	if err != nil {
		t.Fatal(err)
	}
	r.finish(d)
	if diff := cmp.Diff([]string{store.AuditOffer, store.AuditPermit, store.AuditResult}, w.kinds(row)); diff != "" {
		t.Error(diff)
	}
}

// G07: killed after the frame left, before it was accepted.
func TestAnOfferThatNobodyAcceptsGoesToAnother_G07(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, "")
	d := st.frame()
	w.kill()
	other, st2 := w.online(r.subject)
	st2.silent() // it is still the first one's
	w.clock.advance(wire.AcceptWithin)
	other.report()
	w.sweep()
	d2 := st2.frame()
	if d2.StepID != d.StepID {
		t.Errorf("frame %+v", d2.Ref())
	}
	r.register()
	r.open("")
	reply := r.report(accepting(d)) // late
	if diff := cmp.Diff([]wire.Stop{{StepRef: d.Ref(), Reason: wire.StopGone}}, reply.Stop); diff != "" || reply.Permits != nil {
		t.Errorf("permits %+v, stop %s", reply.Permits, diff)
	}
	other.finish(d2)
	want := []string{store.AuditOffer, store.AuditWithdrawn, store.AuditOffer, store.AuditPermit, store.AuditResult}
	if diff := cmp.Diff(want, w.kinds(row)); diff != "" {
		t.Error(diff)
	}
}

// G07b: killed after the permit was made durable, before the runner read it.
func TestAPermitOutlivesTheGateway_G07b(t *testing.T) {
	for name, held := range map[string]bool{"the runner says that it accepted": true, "the runner knows nothing": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r, st := w.online(w.subject("acme", "ann"))
			row := w.ask(r.subject, "")
			d := st.frame()
			r.report(accepting(d)) // the answer is lost
			w.kill()
			_, st2 := w.online(r.subject)
			if held {
				r.held = []wire.Held{{StepRef: d.Ref(), Phase: wire.PhaseAccepted}}
			}
			r.register()
			st = r.open("")
			reply := r.report()
			if held != (len(reply.Permits) == 1) {
				t.Errorf("permits %+v", reply.Permits)
			}
			st.silent()
			st2.silent() // never offered again, to anyone
			if !held {
				if code, outcome := w.failure(row); code != "runner_unavailable" || outcome != dispatch.OutcomeUnknown {
					t.Errorf("failed as %s %s", code, outcome)
				}
				return
			}
			if v := r.post(output(d, "")); v != wire.VerdictAccepted {
				t.Errorf("verdict %s", v)
			}
		})
	}
}

// R01: connected and idle, then gone.
func TestNewStepsFailInTimeWhenTheRunnerIsGone_R01(t *testing.T) {
	t.Run("the socket closes", func(t *testing.T) {
		w := newWorld(t)
		r, st := w.online(w.subject("acme", "ann"))
		st.close()
		w.until("disconnected", func() bool { return w.dispatch.Presence(r.row()).Status == dispatch.Disconnected })
		notStarted(t, w, r)
	})
	t.Run("packets are dropped", func(t *testing.T) {
		w := newWorld(t)
		r, st := w.online(w.subject("acme", "ann"))
		w.pass(wire.DisconnectedAfter)
		if got := w.dispatch.Presence(r.row()); got.Status != dispatch.Disconnected || got.Dispatchable {
			t.Errorf("presence %+v", got)
		}
		notStarted(t, w, r)
		st.silent()
	})
}

func notStarted(t *testing.T, w *world, r *runner) {
	t.Helper()
	row := w.ask(r.subject, "")
	w.pass(wire.QueueWait - time.Second)
	if got := w.status(row); got != "running" {
		t.Errorf("run is %s before the wait is over", got)
	}
	w.pass(2 * time.Second)
	if code, outcome := w.failure(row); code != "runner_unavailable" || outcome != dispatch.OutcomeNotStarted {
		t.Errorf("failed as %s %s", code, outcome)
	}
}

// R03: the runner ends after its accept was sent and before it read the permit.
func TestAfterARestartTheFirstReportDecides_R03(t *testing.T) {
	for name, tt := range map[string]struct {
		arrived, held bool
		permit        bool
		status        string
	}{
		"the accept arrived and is held":         {true, true, true, "running"},
		"the accept arrived and is not held":     {true, false, false, "failed"},
		"the accept never arrived and is held":   {false, true, true, "running"},
		"the accept never arrived, nor was kept": {false, false, false, "running"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r, st := w.online(w.subject("acme", "ann"))
			row := w.ask(r.subject, "")
			d := st.frame()
			if tt.arrived {
				r.report(accepting(d))
			}
			if tt.held {
				r.held = []wire.Held{{StepRef: d.Ref(), Phase: wire.PhaseAccepted}}
			}
			r.register()
			st2 := r.open("")
			if got := len(r.report().Permits) == 1; got != tt.permit {
				t.Errorf("permit %v", got)
			}
			if got := w.status(row); got != tt.status {
				t.Errorf("run is %s", got)
			}
			if !tt.arrived && !tt.held { // the frame comes again, and the step runs once
				r.finish(st2.frame())
			}
		})
	}
}

// R18: the user deleted the journal.
func TestANewJournalEndsWhatTheOldOneAccepted_R18(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, "")
	d := st.frame()
	r.accept(d)
	r.journal, r.cursor = fresh("journal-"), 0
	r.register()
	st2 := r.open("")
	reply := r.report(accepting(d)) // even what it claims to hold: it cannot know how far it came
	if reply.Permits != nil || len(reply.Stop) == 0 {
		t.Errorf("reply %+v", reply)
	}
	if reply.Cursor != d.Seq {
		t.Errorf("cursor %d, want %d", reply.Cursor, d.Seq)
	}
	if code, outcome := w.failure(row); code != "runner_unavailable" || outcome != dispatch.OutcomeUnknown {
		t.Errorf("failed as %s %s", code, outcome)
	}
	st2.silent()
	r.held = nil
	r.report()
	w.ask(r.subject, "")
	if got := st2.frame(); got.Seq != d.Seq+1 {
		t.Errorf("the next frame has seq %d", got.Seq)
	}
}

// I9: a runner that has seen more than this store, because the store was restored, gets numbers above what it has seen.
func TestTheLargerCursorWins_I9(t *testing.T) {
	w := newWorld(t)
	r := w.runner(w.subject("acme", "ann"))
	r.register()
	r.cursor = 41
	st := r.open("")
	if got := r.report().Cursor; got != 41 {
		t.Errorf("cursor %d", got)
	}
	w.ask(r.subject, "")
	if got := st.frame(); got.Seq != 42 {
		t.Errorf("seq %d", got.Seq)
	}
	r.cursor = 1 << 60
	if got := r.refused("POST", "/reports", r.next()); got != "400 validation_error cursor" {
		t.Error(got)
	}
}

// I9, R02: only frames above the cursor are sent, each as it was first sent.
func TestReconnectingResumesAfterTheCursor_I9_R02(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	for range 3 {
		w.ask(r.subject, "")
	}
	var first [3][]byte
	for i := range first {
		first[i] = st.event().Data
	}
	r.cursor = 1
	st2 := r.open("") // replaces the first without a new registration
	if got := st.control(); got != wire.ControlSuperseded {
		t.Errorf("control %s", got)
	}
	for i, data := range first[1:] {
		if ev := st2.event(); !bytes.Equal(ev.Data, data) || ev.ID != fmt.Sprint(i+2) {
			t.Errorf("frame %s is %s, first it was %s", ev.ID, ev.Data, data)
		}
	}
	st2.silent()
}

// H05, the gateway's side: the cursor never goes back and never repeats, whatever happens to offers.
func TestSeqsRiseOverWithdrawalsKillsAndRefusals_H05(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, `{"runner.waitMs":3600000}`)
	last := int64(0)
	see := func() wire.Dispatch {
		t.Helper()
		d := st.frame()
		if d.Seq <= last || d.RunID != string(row.ID) {
			t.Fatalf("seq %d after %d", d.Seq, last)
		}
		last = d.Seq
		return d
	}
	see()
	w.clock.advance(wire.AcceptWithin)
	r.report()
	w.sweep() // withdrawn, and offered again
	see()
	w.kill()
	r.register()
	r.cursor = last
	st = r.open("")
	r.report()
	w.clock.advance(wire.AcceptWithin + 2*time.Second) // after a kill the store's clock may be a second behind
	r.report()
	w.sweep()
	d := see()
	r.report(refusing(d, wire.CodeBusy))
	r.report()
	see()
	st.close()
	w.until("the offer is withdrawn", func() bool { return w.step(row).State == store.StepQueued })
	st = r.open("")
	r.report()
	r.finish(see())
}

// H07: the gateway never sends a step that has its result, whatever cursor a runner comes with.
func TestAFinishedStepIsNeverSentAgain_H07(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	w.ask(r.subject, "")
	r.finish(st.frame())
	for _, restart := range []func(){func() {}, w.kill} {
		restart()
		r.register()
		st := r.open("") // from the start
		r.report()
		st.silent()
	}
}

// UD-23: the frame was sent, and nothing came back.
func TestAnUnacknowledgedOfferIsNeverSilent_UD23(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, `{"runner.waitMs":25000}`)
	st.frame()
	w.clock.advance(wire.AcceptWithin)
	r.report()
	w.sweep()
	st.frame() // once more, while the wait lasts
	w.clock.advance(5 * time.Second)
	r.report()
	w.sweep()
	if code, outcome := w.failure(row); code != "runner_unavailable" || outcome != dispatch.OutcomeNotStarted {
		t.Errorf("failed as %s %s", code, outcome)
	}
	want := []string{store.AuditOffer, store.AuditWithdrawn, store.AuditOffer, store.AuditWithdrawn, store.AuditFailed}
	if diff := cmp.Diff(want, w.kinds(row)); diff != "" {
		t.Error(diff)
	}
}

// UD-97, UD-99: a step in flight at disconnection stays what it is until the window ends, and nothing replaces it.
func TestTheDisconnectedWindow_UD97_UD99(t *testing.T) {
	for name, back := range map[string]bool{"the runner comes back": true, "the runner stays away": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r, st := w.online(w.subject("acme", "ann"))
			row := w.ask(r.subject, "")
			d := st.frame()
			r.accept(d)
			_, idle := w.online(r.subject)
			st.close()
			w.until("disconnected", func() bool { return w.dispatch.Presence(r.row()).Status == dispatch.Disconnected })
			p := w.dispatch.Presence(r.row())
			if left := p.Until.Sub(w.clock.now()); left <= wire.OfflineAfter-5*time.Second || left > wire.OfflineAfter {
				t.Errorf("the window ends in %v", left)
			}
			w.pass(wire.LostAfter - 5*time.Second)
			if got := w.step(row).State; got != store.StepAccepted {
				t.Fatalf("step is %s within the window", got)
			}
			idle.silent()
			if back {
				r.open("")
				r.report()
				w.pass(time.Minute)
				if v := r.post(output(d, "")); v != wire.VerdictAccepted {
					t.Errorf("verdict %s", v)
				}
				return
			}
			w.pass(10 * time.Second)
			if code, outcome := w.failure(row); code != "runner_unavailable" || outcome != dispatch.OutcomeUnknown {
				t.Errorf("failed as %s %s", code, outcome)
			}
			if got := w.dispatch.Presence(r.row()).Status; got != dispatch.Offline {
				t.Errorf("presence %s", got)
			}
			idle.silent()
		})
	}
}

// UD-97: windows start anew when a gateway starts; nobody is lost because the gateway was away.
func TestWindowsStartAnewWithTheGateway_UD97(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, "")
	d := st.frame()
	r.accept(d)
	w.clock.advance(time.Hour) // the gateway's downtime; the store's clock does not count it
	w.clock.advance(-time.Hour)
	w.kill()
	if got := w.dispatch.Presence(r.row()); got.Status != dispatch.Disconnected {
		t.Errorf("presence %+v", got)
	}
	w.pass(wire.LostAfter - time.Second)
	if got := w.step(row).State; got != store.StepAccepted {
		t.Errorf("step is %s", got)
	}
	if v := r.post(output(d, "")); v != wire.VerdictAccepted { // judged by (runner, seq), in no epoch at all
		t.Errorf("verdict %s", v)
	}
}

// UD-98: a runner gets nothing before its first report, and no step stays open that this report does not hold.
func TestNothingIsOfferedBeforeTheFirstReport_UD98(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	held, forgotten := w.ask(r.subject, ""), w.ask(r.subject, "")
	first, second := st.frame(), st.frame()
	r.accept(first)
	r.accept(second)
	r.drop(second.Ref())
	r.register()
	st2 := r.open("")
	waiting := w.ask(r.subject, "")
	st2.silent()
	if p := w.dispatch.Presence(r.row()); p.Dispatchable || p.Status == dispatch.Online {
		t.Errorf("presence before the first report: %+v", p)
	}
	r.report()
	if got := st2.frame().RunID; got != string(waiting.ID) {
		t.Errorf("frame of %s", got)
	}
	if w.status(held) != "running" || w.status(forgotten) != "failed" {
		t.Errorf("the held step's run is %s, the other %s", w.status(held), w.status(forgotten))
	}
}

func TestNotReadyRunnersAreOnlineAndGetNothing(t *testing.T) {
	for _, state := range []string{wire.StatePaused, wire.StateDraining, wire.StateSleeping} {
		w := newWorld(t)
		r, st := w.online(w.subject("acme", "ann"))
		is := func(rep *wire.Report) { rep.State = state }
		r.report(is)
		w.ask(r.subject, "")
		st.silent()
		if p := w.dispatch.Presence(r.row()); p.Status != dispatch.Online || p.Dispatchable || p.State != state {
			t.Errorf("presence %+v", p)
		}
		r.report()
		st.frame()
	}
}

// G15: the deadline and the result come at the same moment; exactly one of them counts.
func TestDeadlineAndResultAtTheSameMoment_G15(t *testing.T) {
	for i := range 10 {
		w := newWorld(t)
		r, st := w.online(w.subject("acme", "ann"))
		row := w.ask(r.subject, `{"runner.timeoutMs":1000}`)
		d := st.frame()
		r.accept(d)
		w.clock.advance(time.Second + wire.StepGrace)
		verdict := make(chan string)
		go func() { verdict <- r.post(output(d, "just in time")) }()
		w.sweep()
		s, v := w.step(row), <-verdict
		if s.State == store.StepAccepted {
			s = w.step(row)
		}
		if !(s.State == store.StepDone && v == wire.VerdictAccepted) && !(s.State == store.StepFailed && v == wire.VerdictLate) {
			t.Errorf("round %d: step %s, verdict %s", i, s.State, v)
		}
	}
}

func TestBoundedStreamsFollowEachOther(t *testing.T) {
	w := newWorld(t)
	r := w.runner(w.subject("acme", "ann"))
	r.register()
	st := r.open("maxMs=2000")
	r.report()
	w.ask(r.subject, "")
	first := st.frame()
	st.ended()
	if p := w.dispatch.Presence(r.row()); p.Status != dispatch.Online {
		t.Errorf("between two streams: %+v", p)
	}
	row := w.ask(r.subject, "") // offered while no stream is open
	r.cursor = first.Seq
	st = r.open("maxMs=2000")
	second := st.frame()
	if second.RunID != string(row.ID) {
		t.Errorf("frame %+v", second.Ref())
	}
	r.finish(first)
	st.ended()
	w.pass(6 * time.Second)
	if p := w.dispatch.Presence(r.row()); p.Status != dispatch.Disconnected {
		t.Errorf("no stream followed, and it is %+v", p)
	}
	if got := w.step(row).State; got != store.StepQueued {
		t.Errorf("step is %s", got)
	}
}
