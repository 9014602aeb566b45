package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"runnerd/gateway/store"
	"runnerd/internal/sse"
	"runnerd/internal/wire"
)

// A laptop is a runner that does what the test says, over HTTP.
type laptop struct {
	w      *world
	tokens wire.TokenReply
	epoch  int64
	n      int64
	held   []wire.Held
	frames chan wire.Dispatch
}

// laptop pairs a runner, connects it and has it report.
func (w *world) laptop(who store.Subject) *laptop {
	w.t.Helper()
	l := &laptop{w: w, tokens: w.paired(who), frames: make(chan wire.Dispatch, 16)}
	var reg wire.Registered
	l.send("PUT", "/runner", wire.Registration{RunnerID: l.tokens.RunnerID, Subject: string(who),
		Capabilities: wire.Capabilities{Providers: []string{"echo"}, Models: []string{"echo-1"}}}).into(200, &reg)
	l.epoch = reg.Epoch
	l.listen()
	l.report(func(r *wire.Report) {
		r.Inventory = &wire.Inventory{Providers: map[string]wire.Provider{"echo": {Models: []string{"echo-1"}, Backend: "echo", AuthClass: wire.AuthNone, State: "ready"}}}
	})
	return l
}

func (l *laptop) send(method, path string, body any) answer {
	l.w.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		l.w.t.Fatal(err)
	}
	return l.w.send(method, host+path, l.tokens.AccessToken, string(b))
}

// listen opens the stream and hands its frames on until the test ends.
func (l *laptop) listen() {
	l.w.t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(l.w.t.Context()))
	req, err := http.NewRequestWithContext(ctx, "GET", l.w.srv.URL+host+"/dispatches?epoch=1", nil)
	if err != nil {
		l.w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+l.tokens.AccessToken)
	res, err := l.w.srv.Client().Do(req)
	if err != nil || res.StatusCode != 200 {
		l.w.t.Fatal(res, err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer res.Body.Close()
		for ev, err := range sse.Read(ctx, res.Body, sse.Options{}) {
			if err != nil {
				return
			}
			if d, err := wire.Decode[wire.Dispatch](ev.Data); err == nil {
				l.frames <- d
			}
		}
	})
	l.w.t.Cleanup(func() { stop(); wg.Wait() })
}

func (l *laptop) report(change func(*wire.Report)) wire.ReportReply {
	l.w.t.Helper()
	l.n++
	rep := wire.Report{Epoch: l.epoch, N: l.n, JournalID: "j1", State: wire.StateReady, Capacity: wire.Capacity{Free: 4 - len(l.held), Max: 4}, Held: l.held}
	if change != nil {
		change(&rep)
	}
	var out wire.ReportReply
	l.send("POST", "/reports", rep).into(200, &out)
	return out
}

// take accepts the next step.
func (l *laptop) take() wire.StepRef {
	l.w.t.Helper()
	select {
	case d := <-l.frames:
		got := l.report(func(r *wire.Report) { r.Accept = []wire.StepRef{d.Ref()} })
		if len(got.Permits) != 1 {
			l.w.t.Fatalf("no permit: %+v", got)
		}
		l.held = []wire.Held{{StepRef: d.Ref(), Phase: wire.PhaseRunning}}
		l.report(nil)
		return d.Ref()
	case <-time.After(10 * time.Second):
		l.w.t.Fatal("no frame came")
		panic("unreachable")
	}
}

func (l *laptop) progress(ref wire.StepRef, n int64, delta string) {
	l.w.t.Helper()
	l.report(func(r *wire.Report) { r.Progress = []wire.Progress{{StepRef: ref, N: n, Delta: delta}} })
}

func (l *laptop) finish(ref wire.StepRef, text string) {
	l.w.t.Helper()
	l.held = nil
	out, err := json.Marshal(wire.Output{Text: text, FinishReason: "stop", Model: "echo-1"})
	if err != nil {
		l.w.t.Fatal(err)
	}
	var got wire.Verdicts
	l.send("POST", "/results", wire.Result{RunID: ref.RunID, StepID: ref.StepID, Seq: ref.Seq, Output: out}).into(200, &got)
}

// A watcher reads a run's stream.
type watcher struct {
	t      *testing.T
	res    *http.Response
	events chan sse.Event
	ended  chan error
}

// watch opens a stream. headers are name and value in turn.
func (w *world) watch(token, path string, headers ...string) *watcher {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(w.t.Context()))
	req, err := http.NewRequestWithContext(ctx, "GET", w.srv.URL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := w.srv.Client().Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := res.Header.Get("Content-Type"); res.StatusCode != 200 || got != "text/event-stream" {
		w.t.Fatalf("%s: %d %s", path, res.StatusCode, got)
	}
	v := &watcher{w.t, res, make(chan sse.Event, 1024), make(chan error, 1)}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer res.Body.Close()
		for ev, err := range sse.Read(ctx, res.Body, sse.Options{Numbered: true}) {
			if err != nil {
				v.ended <- err
				return
			}
			v.events <- sse.Event{ID: ev.ID, Type: ev.Type, Data: append([]byte(nil), ev.Data...)}
		}
		v.ended <- nil
	})
	w.t.Cleanup(func() { stop(); wg.Wait() })
	return v
}

// next gives the next event.
func (v *watcher) next() sse.Event {
	v.t.Helper()
	select {
	case ev := <-v.events:
		return ev
	case err := <-v.ended:
		v.ended <- err
		if len(v.events) > 0 {
			return <-v.events
		}
		v.t.Fatalf("the stream has ended: %v", err)
	case <-time.After(10 * time.Second):
		v.t.Fatal("nothing came")
	}
	panic("unreachable")
}

// rest gives what comes until the stream ends, as "id type" each.
func (v *watcher) rest() []string {
	v.t.Helper()
	select {
	case err := <-v.ended:
		if err != nil {
			v.t.Errorf("the stream ended with %v", err)
		}
		v.ended <- err
	case <-time.After(10 * time.Second):
		v.t.Fatal("the stream does not end")
	}
	var got []string
	for len(v.events) > 0 {
		ev := <-v.events
		got = append(got, strings.TrimSpace(ev.ID+" "+ev.Type))
	}
	return got
}
