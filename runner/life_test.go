package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"runnerd/internal/wire"
	"runnerd/runner"
	"runnerd/runner/provider"
	"runnerd/runner/step"
)

const noticeSleep = 10 * time.Second // UD-01: online within it

func code(t testing.TB, result json.RawMessage) wire.Code {
	t.Helper()
	if f := wire.Failure(result); f != nil {
		return f.Code
	}
	return ""
}

func (w *world) lastReport() wire.Report {
	w.gateway.mu.Lock()
	defer w.gateway.mu.Unlock()
	return w.gateway.reports[len(w.gateway.reports)-1]
}

func TestR15StopInTheMiddleOfAStepLetsItFinish(t *testing.T) {
	inWorld(t, func(w *world) {
		release := make(chan struct{})
		w.backend.run = blockUntil(release)
		w.start()
		w.gateway.offer("s")
		w.becomes("s", "accepted")
		go func() {
			pass(30 * time.Second)
			close(release)
		}()
		w.stop(errors.New("SIGTERM"))
		pass(time.Second)
		if r := w.lastReport(); r.State != wire.StateDraining || r.Capacity.Free != 0 {
			t.Errorf("report while stopping: %s, %+v", r.State, r.Capacity)
		}
		late := w.gateway.offer("late")
		pass(time.Second)
		if s := w.gateway.view("late"); s.state != "refused" || s.refusal.Code != wire.CodeBusy {
			t.Errorf("a frame while stopping: %s %+v (%v)", s.state, s.refusal, late.ref)
		}
		if err := w.halt(); err != nil {
			t.Errorf("Run = %v", err)
		}
		if s := w.gateway.view("s"); s.state != "done" || text(t, s.result) != "done s" {
			t.Errorf("step %s %s", s.state, s.result)
		}
	})
}

// The step does not end by itself: it is ended, and the gateway knows within 60 s, by reports that have time of their own.
func TestR15_UD21StopEndsAStepThatTakesTooLongAndSaysSo(t *testing.T) {
	inWorld(t, func(w *world) {
		w.backend.run = blockUntil(nil)
		w.start()
		w.gateway.offer("s")
		w.becomes("s", "accepted")
		begun := time.Now()
		if err := w.halt(); err != nil {
			t.Errorf("Run = %v", err)
		}
		if took := time.Since(begun); took > wire.Drain || took < 40*time.Second {
			t.Errorf("stopping took %v", took)
		}
		if s := w.gateway.view("s"); s.state != "done" || code(t, s.result) != wire.CodeCancelled {
			t.Errorf("step %s %s, want cancelled", s.state, s.result)
		}
	})
}

func TestR15StopDoesNotWaitForAPermitThatCannotCome(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.answer(http.MethodPost, "/reports", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // then the end of the connection is seen
			<-r.Context().Done()
		})
		w.gateway.offer("s")
		w.until("accepted", func() bool { return len(w.runner.Status().Steps) == 1 })
		w.pipe.set(errDown, false)
		w.pipe.reset()
		w.until("offline", func() bool { return w.runner.Status().Link.State == "offline" })
		begun := time.Now()
		if err := w.halt(); err != nil {
			t.Errorf("Run = %v", err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("stopping took %v", took)
		}
		w.answer("", "", nil)
		w.pipe.set(nil, false)
		w.start()
		w.becomes("s", "done") // it was held all the time
	})
}

func TestR15StopWithoutANetworkKeepsTheResultForTheNextStart(t *testing.T) {
	inWorld(t, func(w *world) {
		release := make(chan struct{})
		w.backend.run = blockUntil(release)
		w.start()
		w.gateway.offer("s")
		w.becomes("s", "accepted")
		w.pipe.set(errDown, false)
		w.pipe.reset()
		pass(time.Second)
		close(release)
		begun := time.Now()
		if err := w.halt(); err != nil {
			t.Errorf("Run = %v", err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("stopping took %v with nobody to talk to", took)
		}
		w.pipe.set(nil, false)
		w.start()
		if s := w.becomes("s", "done"); text(t, s.result) != "done s" || w.backend.ran("s") != 1 {
			t.Errorf("step %s after %d turns", s.result, w.backend.ran("s"))
		}
	})
}

// The process stands still past the step's end, then goes on: no second start, the result is late (also R17: a lid was shut).
func TestR16_R17StepThatWasAsleepPastItsTimeEndsAndIsLate(t *testing.T) {
	inWorld(t, func(w *world) {
		c := &clock{begun: time.Now()}
		w.change = func(cfg *runner.Config) { cfg.Clock = c }
		w.backend.run = blockUntil(nil)
		w.start()
		w.gateway.offer("s")
		w.becomes("s", "accepted")
		pass(time.Minute)
		c.sleep(8 * time.Hour)
		w.gateway.with(func() { w.gateway.steps["s"].state = "lost" })
		woke := time.Now()
		w.until("its result came", func() bool { return w.gateway.view("s").result != nil })
		if took := time.Since(woke); took > 10*time.Second {
			t.Errorf("the end was noticed %v after waking", took)
		}
		if s := w.gateway.view("s"); s.state != "lost" || code(t, s.result) != wire.CodeStepTimeout && code(t, s.result) != wire.CodeCancelled {
			t.Errorf("step %s %s", s.state, s.result)
		}
		w.until("the outbox is empty", func() bool { return len(w.runner.Status().Steps) == 0 })
		if w.backend.ran("s") != 1 {
			t.Errorf("%d turns", w.backend.ran("s"))
		}
		w.until("connected anew", func() bool { return w.runner.Status().Reconnects["sleep"] == 1 })
		if took := time.Since(woke); took > noticeSleep {
			t.Errorf("connected anew %v after waking", took)
		}
	})
}

func TestStepTimeoutEndsAStep(t *testing.T) {
	inWorld(t, func(w *world) {
		w.backend.run = blockUntil(nil)
		w.start()
		w.gateway.with(func() { w.gateway.permit = 90 * time.Second })
		w.gateway.offer("s")
		begun := time.Now()
		s := w.becomes("s", "done")
		if took := time.Since(begun); took < 85*time.Second || took > 92*time.Second || code(t, s.result) != wire.CodeStepTimeout {
			t.Errorf("after %v: %s", took, s.result)
		}
	})
}

func TestPermitThatComesTooLateStartsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.gateway.with(func() { w.gateway.permit = -time.Second })
		w.gateway.offer("s")
		s := w.becomes("s", "done")
		if code(t, s.result) != wire.CodeStepTimeout || w.backend.ran("s") != 0 {
			t.Errorf("%s after %d turns", s.result, w.backend.ran("s"))
		}
	})
}

