package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"runnerd/internal/wire"
	"runnerd/runner"
	"runnerd/runner/journal"
	"runnerd/runner/local"
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
			time.Sleep(30 * time.Second)
			close(release)
		}()
		w.stop(errors.New("SIGTERM"))
		time.Sleep(time.Second)
		if r := w.lastReport(); r.State != wire.StateDraining || r.Capacity.Free != 0 {
			t.Errorf("report while stopping: %s, %+v", r.State, r.Capacity)
		}
		late := w.gateway.offer("late")
		time.Sleep(time.Second)
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

func TestR15StopWithoutANetworkKeepsTheResultForTheNextStart(t *testing.T) {
	inWorld(t, func(w *world) {
		release := make(chan struct{})
		w.backend.run = blockUntil(release)
		w.start()
		w.gateway.offer("s")
		w.becomes("s", "accepted")
		w.pipe.set(errDown, false)
		w.pipe.reset()
		time.Sleep(time.Second)
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
		time.Sleep(time.Minute)
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

func TestR18DeletedJournalNeverRunsAnOldFrame(t *testing.T) {
	inWorld(t, func(w *world) {
		release := make(chan struct{})
		w.backend.run = blockUntil(release)
		w.start()
		old := w.gateway.offer("s")
		w.becomes("s", "accepted")
		close(release)
		w.pipe.set(errDown, false)
		w.pipe.reset()
		w.halt()
		if err := os.Remove(filepath.Join(w.dir, "journal")); err != nil {
			t.Fatal(err)
		}
		w.pipe.set(nil, false)
		w.start()
		if s := w.gateway.view("s"); s.state != "lost" {
			t.Errorf("step is %s, want lost: the journal is another", s.state)
		}
		w.gateway.with(func() { w.gateway.steps["s"].state = "offered" }) // a gateway that forgot
		w.pipe.reset()
		time.Sleep(time.Minute)
		if last := w.gateway.lastID(); last != "1" || w.backend.ran("s") != 1 {
			t.Errorf("cursor %s, want the gateway's 1; %d turns (%v)", last, w.backend.ran("s"), old.ref)
		}
		w.gateway.offer("next")
		w.becomes("next", "done")
	})
}

func TestS12SecondProcessRefusesToStart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		second, err := runner.New(runner.Config{
			Dir: w.dir, Credentials: w.store, Client: &http.Client{}, Providers: w.backend, Log: w.runnerLog(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Run(w.Context()); !errors.Is(err, journal.ErrInUse) {
			t.Errorf("second Run = %v, want ErrInUse", err)
		}
	})
}

func TestS13FolderThatOthersMayEnterRefusesToStart(t *testing.T) {
	inWorld(t, func(w *world) {
		if err := os.Chmod(w.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		w.launch()
		if err := <-w.ended; !errors.Is(err, journal.ErrPermissions) || !strings.Contains(err.Error(), "chmod 700") {
			t.Errorf("Run = %v, want ErrPermissions with its remedy", err)
		}
		w.stop = nil
	})
}

// tight is a real folder whose files may grow only so far.
type tight struct {
	dir  string
	room *atomic.Int64
}

func (d tight) Open(name string) (journal.File, error) {
	f, err := os.OpenFile(filepath.Join(d.dir, name), os.O_RDWR|os.O_CREATE, 0o600)
	return tightFile{f, d.room}, err
}
func (d tight) Rename(a, b string) error {
	return os.Rename(filepath.Join(d.dir, a), filepath.Join(d.dir, b))
}
func (d tight) Remove(name string) error { return os.Remove(filepath.Join(d.dir, name)) }
func (d tight) Sync() error              { return nil }

type tightFile struct {
	*os.File
	room *atomic.Int64
}

func (f tightFile) WriteAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.room.Load() {
		return 0, syscall.ENOSPC
	}
	return f.File.WriteAt(p, off)
}

func (f tightFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func TestS02FullDiskMeansNoNewStepsUntilThereIsRoom(t *testing.T) {
	inWorld(t, func(w *world) {
		var room atomic.Int64
		room.Store(512 << 10)
		w.change = func(cfg *runner.Config) {
			cfg.Journal = journal.Options{Disk: tight{w.dir, &room}}
		}
		w.start()
		w.gateway.offer("s")
		if s := w.becomes("s", "refused"); s.refusal.Code != wire.CodeBusy || !strings.Contains(s.refusal.Message, "room") {
			t.Errorf("refused with %+v", s.refusal)
		}
		time.Sleep(time.Minute)
		if r := w.lastReport(); r.Capacity.Free != 0 || r.Capacity.Max == 0 {
			t.Errorf("capacity %+v with a full disk", r.Capacity)
		}
		room.Store(64 << 20)
		time.Sleep(time.Minute)
		if r := w.lastReport(); r.Capacity.Free == 0 {
			t.Errorf("capacity %+v though there is room again", r.Capacity)
		}
		w.gateway.offer("s2")
		w.becomes("s2", "done")
	})
}

func TestS06DamagedResultIsNotDelivered(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answer(http.MethodPost, "/results", portal)
		w.start()
		w.gateway.offer("s")
		w.becomes("s", "accepted")
		w.until("finished", func() bool { return w.runner.Status().Outbox.Pending == 1 })
		path := filepath.Join(w.dir, "journal")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		i := strings.Index(string(b), "done s")
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil || i < 0 {
			t.Fatal(i, err)
		}
		if _, err := f.WriteAt([]byte{b[i] ^ 1}, int64(i)); err != nil {
			t.Fatal(err)
		}
		f.Close()
		w.answer("", "", nil)
		if s := w.becomes("s", "done"); code(t, s.result) != wire.CodeOutcomeUnknown {
			t.Errorf("delivered %s", s.result)
		}
	})
}

func TestUD13ProbeThatBlocksDelaysNoReport(t *testing.T) {
	inWorld(t, func(w *world) {
		w.backend.probe = func(ctx context.Context) []step.Provider {
			select {
			case <-time.After(10 * time.Minute):
			case <-ctx.Done():
			}
			return []step.Provider{w.backend.ready("fake")}
		}
		begun := time.Now()
		w.start()
		if took := time.Since(begun); took > time.Second {
			t.Errorf("online after %v", took)
		}
		time.Sleep(12 * time.Minute)
		w.gateway.mu.Lock()
		at := w.gateway.reportedAt
		w.gateway.mu.Unlock()
		for i := 1; i < len(at); i++ {
			if gap := at[i].Sub(at[i-1]); gap > wire.ReportEvery+time.Second {
				t.Errorf("%v between two reports, at %v", gap, at[i].Sub(begun))
			}
		}
		w.gateway.offer("s")
		w.becomes("s", "done")
	})
}

func TestStepThatComesBeforeTheFirstProbeEndsWaitsForIt(t *testing.T) {
	inWorld(t, func(w *world) {
		w.backend.probe = func(context.Context) []step.Provider {
			time.Sleep(5 * time.Second)
			return []step.Provider{w.backend.ready("fake")}
		}
		w.start()
		w.gateway.offer("s")
		w.gateway.offer("other", func(d *wire.Dispatch) { d.Provider = "nobody" })
		if s := w.becomes("s", "done"); text(t, s.result) != "done s" {
			t.Errorf("result %s", s.result)
		}
		if s := w.becomes("other", "done"); code(t, s.result) != wire.CodeInvalidInput {
			t.Errorf("result %s", s.result)
		}
	})
}

func TestUD14FirstErrorAfterQuietHoursIsTriedAgainForTheWholeWindow(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		time.Sleep(2 * time.Hour)
		w.pipe.set(errDown, false)
		w.pipe.reset()
		synctest.Wait()
		if wait := w.runner.Status().Link.NextTryMs; wait > 2*wire.BackoffMin.Milliseconds() {
			t.Errorf("first wait is %d ms", wait)
		}
		time.Sleep(20 * time.Minute)
		w.pipe.set(nil, false)
		w.until("online", func() bool { return w.runner.Status().Link.State == local.Online })
	})
}

