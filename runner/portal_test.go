package runner_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runnerd/internal/wire"
	"runnerd/runner/local"
)

func portal(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(rw, "<html>Welcome to our WiFi! Please sign in.</html>")
}

func TestN16CaptivePortalIsNotBelieved(t *testing.T) {
	t.Run("on a result", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.answer(http.MethodPost, "/results", portal)
			w.start()
			w.gateway.offer("s")
			w.becomes("s", "accepted")
			pass(time.Hour)
			if st := w.runner.Status(); st.Outbox.Pending != 1 {
				t.Errorf("outbox %+v, want the result kept", st.Outbox)
			}
			w.answer("", "", nil)
			w.becomes("s", "done")
		})
	})
	t.Run("JSON that is no verdict", func(t *testing.T) {
		inWorld(t, func(w *world) {
			answers := []string{`{}`, `{"ok":true}`, `{"verdicts":[]}`, `{"verdicts":[{"runId":"run_1","stepId":"other","seq":1,"verdict":"accepted"}]}`,
				`{"verdicts":[{"runId":"run_1","stepId":"s","seq":1,"verdict":"stored"}]}`, `[]`, `null`, `"accepted"`, ``}
			var i atomic.Int64
			w.answer(http.MethodPost, "/results", func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				fmt.Fprint(rw, answers[i.Add(1)%int64(len(answers))])
			})
			w.start()
			w.gateway.offer("s")
			w.becomes("s", "accepted")
			w.until("every answer was tried", func() bool { return i.Load() > int64(len(answers)) })
			if st := w.runner.Status(); st.Outbox.Pending != 1 {
				t.Errorf("outbox %+v, want the result kept", st.Outbox)
			}
		})
	})
	t.Run("on everything", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.gateway.hook = func(rw http.ResponseWriter, r *http.Request) bool { portal(rw, r); return true }
			w.launch()
			pass(time.Minute)
			st := w.runner.Status()
			if st.Link.State != local.Offline || !strings.Contains(st.Link.Reason, "sign-in page") {
				t.Errorf("link %+v", st.Link)
			}
			w.answer("", "", nil)
			w.until("online", func() bool { return w.runner.Status().Link.State == local.Online })
		})
	})
	t.Run("on the stream", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.answer(http.MethodGet, "/dispatches", portal)
			w.launch()
			pass(time.Minute)
			if st := w.runner.Status(); !strings.Contains(st.LastError, "sign-in page") {
				t.Errorf("status %+v", st)
			}
		})
	})
}

func TestN17RedirectIsNotFollowed(t *testing.T) {
	inWorld(t, func(w *world) {
		var hosts sync.Map
		w.gateway.hook = func(rw http.ResponseWriter, r *http.Request) bool {
			hosts.Store(r.Host, true)
			if r.Host == "evil.example" {
				t.Errorf("%s %s went to %s with %q", r.Method, r.URL, r.Host, r.Header.Get("Authorization"))
			}
			http.Redirect(rw, r, "http://evil.example/take", http.StatusTemporaryRedirect)
			return true
		}
		w.launch()
		pass(time.Minute)
		st := w.runner.Status()
		if st.Link.State != local.Offline || !strings.Contains(st.Link.Reason, "evil.example") || !strings.Contains(st.Link.Reason, "not followed") {
			t.Errorf("link %+v", st.Link)
		}
		n := 0
		hosts.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Errorf("%d hosts were asked", n)
		}
	})
}

// A proxy holds the stream back until it ends: nothing comes within 20 s of the headers (UD-69).
func TestUD69BufferedStreamIsReplacedByShortOnes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.gateway.hook = func(rw http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/dispatches") {
				return false
			}
			held := &holder{ResponseWriter: rw, body: &strings.Builder{}}
			w.gateway.stream(held, r)
			fmt.Fprint(rw, held.body.String())
			return true
		}
		w.launch()
		w.until("short streams", func() bool { return w.runner.Status().Link.Mode == "short streams" })
		if reason := w.runner.Status().Link.ModeReason; !strings.Contains(reason, "holds event streams back") {
			t.Errorf("reason %q", reason)
		}
		begun := time.Now()
		w.gateway.offer("s")
		w.becomes("s", "done")
		if took := time.Since(begun); took > wire.AcceptWithin {
			t.Errorf("took %v, more than an offer lasts", took)
		}
		pass(5 * time.Minute)
		if st := w.runner.Status(); st.Link.State != local.Online || w.reconnects() != 0 {
			t.Errorf("not one calm connection: %+v, %v", st.Link, st.Reconnects)
		}
		w.gateway.mu.Lock()
		defer w.gateway.mu.Unlock()
		if got := w.gateway.lengths[len(w.gateway.lengths)-1]; got != strconv.FormatInt(wire.BoundedStream.Milliseconds(), 10) {
			t.Errorf("asked for maxMs=%s", got)
		}
	})
}

// A holder keeps the body back, and lets the headers go.
type holder struct {
	http.ResponseWriter
	body *strings.Builder
}

func (h *holder) Write(p []byte) (int, error) { return h.body.Write(p) }
func (h *holder) Unwrap() http.ResponseWriter { return h.ResponseWriter }
