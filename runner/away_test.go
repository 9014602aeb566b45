package runner_test

import (
	"context"
	"io/fs"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"runnerd/internal/wire"
	"runnerd/runner/local"
	"runnerd/runner/provider"
	"runnerd/runner/step"
)

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

func TestUD16ClockSkewIsShownAndDisturbsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.gateway.hook = func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.Header().Set("Date", time.Now().Add(20*time.Minute).UTC().Format(http.TimeFormat))
			return false
		}
		w.start()
		w.gateway.offer("s")
		w.becomes("s", "done")
		if all := strings.Join(w.runner.Status().Warnings, "\n"); !strings.Contains(all, "clock skew of 20 min") {
			t.Errorf("warnings %q", all)
		}
	})
}

// A plain host is posted to after a restart like any other.
func TestPlainHostsStepIsNotForgottenByARestart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.gateway.with(func() { w.gateway.plain = true })
		w.answer(http.MethodPost, "/results", portal)
		w.start()
		w.gateway.offer("s")
		w.until("finished", func() bool { return w.runner.Status().Outbox.Pending == 1 })
		w.halt()
		w.answer("", "", nil)
		w.start()
		if s := w.becomes("s", "done"); text(t, s.result) != "done s" || w.backend.ran("s") != 1 {
			t.Errorf("%s after %d turns", s.result, w.backend.ran("s"))
		}
	})
}