func TestCancelReachesTheStepWithinTwoSeconds(t *testing.T) {
	inWorld(t, func(w *world) {
		ended := make(chan time.Time, 1)
		w.backend.run = func(ctx context.Context, _ provider.Step, _ func(string)) wire.Output {
			<-ctx.Done()
			ended <- time.Now()
			return provider.Ended(ctx)
		}
		w.start()
		w.gateway.offer("s")
		w.becomes("s", "accepted")
		begun := time.Now()
		w.gateway.cancel("s")
		if took := (<-ended).Sub(begun); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
		w.until("done with it", func() bool { return len(w.runner.Status().Steps) == 0 })
		if s := w.gateway.view("s"); code(t, s.result) != wire.CodeCancelled {
			t.Errorf("result %s", s.result)
		}
	})
}

func TestWithdrawnOfferIsDropped(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answer(http.MethodPost, "/reports", func(rw http.ResponseWriter, r *http.Request) {
			w.gateway.mu.Lock()
			if s := w.gateway.steps["s"]; s != nil {
				s.state = "withdrawn" // before the accept arrives
			}
			w.gateway.mu.Unlock()
			w.gateway.report(rw, r)
		})
		w.start()
		w.gateway.offer("s")
		w.until("dropped", func() bool {
			return w.gateway.view("s").state == "withdrawn" && len(w.runner.Status().Steps) == 0
		})
		w.answer("", "", nil)
		w.gateway.offer("s") // the same step, under a new seq
		if s := w.becomes("s", "done"); s.ref.Seq != 2 || w.backend.ran("s") != 1 {
			t.Errorf("seq %d after %d turns", s.ref.Seq, w.backend.ran("s"))
		}
	})
}

func TestPauseAndDrainTakeNothingNewAndResumeDoes(t *testing.T) {
	inWorld(t, func(w *world) {
		release := make(chan struct{})
		w.backend.run = blockUntil(release)
		w.start()
		w.gateway.offer("first")
		w.becomes("first", "accepted")
		for state, command := range map[string]func(context.Context) error{
			wire.StatePaused: w.runner.Pause, wire.StateDraining: w.runner.Drain,
		} {
			if err := command(w.Context()); err != nil {
				t.Fatal(err)
			}
			w.until("reported", func() bool { return w.lastReport().State == state })
			pass(time.Minute)
			if r := w.lastReport(); r.State != state || r.Capacity.Free != 0 { // a heartbeat changes nothing (UD-17)
				t.Errorf("a minute later %s, %+v", r.State, r.Capacity)
			}
			w.gateway.offer(state)
			if s := w.becomes(state, "refused"); s.refusal.Code != wire.CodeBusy {
				t.Errorf("%s: refused with %s", state, s.refusal.Code)
			}
			if err := w.runner.Resume(w.Context()); err != nil {
				t.Fatal(err)
			}
			w.until("ready", func() bool { return w.lastReport().State == wire.StateReady && w.lastReport().Capacity.Free > 0 })
		}
		close(release)
		w.becomes("first", "done") // work in hand is never disturbed
	})
}

func TestPauseOutlivesARestart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		if err := w.runner.Pause(w.Context()); err != nil {
			t.Fatal(err)
		}
		w.halt()
		w.start()
		if st := w.runner.Status(); st.State != wire.StatePaused {
			t.Errorf("state %s", st.State)
		}
	})
}

func TestLanesBoundWhatIsTaken(t *testing.T) {
	inWorld(t, func(w *world) {
		release := make(chan struct{})
		w.backend.run = blockUntil(release)
		w.backend.lanes = 1
		w.backend.probe = func(context.Context) []step.Provider {
			return []step.Provider{w.backend.ready("fake"), {ID: "wide", Backend: asBackend{w.backend}, State: provider.Ready}}
		}
		w.start()
		wide := func(d *wire.Dispatch) { d.Provider = "wide" }
		w.gateway.offer("a")
		w.becomes("a", "accepted")
		w.gateway.offer("b")
		if s := w.becomes("b", "refused"); s.refusal.Code != wire.CodeBusy || !strings.Contains(s.refusal.Message, "lanes of the provider") {
			t.Errorf("second on one lane: %+v", s.refusal)
		}
		for _, step := range []string{"c", "d", "e"} {
			w.gateway.offer(step, wide)
			w.becomes(step, "accepted")
		}
		w.gateway.offer("f", wide)
		if s := w.becomes("f", "refused"); s.refusal.Code != wire.CodeBusy {
			t.Errorf("fifth step: %+v", s.refusal)
		}
		if free := w.lastReport().Capacity.Free; free != 0 {
			t.Errorf("%d lanes are free", free)
		}
		close(release)
		w.until("the free lanes are told of", func() bool { return w.lastReport().Capacity.Free > 0 })
	})
}