func TestUD15StartWithoutANetworkWaitsForIt(t *testing.T) {
	for name, how := range map[string]func(p *pipe){
		"refused":   func(p *pipe) { p.set(&fs.PathError{Op: "dial", Path: "x", Err: syscall.ECONNREFUSED}, false) },
		"no answer": func(p *pipe) { p.set(nil, true) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				how(w.pipe)
				w.launch()
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				st := w.runner.Status()
				if st.Link.State != local.Offline && st.Link.State != local.Connecting || st.LastError == "" {
					t.Errorf("status %+v %q", st.Link, st.LastError)
				}
				w.pipe.set(nil, false)
				begun := time.Now()
				w.until("online", func() bool { return w.runner.Status().Link.State == local.Online })
				if took := time.Since(begun); took > wire.BackoffMax+30*time.Second {
					t.Errorf("connected %v after the network came", took)
				}
			})
		})
	}
}

func TestUD20ResultIsKeptUntilItIsTaken(t *testing.T) {
	inWorld(t, func(w *world) {
		var posts atomic.Int64
		w.answer(http.MethodPost, "/results", func(rw http.ResponseWriter, _ *http.Request) {
			posts.Add(1)
			refuseWith(rw, http.StatusInternalServerError, "internal_error")
		})
		w.start()
		w.gateway.offer("s")
		w.becomes("s", "accepted")
		time.Sleep(3 * time.Hour)
		if n := posts.Load(); n < 180 || n > 400 {
			t.Errorf("%d posts in 3 hours, want one a minute or so", n)
		}
		w.halt()
		w.start() // a restart loses nothing either
		w.answer("", "", nil)
		if s := w.becomes("s", "done"); text(t, s.result) != "done s" || w.backend.ran("s") != 1 {
			t.Errorf("%s after %d turns", s.result, w.backend.ran("s"))
		}
	})
}

