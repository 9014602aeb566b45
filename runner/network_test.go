package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"runnerd/internal/wire"
	"runnerd/runner/local"
	"runnerd/runner/provider"
)

// streamOf answers the stream with bytes of the test's own, and gives control of them.
func (w *world) streamOf(write func(rw http.ResponseWriter, r *http.Request, flush func())) {
	w.answer(http.MethodGet, "/dispatches", func(rw http.ResponseWriter, r *http.Request) {
		w.gateway.mu.Lock()
		w.gateway.lastIDs = append(w.gateway.lastIDs, r.Header.Get("Last-Event-ID"))
		w.gateway.mu.Unlock()
		rw.Header().Set("Content-Type", "text/event-stream")
		flush := func() { _ = http.NewResponseController(rw).Flush() }
		fmt.Fprint(rw, ":open\n\n")
		flush()
		write(rw, r, flush)
	})
}

func (w *world) reconnects() int {
	n := 0
	for _, of := range w.runner.Status().Reconnects {
		n += of
	}
	return n
}

func TestN01ResetWhileIdleIsFollowedByANewConnectionWithTheCursor(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.gateway.offer("s")
		w.becomes("s", "done")
		for i := range 5 {
			cut := time.Now()
			w.pipe.reset()
			w.until("reconnected", func() bool { return w.reconnects() == i+1 && w.runner.Status().Link.State == local.Online })
			synctest.Wait()
			w.gateway.mu.Lock()
			took, last := w.gateway.opened[len(w.gateway.opened)-1].Sub(cut), w.gateway.lastIDs[len(w.gateway.lastIDs)-1]
			w.gateway.mu.Unlock()
			if took < wire.BackoffMin/2 || took > 2*wire.BackoffMin {
				t.Errorf("reconnected after %v, want about %v", took, wire.BackoffMin)
			}
			if last != "1" {
				t.Errorf("Last-Event-ID %q, want 1", last)
			}
		}
	})
}

func TestN01BackoffGrowsToAMinuteWhileThereIsNoNetwork(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.pipe.set(errDown, false)
		w.pipe.reset()
		pass(30 * time.Minute)
		tries := w.runner.Status()
		if tries.Link.State != local.Offline || tries.Link.NextTryMs > wire.BackoffMax.Milliseconds() || tries.Link.Reason == "" {
			t.Errorf("status %+v", tries.Link)
		}
		w.pipe.set(nil, false)
		pass(wire.BackoffMax)
		synctest.Wait()
		if st := w.runner.Status(); st.Link.State != local.Online {
			t.Errorf("a minute after the network is back: %+v", st.Link)
		}
	})
}

func TestN02ResetInTheMiddleOfAFrameGivesTheWholeFrameAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		half := true
		w.streamOf(func(rw http.ResponseWriter, r *http.Request, flush func()) {
			w.gateway.mu.Lock()
			s, first := w.gateway.steps["s"], half
			half = false
			w.gateway.mu.Unlock()
			if first {
				pass(time.Second)
				w.gateway.mu.Lock()
				s = w.gateway.steps["s"]
				w.gateway.mu.Unlock()
				fmt.Fprintf(rw, "id: %d\nevent: dispatch\ndata: %s", s.ref.Seq, s.frame[:len(s.frame)/2])
				flush()
				panic(http.ErrAbortHandler)
			}
			fmt.Fprintf(rw, "id: %d\nevent: dispatch\ndata: %s\n\n", s.ref.Seq, s.frame)
			flush()
			<-r.Context().Done()
		})
		w.start()
		w.gateway.offer("s")
		w.becomes("s", "done")
		w.gateway.mu.Lock()
		defer w.gateway.mu.Unlock()
		if !slices.Equal(w.gateway.lastIDs, []string{"0", "0"}) || w.backend.ran("s") != 1 {
			t.Errorf("Last-Event-IDs %q, %d turns", w.gateway.lastIDs, w.backend.ran("s"))
		}
	})
}

// Packets are dropped both ways and nobody is told: what is silent for 40 s is dead (UD-02).
func TestN03_UD02BlackholedLinkIsReplacedWithinAMinute(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		pass(7 * time.Second)
		w.gateway.mu.Lock()
		before := len(w.gateway.opened)
		w.gateway.mu.Unlock()
		hole := time.Now()
		w.pipe.blackhole()
		w.until("a new stream", func() bool {
			w.gateway.mu.Lock()
			defer w.gateway.mu.Unlock()
			return len(w.gateway.opened) > before
		})
		if took := time.Since(hole); took > time.Minute || took < 15*time.Second {
			t.Errorf("replaced after %v", took)
		}
	})
}

