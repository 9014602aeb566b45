package runner_test

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"runnerd/internal/wire"
)

// A gateway is a small scripted one: it hands out what a test offers, and keeps the books as the real one does (design,
// sections 4 and 5), so that a runner cannot pass by luck. Its hook sees every request first.
type gateway struct {
	t testing.TB

	mu       sync.Mutex
	hook     func(w http.ResponseWriter, r *http.Request) (handled bool)
	plain    bool          // has the protocol's own routes only
	permit   time.Duration // the remaining time of every permit
	epoch, n int64
	cursor   int64
	journal  string
	bearer   string
	gen      int // of the refresh token that was presented last
	steps    map[string]*gstep
	wake     chan struct{}
	streams  int

	registered []wire.Registration
	reports    []wire.Report
	reportedAt []time.Time
	lastIDs    []string // of each stream
	opened     []time.Time
	lengths    []string // maxMs of each stream
	posted     []wire.Result
	revoked    bool
}

// A gstep is a step as the gateway sees it.
type gstep struct {
	frame   []byte
	ref     wire.StepRef
	state   string // offered, accepted, cancelled, done, lost, refused, withdrawn
	result  json.RawMessage
	refusal wire.Refusal
	text    string // progress so far
	pieces  int64
}

func newGateway(t testing.TB) *gateway {
	return &gateway{t: t, permit: wire.StepTimeout, bearer: "bearer-0-of-the-runner", steps: map[string]*gstep{}, wake: make(chan struct{})}
}

// ring wakes every stream. The mutex is held.
func (g *gateway) ring() {
	close(g.wake)
	g.wake = make(chan struct{})
}

// offer hands out a step with the next seq.
func (g *gateway) offer(step string, change ...func(d *wire.Dispatch)) *gstep {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cursor++
	d := wire.Dispatch{RunID: "run_1", StepID: step, Seq: g.cursor, Kind: wire.KindModel, Provider: "fake", Model: "m",
		Inputs: json.RawMessage(`{"messages":[{"role":"user","content":"hello"}]}`)}
	for _, c := range change {
		c(&d)
	}
	g.cursor = max(g.cursor, d.Seq)
	b, err := json.Marshal(d)
	if err != nil {
		g.t.Error(err)
	}
	return g.put(d.Ref(), b)
}

// put hands out bytes as a frame. The mutex is held.
func (g *gateway) put(ref wire.StepRef, frame []byte) *gstep {
	s := &gstep{frame: frame, ref: ref, state: "offered"}
	g.steps[ref.StepID] = s
	g.ring()
	return s
}

// with runs f with the books locked.
func (g *gateway) with(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
	g.ring()
}

// view is a step as it stands.
func (g *gateway) view(step string) gstep {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.steps[step]; s != nil {
		return *s
	}
	return gstep{}
}

// get reads the books.
func get[T any](g *gateway, f func() T) T {
	g.mu.Lock()
	defer g.mu.Unlock()
	return f()
}

// lastID is the cursor of the latest stream.
func (g *gateway) lastID() string {
	return get(g, func() string { return g.lastIDs[len(g.lastIDs)-1] })
}

// cancel ends a step at once; the runner learns by stop.
func (g *gateway) cancel(step string) {
	g.with(func() { g.steps[step].state = "cancelled" })
}

func (g *gateway) own(ref wire.StepRef) *gstep {
	if s := g.steps[ref.StepID]; s != nil && s.ref == ref {
		return s
	}
	return nil
}
