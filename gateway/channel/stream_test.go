package channel_test

import (
	"net/http"
	"strings"
	"testing"

	"runnerd/gateway/dispatch"
	"runnerd/internal/wire"
)

// UD-69, UD-70: what keeps middleboxes from holding the stream back.
func TestTheStreamsHeaders_UD69_UD70(t *testing.T) {
	w := newWorld(t)
	r := w.runner(w.subject("acme", "ann"))
	r.register()
	res, err := r.do(t.Context(), "GET", "/dispatches", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no", "Content-Encoding": ""} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	first := make([]byte, 1) // at once
	if n, err := res.Body.Read(first); n != 1 || err != nil {
		t.Errorf("read %d, %v", n, err)
	}
}

// The same code serves streams that stay with their handlers: HTTP/2, and a server whose Run does not run.
func TestStreamsThatStayWithTheirHandlers(t *testing.T) {
	for name, w := range map[string]*world{"without Run": {handlers: true}, "over HTTP/2": {http2: true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorldLike(t, w)
			r := w.runner(w.subject("acme", "ann"))
			r.register()
			st := r.open("maxMs=2000")
			r.report()
			w.ask(r.subject, "")
			r.finish(st.frame())
			st.ended()
			if st.err != nil {
				t.Errorf("a bounded stream ended with %v", st.err)
			}
			st = r.open("")
			next := r.open("")
			if got := st.control(); got != wire.ControlSuperseded {
				t.Errorf("control %s", got)
			}
			st.ended()
			next.close()
			w.until("disconnected", func() bool { return w.dispatch.Presence(r.row()).Status == dispatch.Disconnected })
		})
	}
}

func TestABoundedStreamEndsWhole(t *testing.T) {
	w := newWorld(t)
	r := w.runner(w.subject("acme", "ann"))
	r.register()
	st := r.open("maxMs=50")
	st.ended()
	if st.err != nil {
		t.Errorf("it ended with %v", st.err)
	}
}

func TestStreamsEndWithTheServer(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	w.stop() // returns when they have
	st.ended()
	res, err := r.do(t.Context(), "GET", "/dispatches", nil) // what comes now stays with its handler
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", res, err)
	}
	res.Body.Close()
}

// A frame of the largest size passes, and comes as it was made.
func TestTheLargestFrame_UD102(t *testing.T) {
	w := newWorld(t)
	w.quiet = true
	r, st := w.online(w.subject("acme", "ann"))
	q := request(r.subject, "chat")
	prompt := strings.Repeat("é\\\"\n", (wire.MaxFrame-8192)/8)
	q.Inputs = object(t, "prompt", prompt)
	w.create(q)
	d := st.frame()
	if len(d.Inputs) < wire.MaxFrame-16384 || !strings.Contains(string(d.Inputs), string(object(t, "content", prompt)[1:200])) {
		t.Errorf("inputs of %d bytes", len(d.Inputs))
	}
}
