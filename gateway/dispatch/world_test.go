package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"runnerd/gateway/bus/membus"
	"runnerd/gateway/dispatch"
	"runnerd/gateway/run"
	"runnerd/gateway/store"
	"runnerd/gateway/store/sqlite"
	"runnerd/internal/wire"
)

// fataler is what *testing.T and *rapid.T have in common.
type fataler interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// A host is a gateway's core on a real store, without HTTP. Its clocks move only when a test says so.
type host struct {
	fataler
	path     string
	ahead    *atomic.Int64
	sqlite   *sqlite.Store
	dead     *atomic.Bool
	dispatch *dispatch.Service
	sweeper  *dispatch.Sweeper
	runs     *run.Service
	log      *slog.Logger
}

var errDead = errors.New("the gateway was killed")

type mortal struct {
	store.Store
	dead *atomic.Bool
}

func (m mortal) Update(ctx context.Context, fn func(store.Tx) error) error {
	if m.dead.Load() {
		return errDead
	}
	return m.Store.Update(ctx, fn)
}

var began = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

func (h *host) now() time.Time { return began.Add(time.Duration(h.ahead.Load())) }

// newHost gives a gateway in dir; end closes it.
func newHost(t fataler, dir string) *host {
	h := &host{fataler: t, path: filepath.Join(dir, "gateway.db"), ahead: new(atomic.Int64), log: slog.New(slog.DiscardHandler)}
	h.start()
	for _, s := range []store.Subject{"acme/ann", "acme/bob"} {
		h.update(func(tx store.Tx) error {
			return tx.CreateUser(store.User{Tenant: s.Tenant(), Principal: s.Principal(), Subject: s, Name: string(s), Created: began})
		})
	}
	return h
}

func (h *host) start() {
	h.Helper()
	b := membus.New()
	s, err := sqlite.Open(context.Background(), h.path, sqlite.Options{Ring: b.Ring, Wall: h.now, Mono: func() time.Duration { return time.Duration(h.ahead.Load()) }})
	if err != nil {
		h.Fatalf("open: %v", err)
	}
	h.sqlite, h.dead = s, new(atomic.Bool)
	m := mortal{s, h.dead}
	h.dispatch = dispatch.New(dispatch.Config{Store: m, Bus: b, Log: h.log, Now: h.now})
	h.runs = run.New(run.Config{Store: m, Dispatch: h.dispatch, Log: h.log, Now: h.now})
	h.sweeper = h.dispatch.Sweeper()
	h.check(h.sweeper.Begin(context.Background()))
}

func (h *host) end() { h.sqlite.Close() }

func (h *host) kill() {
	h.Helper()
	h.dead.Store(true)
	h.end()
	h.start()
}

func (h *host) check(err error) {
	h.Helper()
	if err != nil {
		h.Fatalf("%v", err)
	}
}

func (h *host) update(fn func(store.Tx) error) {
	h.Helper()
	h.check(h.sqlite.Update(context.Background(), fn))
}

func (h *host) view(fn func(store.Reader) error) {
	h.Helper()
	h.check(h.sqlite.View(context.Background(), fn))
}

func (h *host) pass(d time.Duration) {
	h.Helper()
	h.ahead.Add(int64(d))
	_, err := h.sweeper.Sweep(context.Background())
	h.check(err)
}

func (h *host) ask(s store.Subject, configurable string) store.Run {
	h.Helper()
	row, err := h.runs.Create(context.Background(), run.CreateRequest{
		Subject: s, Workflow: "chat", Inputs: []byte(`{"prompt":"hello"}`), Configurable: []byte(configurable),
	})
	h.check(err)
	return row
}

func (h *host) step(r store.Run) store.Step {
	h.Helper()
	var step store.Step
	h.view(func(rd store.Reader) (err error) { step, err = rd.Step(r.Tenant, r.ID, "chat:1:1"); return err })
	return step
}

func (h *host) audit(s store.Subject) []store.AuditEntry {
	h.Helper()
	var all []store.AuditEntry
	h.view(func(rd store.Reader) error {
		all = nil
		for e, err := range rd.Audit(s, 0, 100_000) {
			if err != nil {
				return err
			}
			all = append(all, e)
		}
		return nil
	})
	return all
}

// A laptop is a runner that keeps the promises of ours: it starts a step only under a permit, writes down that it did, and
// keeps a result until it has a verdict.
type laptop struct {
	h       *host
	who     dispatch.Who
	journal string
	epoch   int64
	n       int64
	cursor  int64
	stream  *dispatch.Stream

	sent     []wire.StepRef          // every frame that ever came
	got      []wire.StepRef          // frames that are not answered yet; lost in a crash
	asked    map[wire.StepRef]bool   // accepted, no permit yet; lost in a crash
	started  map[wire.StepRef]bool   // in the journal
	outbox   map[wire.StepRef]string // in the journal: output text
	executed map[wire.StepRef]int    // X
	yielded  map[wire.StepRef]string // Y
	seen     map[wire.StepRef]bool   // started ever, in the journal
	verdict  map[wire.StepRef]string // the first
}