// The gateway is away for ten minutes in the middle of a step: the child goes on, and what it says arrives in order.
func TestUD30GatewayThatIsAwayDoesNotDisturbAStep(t *testing.T) {
	inWorld(t, func(w *world) {
		w.backend.run = func(ctx context.Context, s provider.Step, progress func(string)) wire.Output {
			for i := range 12 * 60 {
				if ctx.Err() != nil {
					return provider.Ended(ctx)
				}
				progress(strings.Repeat(string(rune('a'+i%26)), 9) + " ")
				time.Sleep(time.Second)
			}
			return wire.Output{Text: "through"}
		}
		w.start()
		w.gateway.offer("s")
		time.Sleep(time.Minute)
		before := w.gateway.view("s").text
		w.pipe.set(errDown, false)
		w.pipe.reset()
		time.Sleep(10 * time.Minute)
		w.pipe.set(nil, false)
		s := w.becomes("s", "done")
		if text(t, s.result) != "through" || w.backend.ran("s") != 1 {
			t.Errorf("%s after %d turns", s.result, w.backend.ran("s"))
		}
		for i := 0; i+10 <= len(s.text); i += 10 {
			if want := strings.Repeat(string(rune('a'+(i/10)%26)), 9) + " "; s.text[i:i+10] != want {
				t.Fatalf("at %d came %q, want %q", i, s.text[i:i+10], want)
			}
		}
		if len(s.text) < 11*60*10 || len(before) == 0 {
			t.Errorf("only %d bytes of progress", len(s.text))
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

func TestSupersededProcessWaitsAndSaysWhy(t *testing.T) {
	inWorld(t, func(w *world) {
		release := make(chan struct{})
		w.backend.run = blockUntil(release)
		w.start()
		w.gateway.offer("s")
		w.becomes("s", "accepted")
		w.gateway.with(func() { w.gateway.epoch++ }) // another process has registered
		w.until("superseded", func() bool { return w.runner.Status().Link.State == local.Superseded })
		if st := w.runner.Status(); !strings.Contains(st.Link.Reason, "another process") {
			t.Errorf("link %+v", st.Link)
		}
		w.gateway.mu.Lock()
		times := len(w.gateway.registered)
		w.gateway.mu.Unlock()
		close(release)
		w.becomes("s", "done") // the outbox is not the connection's
		time.Sleep(wire.SupersededWait - 30*time.Second)
		w.gateway.mu.Lock()
		if n := len(w.gateway.registered); n != times {
			t.Errorf("registered %d times more, before the time was over", n-times)
		}
		w.gateway.mu.Unlock()
		time.Sleep(time.Minute)
		if st := w.runner.Status(); st.Link.State != local.Online {
			t.Errorf("after the wait: %+v", st.Link)
		}
	})
}

// The stream of a superseded process is closed without a word: it must find out before it throws the newer one out.
func TestSupersededProcessDoesNotThrowTheNewerOneOut(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.gateway.mu.Lock()
		w.gateway.epoch++
		times := len(w.gateway.registered)
		w.gateway.mu.Unlock()
		w.pipe.reset()
		time.Sleep(time.Minute)
		w.gateway.mu.Lock()
		defer w.gateway.mu.Unlock()
		if n := len(w.gateway.registered); n != times {
			t.Errorf("registered %d times more", n-times)
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
			time.Sleep(time.Minute)
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
