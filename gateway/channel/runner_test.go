package channel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"runnerd/gateway/store"
	"runnerd/internal/sse"
	"runnerd/internal/wire"
)

// A runner is a scripted one: it says what the test has it say, over HTTP.
type runner struct {
	w       *world
	t       testing.TB
	id      string
	subject store.Subject
	epoch   int64
	n       int64
	journal string
	cursor  int64
	max     int
	can     wire.Capabilities
	has     *wire.Inventory // sent with the next report
	held    []wire.Held
}

// runner makes a runner that was paired and has not connected yet.
func (w *world) runner(s store.Subject) *runner {
	w.t.Helper()
	r := &runner{w: w, t: w.t, id: fresh("rnr_"), subject: s, journal: fresh("journal-"), max: 4, can: wire.Capabilities{Providers: []string{"echo"}, Models: []string{"echo-1"}}}
	w.update(func(tx store.Tx) error {
		return tx.CreateRunner(store.Runner{ID: store.RunnerID(r.id), Subject: s, Name: r.id, Platform: "test", Version: "1", Created: at()})
	})
	return r
}

// online makes a runner, connects it and has it report.
func (w *world) online(s store.Subject) (*runner, *stream) {
	w.t.Helper()
	r := w.runner(s)
	return r, r.connect()
}

func (r *runner) connect() *stream {
	r.t.Helper()
	r.register()
	st := r.open("")
	r.report()
	return st
}

func (r *runner) row() store.Runner {
	r.t.Helper()
	var row store.Runner
	r.w.view(func(rd store.Reader) (err error) { row, err = rd.RunnerOfAll(store.RunnerID(r.id)); return err })
	return row
}

// do sends a request; body may be bytes, or a value to be sent as JSON.
func (r *runner) do(ctx context.Context, method, path string, body any) (*http.Response, error) {
	raw, ok := body.([]byte)
	if !ok && body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, r.w.srv.URL+wire.Prefix+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer bearer-of-"+r.id)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return r.w.client.Do(req)
}