func newLaptop(h *host, s store.Subject, id store.RunnerID) *laptop {
	h.Helper()
	h.update(func(tx store.Tx) error {
		return tx.CreateRunner(store.Runner{ID: id, Subject: s, Name: string(id), Created: began})
	})
	return &laptop{
		h: h, who: dispatch.Who{Runner: id, Subject: s}, journal: "j-" + string(id), asked: map[wire.StepRef]bool{}, started: map[wire.StepRef]bool{},
		outbox: map[wire.StepRef]string{}, executed: map[wire.StepRef]int{}, yielded: map[wire.StepRef]string{}, seen: map[wire.StepRef]bool{}, verdict: map[wire.StepRef]string{},
	}
}

func (l *laptop) connect() {
	l.h.Helper()
	epoch, err := l.h.dispatch.Register(context.Background(), l.who, wire.Registration{
		RunnerID: string(l.who.Runner), Subject: string(l.who.Subject), Capabilities: wire.Capabilities{Providers: []string{"echo"}},
	})
	l.h.check(err)
	l.epoch, l.n = epoch, 0
	l.open()
	l.report(nil)
}

func (l *laptop) open() {
	l.h.Helper()
	st, err := l.h.dispatch.Open(context.Background(), l.who, l.epoch, 0)
	l.h.check(err)
	l.stream = st
}

func (l *laptop) cut() {
	l.h.Helper()
	if l.stream != nil {
		l.h.check(l.h.dispatch.Close(context.Background(), l.stream))
		l.stream = nil
	}
}

// receive takes the frames that the stream has.
func (l *laptop) receive() {
	l.h.Helper()
	if l.stream == nil || l.stream.Ended() != "" {
		return
	}
	frames, _, err := l.h.dispatch.Pending(context.Background(), l.stream, l.cursor)
	l.h.check(err)
	for _, f := range frames {
		d, err := wire.Decode[wire.Dispatch](f.Data)
		l.h.check(err)
		if f.Seq <= l.cursor || d.Seq != f.Seq {
			l.h.Fatalf("frame %v after cursor %d", d.Ref(), l.cursor)
		}
		l.cursor = f.Seq
		l.got, l.sent = append(l.got, d.Ref()), append(l.sent, d.Ref())
	}
}

// report says what there is to say, and acts on the answer. answer decides about each frame: "" accepts, "wait" says nothing,
// everything else refuses.
func (l *laptop) report(answer func(wire.StepRef) wire.Code) {
	l.h.Helper()
	l.n++
	rep := wire.Report{Epoch: l.epoch, N: l.n, JournalID: l.journal, State: wire.StateReady, Capacity: wire.Capacity{Free: 3, Max: 3}}
	for ref := range l.asked {
		rep.Held = append(rep.Held, wire.Held{StepRef: ref, Phase: wire.PhaseAccepted})
	}
	for ref := range l.started {
		rep.Held = append(rep.Held, wire.Held{StepRef: ref, Phase: wire.PhaseRunning})
	}
	for ref := range l.outbox {
		rep.Held = append(rep.Held, wire.Held{StepRef: ref, Phase: wire.PhaseFinished})
	}
	var rest []wire.StepRef
	for _, ref := range l.got {
		switch code := wire.Code("wait"); {
		case answer == nil:
			rest = append(rest, ref)
		default:
			switch code = answer(ref); code {
			case "wait":
				rest = append(rest, ref)
			case "":
				rep.Accept = append(rep.Accept, ref)
				l.asked[ref] = true
			default:
				rep.Refuse = append(rep.Refuse, wire.Refusal{StepRef: ref, Code: code})
			}
		}
	}
	l.got = rest
	reply, err := l.h.dispatch.Report(context.Background(), l.who, rep)
	if err != nil {
		l.h.Fatalf("report of %s: %v", l.who.Runner, err)
	}
	for _, s := range reply.Stop {
		delete(l.asked, s.StepRef)
		delete(l.started, s.StepRef)
	}
	for _, p := range reply.Permits {
		if !l.asked[p.StepRef] {
			l.h.Errorf("permit for %v, which was not asked for", p.StepRef)
		}
		delete(l.asked, p.StepRef)
		if l.seen[p.StepRef] {
			continue // its own journal says that it did this
		}
		l.seen[p.StepRef], l.started[p.StepRef] = true, true
		l.executed[p.StepRef]++
	}
}

// finish ends a started step: its result is in the outbox.
func (l *laptop) finish(ref wire.StepRef) {
	delete(l.started, ref)
	l.yielded[ref] = fmt.Sprintf(`{"text":"of %s"}`, ref)
	l.outbox[ref] = l.yielded[ref]
}

// post sends one result from the outbox; the answer may be lost.
func (l *laptop) post(ref wire.StepRef, lost bool) string {
	l.h.Helper()
	v, err := l.h.dispatch.Results(context.Background(), l.who, []dispatch.Incoming{{Result: wire.Result{
		RunID: ref.RunID, StepID: ref.StepID, Seq: ref.Seq, Output: []byte(l.outbox[ref]),
	}}})
	l.h.check(err)
	if !lost {
		delete(l.outbox, ref)
	}
	return v[0].Verdict
}

// crash ends the process: what was not in the journal is gone. A step that was started has no result any more.
func (l *laptop) crash() {
	l.h.Helper()
	l.cut()
	l.got, l.asked = nil, map[wire.StepRef]bool{}
	for ref := range l.started {
		delete(l.started, ref)
		l.outbox[ref] = `{"error":{"code":"outcome_unknown","message":"the runner ended while the step ran"}}`
		l.yielded[ref] = l.outbox[ref]
	}
}

var _ fataler = (*testing.T)(nil)