func TestN05LostAnswerToAResultMeansItIsPostedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		var lost atomic.Int64
		w.gateway.hook = func(rw http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/results") || lost.Add(1) > 3 {
				return false
			}
			w.gateway.results(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		w.start()
		w.gateway.offer("s")
		w.becomes("s", "done")
		w.until("acknowledged", func() bool { return len(w.runner.Status().Steps) == 0 })
		if n := get(w.gateway, func() int { return len(w.gateway.posted) }); n != 4 || w.backend.ran("s") != 1 {
			t.Errorf("posted %d times after %d turns, want 4 and 1", n, w.backend.ran("s"))
		}
	})
}

func TestN07StatusOfAPostDecidesWhetherItIsTriedAgainOrParked(t *testing.T) {
	for status, parks := range map[int]bool{
		400: true, 403: true, 404: true, 409: true, 410: true, 413: true, 422: true,
		408: false, 429: false, 500: false, 502: false, 503: false, 504: false, 507: false,
	} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			inWorld(t, func(w *world) {
				var count atomic.Int64
				w.answer(http.MethodPost, "/results", func(rw http.ResponseWriter, _ *http.Request) {
					count.Add(1)
					rw.Header().Set("Retry-After", "7")
					refuseWith(rw, status, "no")
				})
				w.start()
				w.gateway.offer("s")
				w.becomes("s", "accepted")
				pass(time.Minute)
				synctest.Wait()
				st, posts := w.runner.Status(), count.Load()
				switch {
				case parks && (posts != 1 || st.Outbox.Parked != 1 || !strings.Contains(st.Steps[0].Parked, strconv.Itoa(status)) || len(st.Warnings) == 0):
					t.Errorf("%d posts, status %+v %v, want it parked and shown", posts, st.Outbox, st.Steps)
				case !parks && (posts < 3 || posts > 9 || st.Outbox.Pending != 1):
					t.Errorf("%d posts in a minute, status %+v, want some, 7 s apart or more", posts, st.Outbox)
				}
				w.answer("", "", nil)
				begun := time.Now()
				w.becomes("s", "done")
				if took := time.Since(begun); took > wire.ParkedRetry {
					t.Errorf("delivered after %v", took)
				}
				if w.backend.ran("s") != 1 {
					t.Errorf("%d turns", w.backend.ran("s"))
				}
			})
		})
	}
}

func TestN07ParkedResultIsKeptSevenDaysAndTriedAfterANewConnection(t *testing.T) {
	inWorld(t, func(w *world) {
		var posts atomic.Int64
		w.answer(http.MethodPost, "/results", func(rw http.ResponseWriter, _ *http.Request) {
			posts.Add(1)
			refuseWith(rw, 403, "forbidden")
		})
		w.start()
		w.gateway.offer("s")
		w.becomes("s", "accepted")
		pass(10 * time.Minute)
		w.pipe.reset()
		pass(time.Minute)
		if n := posts.Load(); n != 2 {
			t.Errorf("%d posts, want one more after the new connection", n)
		}
		pass(6 * 24 * time.Hour)
		if st := w.runner.Status(); st.Outbox.Parked != 1 {
			t.Errorf("after six days: %+v", st.Outbox)
		}
		if n := posts.Load(); n < 6*24-2 || n > 6*24+4 {
			t.Errorf("%d posts in 6 days", n)
		}
		pass(25 * time.Hour)
		if st := w.runner.Status(); st.Outbox.Parked != 0 {
			t.Errorf("after more than seven days: %+v", st.Outbox)
		}
	})
}

// One result that the gateway does not take must not keep the others from it.
func TestN07OneBadResultDoesNotParkItsBatch(t *testing.T) {
	inWorld(t, func(w *world) {
		w.gateway.hook = func(rw http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/results") {
				return false
			}
			return badBatch(rw, r, w.gateway)
		}
		release := make(chan struct{})
		w.backend.run = blockUntil(release)
		w.start()
		for _, step := range []string{"a", "bad", "c"} {
			w.gateway.offer(step)
		}
		for _, step := range []string{"a", "bad", "c"} {
			w.becomes(step, "accepted")
		}
		close(release)
		w.becomes("a", "done")
		w.becomes("c", "done")
		if st := w.runner.Status(); st.Outbox.Parked != 1 || st.Outbox.Pending != 0 {
			t.Errorf("outbox %+v", st.Outbox)
		}
	})
}

