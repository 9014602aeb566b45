package channel_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runnerd/gateway/bus/membus"
	"runnerd/gateway/channel"
	"runnerd/gateway/dispatch"
	"runnerd/gateway/engine"
	"runnerd/gateway/identity"
	"runnerd/gateway/run"
	"runnerd/gateway/store"
	"runnerd/gateway/store/sqlite"
	"runnerd/internal/httpapi"
	"runnerd/internal/wire"
)

// A clock goes on by itself and can be moved forward. All the gateway's clocks are this one.
type clock struct {
	began time.Time
	ahead atomic.Int64
}

func (c *clock) now() time.Time           { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) mono() time.Duration      { return time.Since(c.began) + time.Duration(c.ahead.Load()) }
func (c *clock) advance(by time.Duration) { c.ahead.Add(int64(by)) }

// errDead is what a killed gateway's store says, so that nothing more is written by handlers that are still ending.
var errDead = errors.New("the gateway was killed")

type mortal struct {
	store.Store
	dead    atomic.Bool
	count   atomic.Int64 // of transactions that wrote
	commits atomic.Int64 // of what the store made of them
}

func (m *mortal) Update(ctx context.Context, fn func(store.Tx) error) error {
	if m.dead.Load() {
		return errDead
	}
	m.count.Add(1)
	return m.Store.Update(ctx, fn)
}

// people is an identity whose bearers are the runners' ids.
type people struct{ store store.Store }

func (p people) AuthenticateRunner(ctx context.Context, token string) (store.RunnerID, store.Subject, error) {
	id, ok := strings.CutPrefix(token, "bearer-of-")
	if !ok {
		return "", "", identity.ErrUnauthenticated
	}
	var row store.Runner
	err := p.store.View(ctx, func(r store.Reader) (err error) {
		row, err = r.RunnerOfAll(store.RunnerID(id))
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", "", identity.ErrUnauthenticated
	case err == nil && !row.Revoked.IsZero():
		err = identity.ErrRevoked
	}
	return row.ID, row.Subject, err
}

func (p people) RevokeRunner(ctx context.Context, s store.Subject, id store.RunnerID, why string) error {
	return p.store.Update(ctx, func(tx store.Tx) error {
		tx.Publish(store.RevokedTopic)
		return tx.RevokeRunner(s, id, time.Now())
	})
}

func (p people) Pair(context.Context, string, string, wire.PairingRequest) (wire.PairingReply, error) {
	return wire.PairingReply{}, &identity.LimitError{RetryAfter: 1500 * time.Millisecond, Scope: "route"}
}

func (p people) Trade(_ context.Context, in wire.TokenRequest) (wire.TokenReply, error) {
	return wire.TokenReply{}, &identity.TokenError{Code: in.DeviceCode}
}

// A world is a gateway on a real store, behind a real server.
type world struct {
	t        testing.TB
	clock    *clock
	path     string
	store    *mortal
	sqlite   *sqlite.Store
	bus      *membus.Bus
	dispatch *dispatch.Service
	sweeper  *dispatch.Sweeper
	runs     *run.Service
	srv      *httptest.Server
	client   *http.Client
	quiet    bool
	users    map[store.Subject]bool
	handlers bool // streams stay with their handlers
	http2    bool
	stop     func() // ends the channel's Run
}

const canary = "sk-canary-"

func newWorld(t testing.TB) *world { return newWorldLike(t, new(world)) }

// newWorldLike is newWorld with the settings of w.
func newWorldLike(t testing.TB, w *world) *world {
	w.t, w.clock, w.path, w.users = t, &clock{began: time.Now()}, filepath.Join(t.TempDir(), "gateway.db"), map[store.Subject]bool{}
	w.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}}
	w.start()
	t.Cleanup(func() { w.end() })
	return w
}