// call sends a request and gives status and body.
func (r *runner) call(method, path string, body any) (int, []byte) {
	r.t.Helper()
	res, err := r.do(r.t.Context(), method, path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, b
}

// must sends a request that is to succeed, and reads the answer.
func must[T wire.Validator](r *runner, method, path string, body any) T {
	r.t.Helper()
	status, b := r.call(method, path, body)
	if status != http.StatusOK {
		r.t.Fatalf("%s %s: %d %s", method, path, status, b)
	}
	v, err := wire.DecodeReply[T](b)
	if err != nil {
		r.t.Fatalf("%s %s: %v in %s", method, path, err, b)
	}
	return v
}

// refused sends a request that is to be refused, and gives status and code.
func (r *runner) refused(method, path string, body any) string {
	r.t.Helper()
	status, b := r.call(method, path, body)
	var e struct {
		Error   string         `json:"error"`
		Message string         `json:"message"`
		Details map[string]any `json:"details"`
	}
	if err := json.Unmarshal(b, &e); err != nil {
		r.t.Fatalf("%s %s: %d %s", method, path, status, b)
	}
	if f, ok := e.Details["field"]; ok {
		return fmt.Sprintf("%d %s %v", status, e.Error, f)
	}
	return fmt.Sprintf("%d %s", status, e.Error)
}

type registered struct{ wire.Registered }

func (registered) Validate() error { return nil }

func (r *runner) record() wire.Registration {
	return wire.Registration{RunnerID: r.id, Subject: string(r.subject), Capabilities: r.can}
}

func (r *runner) register() {
	r.t.Helper()
	r.epoch, r.n = must[registered](r, "PUT", "/runner", r.record()).Epoch, 0
}

// next is the report that the runner would send now.
func (r *runner) next() wire.Report {
	r.n++
	rep := wire.Report{Epoch: r.epoch, N: r.n, JournalID: r.journal, Cursor: r.cursor, State: wire.StateReady, Capacity: wire.Capacity{Free: r.max - min(len(r.held), r.max), Max: r.max}, Held: r.held, Inventory: r.has}
	r.has = nil
	return rep
}

func (r *runner) report(edit ...func(*wire.Report)) wire.ReportReply {
	r.t.Helper()
	rep := r.next()
	for _, e := range edit {
		e(&rep)
	}
	return must[wire.ReportReply](r, "POST", "/reports", rep)
}

// accept reports the acceptance of a frame and holds it from then on, if it got the permit.
func (r *runner) accept(d wire.Dispatch) wire.ReportReply {
	r.t.Helper()
	reply := r.report(accepting(d))
	for _, p := range reply.Permits {
		if p.StepRef == d.Ref() {
			r.held = append(r.held, wire.Held{StepRef: d.Ref(), Phase: wire.PhaseRunning})
		}
	}
	return reply
}

func accepting(all ...wire.Dispatch) func(*wire.Report) {
	return func(rep *wire.Report) {
		for _, d := range all {
			rep.Accept = append(rep.Accept, d.Ref())
		}
	}
}

func refusing(d wire.Dispatch, code wire.Code) func(*wire.Report) {
	return func(rep *wire.Report) {
		rep.Refuse = append(rep.Refuse, wire.Refusal{StepRef: d.Ref(), Code: code, Message: "no"})
	}
}

func output(d wire.Dispatch, text string) wire.Result {
	b, _ := json.Marshal(wire.Output{Text: text})
	return wire.Result{RunID: d.RunID, StepID: d.StepID, Seq: d.Seq, Output: b}
}

func failed(d wire.Dispatch, code wire.Code) wire.Result {
	b, _ := json.Marshal(wire.Failed(code, "it did not work"))
	return wire.Result{RunID: d.RunID, StepID: d.StepID, Seq: d.Seq, Output: b}
}

// post sends one result and gives the verdict as one word, with the code if there is one.
func (r *runner) post(res wire.Result) string {
	r.t.Helper()
	v := must[wire.Verdicts](r, "POST", "/results", res).Verdicts
	if len(v) != 1 || v[0].RunID != res.RunID || v[0].StepID != res.StepID || v[0].Seq != res.Seq {
		r.t.Fatalf("verdicts %+v for %+v", v, res.Ref())
	}
	if v[0].Verdict != wire.VerdictRefused {
		r.drop(res.Ref())
	}
	if v[0].Code != "" {
		return v[0].Verdict + " " + v[0].Code
	}
	return v[0].Verdict
}

func (r *runner) drop(ref wire.StepRef) {
	var kept []wire.Held
	for _, h := range r.held {
		if h.StepRef != ref {
			kept = append(kept, h)
		}
	}
	r.held = kept
}

// finish takes a frame through to its result.
func (r *runner) finish(d wire.Dispatch) {
	r.t.Helper()
	if reply := r.accept(d); len(reply.Permits) != 1 {
		r.t.Fatalf("no permit for %v: %+v", d.Ref(), reply)
	}
	if v := r.post(output(d, "done")); v != wire.VerdictAccepted {
		r.t.Fatalf("result of %v: %s", d.Ref(), v)
	}
}

// A stream is an open GET dispatches.
type stream struct {
	t      testing.TB
	events chan sse.Event
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once done
}

// open connects the runner's stream; extra is added to the query.
func (r *runner) open(extra string) *stream {
	r.t.Helper()
	query := "?"
	if r.epoch > 0 {
		query += fmt.Sprintf("epoch=%d&", r.epoch)
	}
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", r.w.srv.URL+wire.Prefix+"/dispatches"+query+extra, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer bearer-of-"+r.id)
	if r.cursor > 0 {
		req.Header.Set("Last-Event-ID", fmt.Sprint(r.cursor))
	}
	res, err := r.w.client.Do(req)
	if err != nil {
		cancel()
		r.t.Fatal(err)
	}
	if err := sse.CheckResponse(res); err != nil {
		b, _ := io.ReadAll(res.Body)
		cancel()
		r.t.Fatalf("%v: %s", err, b)
	}
	st := &stream{t: r.t, events: make(chan sse.Event, 1024), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(st.done)
		for ev, err := range sse.Read(ctx, res.Body, sse.Options{MaxEvent: 2 * wire.MaxFrame}) {
			if err != nil {
				st.err = err
				return
			}
			st.events <- ev
		}
	}()
	r.t.Cleanup(st.close)
	return st
}

func (s *stream) close() {
	s.cancel()
	<-s.done
}

// ended waits for the gateway to end the stream.
func (s *stream) ended() {
	s.t.Helper()
	select {
	case <-s.done:
		if errors.Is(s.err, context.Canceled) {
			s.t.Fatal("the stream was ended by the test")
		}
	case <-time.After(30 * time.Second):
		s.t.Fatal("the stream did not end")
	}
}

func (s *stream) event() sse.Event {
	s.t.Helper()
	select {
	case ev := <-s.events:
		return ev
	case <-time.After(30 * time.Second):
		s.t.Fatal("no event came")
	}
	return sse.Event{}
}

// frame waits for the next dispatch frame; "report now" on the way is passed over.
func (s *stream) frame() wire.Dispatch {
	s.t.Helper()
	for {
		ev := s.event()
		if ev.Type == wire.EventControl {
			continue
		}
		d, err := wire.Decode[wire.Dispatch](ev.Data)
		if err != nil {
			s.t.Fatalf("frame %s: %v", ev.Data, err)
		}
		if ev.Type != wire.EventDispatch || ev.ID != fmt.Sprint(d.Seq) {
			s.t.Fatalf("event %q with id %s holds seq %d", ev.Type, ev.ID, d.Seq)
		}
		return d
	}
}

// control waits for the next control event.
func (s *stream) control() string {
	s.t.Helper()
	ev := s.event()
	c, err := wire.Decode[wire.Control](ev.Data)
	if err != nil || ev.Type != wire.EventControl || ev.ID != "" {
		s.t.Fatalf("got %q, id %q: %s", ev.Type, ev.ID, ev.Data)
	}
	return c.Reason
}

// silent makes sure that nothing came and nothing comes for a moment.
func (s *stream) silent() {
	s.t.Helper()
	select {
	case ev := <-s.events:
		s.t.Fatalf("got %s %s", ev.Type, ev.Data)
	case <-time.After(60 * time.Millisecond):
	}
}