func badBatch(rw http.ResponseWriter, r *http.Request, g *gateway) bool {
	var raw json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&raw); err != nil {
		g.t.Error(err)
	}
	if strings.Contains(string(raw), `"bad"`) {
		refuseWith(rw, 400, "validation_error")
		return true
	}
	r.Body = http.NoBody
	r2 := r.Clone(r.Context())
	r2.Body = readCloser{strings.NewReader(string(raw))}
	g.results(rw, r2)
	return true
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

func TestN09HowAFrameIsCutIntoPacketsMakesNoDifference(t *testing.T) {
	inWorld(t, func(w *world) {
		w.streamOf(func(rw http.ResponseWriter, r *http.Request, flush func()) {
			pass(time.Second)
			var all strings.Builder
			for i := range 4 {
				s := w.gateway.view(fmt.Sprint("s", i))
				all.WriteString(fmt.Sprintf("id: %d\r\nevent: dispatch\ndata: %s\n\n", s.ref.Seq, s.frame))
			}
			byByte := all.String()[:len(all.String())/2]
			for i := range len(byByte) {
				fmt.Fprint(rw, byByte[i:i+1])
				flush()
			}
			fmt.Fprint(rw, all.String()[len(all.String())/2:])
			flush()
			<-r.Context().Done()
		})
		w.start()
		for i := range 4 {
			w.gateway.offer(fmt.Sprint("s", i))
		}
		for i := range 4 {
			w.becomes(fmt.Sprint("s", i), "done")
		}
	})
}

func TestN10TextOfAFrameArrivesExactly(t *testing.T) {
	for name, text := range map[string]string{
		"line ends": "a\rb\nc\r\nd", "separators": "a\u2028b\u2029c", "NUL": "a\x00b", "fields": "data: x\nid: 9\nevent: y\n\n:comment",
		"an event": "\n\nid: 99\ndata: {}\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				got := ""
				w.backend.run = func(_ context.Context, s provider.Step, _ func(string)) wire.Output {
					got = s.Inputs.Messages[0].Content.String()
					return wire.Output{}
				}
				w.start()
				w.gateway.offer("s", func(d *wire.Dispatch) {
					b, err := json.Marshal(wire.ModelInputs{Messages: []wire.Message{{Role: "user", Content: wire.Text(text)}}})
					if err != nil {
						t.Error(err)
					}
					d.Inputs = b
				})
				w.becomes("s", "done")
				if got != text {
					t.Errorf("got %q, want %q", got, text)
				}
			})
		})
	}
}

func TestN11FrameWithABadIDIsRefusedAndTheCursorStays(t *testing.T) {
	for name, id := range map[string]string{
		"NUL": "id: 1\x00", "empty": "id:", "missing": "x: y", "no number": "id: one", "2^63": "id: 9223372036854775808", "negative": "id: -1",
		"another's": "id: 7",
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.streamOf(func(rw http.ResponseWriter, r *http.Request, flush func()) {
					pass(time.Second)
					w.gateway.mu.Lock()
					s := w.gateway.steps["s"]
					w.gateway.mu.Unlock()
					fmt.Fprintf(rw, "%s\nevent: dispatch\ndata: %s\n\n", id, s.frame)
					flush()
					<-r.Context().Done()
				})
				w.start()
				w.gateway.offer("s")
				w.until("reconnected", func() bool { return w.reconnects() >= 2 })
				w.gateway.mu.Lock()
				defer w.gateway.mu.Unlock()
				for _, last := range w.gateway.lastIDs {
					if last != "0" {
						t.Errorf("cursor moved to %s", last)
					}
				}
				if w.backend.ran("s") != 0 {
					t.Error("it was run")
				}
			})
		})
	}
}

func TestN12EndlessEventIsCutOff(t *testing.T) {
	inWorld(t, func(w *world) {
		var read atomic.Int64
		w.streamOf(func(rw http.ResponseWriter, r *http.Request, _ func()) {
			if read.Load() > 0 {
				<-r.Context().Done()
				return
			}
			fmt.Fprint(rw, "id: 1\nevent: dispatch\ndata: ")
			chunk := strings.Repeat("x", 64<<10)
			for read.Load() < 50<<20 && r.Context().Err() == nil {
				n, err := fmt.Fprint(rw, chunk)
				if read.Add(int64(n)); err != nil {
					return
				}
			}
		})
		w.launch()
		w.until("reconnected", func() bool { return w.reconnects() >= 1 })
		if n := read.Load(); n > 3<<20 {
			t.Errorf("%d bytes of one event were read", n)
		}
		if n := w.runner.Status().Reconnects["too large"]; n < 1 {
			t.Errorf("reconnects %v", w.runner.Status().Reconnects)
		}
	})
}