func (w *world) log() *slog.Logger {
	if w.quiet {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// start opens the store and serves it, as a gateway's start does.
func (w *world) start() {
	w.t.Helper()
	w.bus = membus.New()
	w.store = new(mortal)
	ring := func(topics ...store.Topic) { // once a commit that rings at all
		w.store.commits.Add(1)
		w.bus.Ring(topics...)
	}
	s, err := sqlite.Open(w.t.Context(), w.path, sqlite.Options{Ring: ring, Wall: w.clock.now, Mono: w.clock.mono})
	if err != nil {
		w.t.Fatal(err)
	}
	w.sqlite, w.store.Store = s, s
	taint := func(b []byte) bool { return strings.Contains(string(b), canary) }
	w.dispatch = dispatch.New(dispatch.Config{Store: w.store, Bus: w.bus, Log: w.log(), Now: w.clock.now, Taint: taint})
	w.runs = run.New(run.Config{Store: w.store, Dispatch: w.dispatch, Log: w.log(), Now: w.clock.now})
	w.sweeper = w.dispatch.Sweeper()
	if err := w.sweeper.Begin(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	mux := http.NewServeMux()
	server := channel.New(channel.Config{
		Dispatch: w.dispatch, Identity: people{w.store}, Bus: w.bus, Log: w.log(), Taint: taint,
		Page: func(*http.Request) string { return "https://gateway.example/pair" },
	})
	server.Routes(func(pattern string, h httpapi.Handler) { mux.Handle(pattern, httpapi.Wrap(w.log(), nil, h)) })
	w.srv = httptest.NewUnstartedServer(httpapi.Routes(mux))
	if w.http2 {
		w.srv.EnableHTTP2 = true
		w.srv.StartTLS()
		w.client = w.srv.Client()
	} else {
		w.srv.Start()
	}
	w.stop = func() {}
	if !w.handlers {
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		began := make(chan struct{})
		wg.Go(func() { close(began); server.Run(ctx) })
		<-began
		w.stop = func() { cancel(); wg.Wait() }
	}
}

func (w *world) end() {
	w.stop()
	w.srv.CloseClientConnections()
	w.srv.Close()
	w.sqlite.Close()
}

// kill ends the gateway as SIGKILL does, and starts it again: what was not durable is gone, and nobody says goodbye.
func (w *world) kill() {
	w.t.Helper()
	w.store.dead.Store(true)
	w.end()
	w.start()
}

func (w *world) sweep() {
	w.t.Helper()
	if _, err := w.sweeper.Sweep(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// pass lets time pass and the gateway notice.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	w.clock.advance(d)
	w.sweep()
}

func (w *world) update(fn func(store.Tx) error) {
	w.t.Helper()
	if err := w.store.Update(w.t.Context(), fn); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) view(fn func(store.Reader) error) {
	w.t.Helper()
	if err := w.store.View(w.t.Context(), fn); err != nil {
		w.t.Fatal(err)
	}
}

// subject gives the subject of a person of a tenant, who exists from then on.
func (w *world) subject(tenant, name string) store.Subject {
	w.t.Helper()
	s, err := store.NewSubject(store.Tenant(tenant), "", store.Principal(name))
	if err != nil {
		w.t.Fatal(err)
	}
	if !w.users[s] {
		w.users[s] = true
		w.update(func(tx store.Tx) error {
			return tx.CreateUser(store.User{Tenant: s.Tenant(), Principal: s.Principal(), Subject: s, Name: name, Created: at()})
		})
	}
	return s
}

func at() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// ask starts a run of the built-in workflow: one model step.
func (w *world) ask(s store.Subject, configurable string) store.Run {
	w.t.Helper()
	return w.create(run.CreateRequest{Subject: s, Workflow: "chat", Inputs: []byte(`{"prompt":"hello"}`), Configurable: []byte(configurable)})
}

func (w *world) create(q run.CreateRequest) store.Run {
	w.t.Helper()
	row, err := w.runs.Create(w.t.Context(), q)
	if err != nil {
		w.t.Fatal(err)
	}
	return row
}

// define stores a workflow of the tenant: model nodes in a chain.
func (w *world) define(t store.Tenant, id string, nodes ...string) {
	w.t.Helper()
	type m = map[string]any
	doc := m{"id": id, "name": id, "version": "1", "triggers": []m{{"id": "t", "type": "manual", "enabled": true}}, "variables": []m{}, "metadata": m{}, "settings": m{}}
	var all, edges []m
	for i, n := range nodes {
		all = append(all, m{"id": n, "typeId": "core.ai.callPrompt", "name": n, "position": m{"x": i, "y": 0}, "config": m{}, "inputs": m{"prompt": m{"type": "static", "value": "go"}}})
		if i > 0 {
			edges = append(edges, m{"id": fmt.Sprint("e", i), "sourceNodeId": nodes[i-1], "targetNodeId": n})
		}
	}
	doc["nodes"], doc["edges"] = all, append([]m{}, edges...)
	b, err := json.Marshal(doc)
	if err != nil {
		w.t.Fatal(err)
	}
	w.update(func(tx store.Tx) error {
		return tx.PutWorkflow(store.Workflow{Tenant: t, ID: id, Hash: sha256.Sum256(b), Doc: b, Updated: at()})
	})
}

// steps gives the steps of a run.
func (w *world) steps(r store.Run) []store.Step {
	w.t.Helper()
	var all []store.Step
	w.view(func(rd store.Reader) error {
		all = nil
		for s, err := range rd.StepsOfRun(r.Tenant, r.ID) {
			if err != nil {
				return err
			}
			all = append(all, s)
		}
		return nil
	})
	return all
}

// step gives the only step of a run.
func (w *world) step(r store.Run) store.Step {
	w.t.Helper()
	all := w.steps(r)
	if len(all) != 1 {
		w.t.Fatalf("run %s has %d steps", r.ID, len(all))
	}
	return all[0]
}

func (w *world) status(r store.Run) string {
	w.t.Helper()
	w.view(func(rd store.Reader) (err error) { r, err = rd.Run(r.Tenant, r.ID); return err })
	return r.Status
}

func (w *world) events(r store.Run) []engine.Event {
	w.t.Helper()
	var all []engine.Event
	w.view(func(rd store.Reader) error {
		all = nil
		for ev, err := range rd.Events(r.Tenant, r.ID, -1, 10_000) {
			if err != nil {
				return err
			}
			var e engine.Event
			if err := json.Unmarshal(ev.Doc, &e); err != nil {
				return err
			}
			all = append(all, e)
		}
		return nil
	})
	return all
}

// failure gives the code and details of how a run failed.
func (w *world) failure(r store.Run) (code, outcome string) {
	w.t.Helper()
	doc, err := w.runs.Snapshot(w.t.Context(), r.Tenant, r.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	if doc.Error == nil {
		return doc.Status, ""
	}
	var d struct{ Outcome string }
	if len(doc.Error.Details) > 0 {
		if err := json.Unmarshal(doc.Error.Details, &d); err != nil {
			w.t.Fatal(err)
		}
	}
	return doc.Error.Code, d.Outcome
}

func (w *world) audit(s store.Subject) []store.AuditEntry {
	w.t.Helper()
	var all []store.AuditEntry
	w.view(func(rd store.Reader) error {
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

// kinds gives the kinds of a subject's audit entries about a run, in order.
func (w *world) kinds(r store.Run) []string {
	w.t.Helper()
	var all []string
	for _, e := range w.audit(r.Subject) {
		if e.Run == r.ID {
			all = append(all, e.Kind)
		}
	}
	return all
}

// until waits for something that another goroutine brings about, and looks again whenever a subject's bell rings.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	var topics []store.Topic
	for s := range w.users {
		topics = append(topics, store.SubjectTopic(s))
	}
	bell, stop := w.bus.Listen(topics...)
	defer stop()
	late := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-bell:
		case <-late:
			w.t.Fatalf("it never came to this: %s", what)
		}
	}
}

var names sync.Map // of runners, so that each test's are its own

func fresh(prefix string) string {
	n, _ := names.LoadOrStore(prefix, new(atomic.Int64))
	return fmt.Sprint(prefix, n.(*atomic.Int64).Add(1))
}
