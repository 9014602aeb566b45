package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
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

// A world is a runner in a bubble with its gateway at the other end of a pipe. Time is the bubble's.
type world struct {
	*testing.T
	gateway *gateway
	pipe    *pipe
	store   *store
	backend *backend
	dir     string
	change  func(*runner.Config)

	runner *runner.Runner
	stop   context.CancelCauseFunc
	ended  chan error
}

// inWorld runs a test in a bubble with a runner that is started by start.
func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, gateway: newGateway(t), pipe: newPipe(), store: newStore(), backend: &backend{}, dir: filepath.Join(t.TempDir(), "data")}
		server := &http.Server{Handler: w.gateway, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = server.Serve(w.pipe)
		}()
		writeIdentity(t, w.dir, "http://127.0.0.1:1")
		defer func() {
			w.halt()
			server.Close()
			<-served
			w.pipe.reset()
		}()
		f(w)
	})
}

// writeIdentity writes what pairing leaves behind.
func writeIdentity(t testing.TB, dir, gateway string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(runner.Identity{Gateway: gateway, RunnerID: "rnr_1", Subject: "default/ada", Name: "test"})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "runner.json"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// start starts the runner, and waits until it is online and all is said.
func (w *world) start() {
	w.Helper()
	w.launch()
	w.until("online", func() bool { return w.runner.Status().Link.State == local.Online })
	synctest.Wait()
}

// launch starts the runner without waiting for anything.
func (w *world) launch() {
	w.Helper()
	transport := &http.Transport{DialContext: w.pipe.dial, DisableCompression: true}
	cfg := runner.Config{
		Dir: w.dir, Credentials: w.store, Client: &http.Client{Transport: transport}, Providers: w.backend, Version: "test",
		Log: slog.New(slog.NewTextHandler(w.Output(), nil)), Clock: &clock{begun: time.Now()}, Journal: journal.Options{MaxResult: 64 << 10},
	}
	if w.change != nil {
		w.change(&cfg)
	}
	r, err := runner.New(cfg)
	if err != nil {
		w.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(w.Context())
	w.runner, w.stop, w.ended = r, stop, make(chan error, 1)
	go func() {
		defer transport.CloseIdleConnections()
		w.ended <- r.Run(ctx)
	}()
}

// halt stops the runner if it runs, and gives what Run returned.
func (w *world) halt() error {
	if w.stop == nil {
		return nil
	}
	w.stop(errors.New("test is over"))
	err := <-w.ended
	w.stop = nil
	return err
}

// until waits, in the bubble's time, until something is so.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	w.within(10*time.Hour, what, ok, func() string { return fmt.Sprintf("status %+v", w.runner.Status()) })
}

// within is until with a limit and words for the case that it is passed.
func (w *world) within(limit time.Duration, what string, ok func() bool, else_ func() string) {
	w.Helper()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		synctest.Wait()
		if ok() {
			return
		}
	}
	w.Fatalf("not %s within %v: %s", what, limit, else_())
}

// pass lets the bubble's time pass.
func pass(d time.Duration) { time.Sleep(d) }

// becomes waits until the gateway has a step in a state.
func (w *world) becomes(step, state string) gstep {
	w.Helper()
	w.until(step+" is "+state, func() bool { return w.gateway.view(step).state == state })
	return w.gateway.view(step)
}

// refuse makes the gateway answer all requests to a path in this way, until the next call. A nil answer ends that.
func (w *world) answer(method, path string, f http.HandlerFunc) {
	w.gateway.with(func() {
		w.gateway.hook = nil
		if f != nil {
			w.gateway.hook = func(rw http.ResponseWriter, r *http.Request) bool {
				if r.Method != method || r.URL.Path != wire.Prefix+path {
					return false
				}
				f(rw, r)
				return true
			}
		}
	})
}

type clock struct {
	begun time.Time

	mu    sync.Mutex
	slept time.Duration
}

func (c *clock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.begun) + c.slept
}

func (c *clock) sleep(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slept += d
}

// A backend is a provider whose steps do what their test says. It counts turns: each may cost money.
type backend struct {
	mu     sync.Mutex
	turns  map[string]int
	run    func(ctx context.Context, s provider.Step, progress func(string)) wire.Output
	probe  func(ctx context.Context) []step.Provider
	probes int
	lanes  int
}

func (b *backend) Run(ctx context.Context, s provider.Step, progress func(string)) wire.Output {
	b.mu.Lock()
	if b.turns == nil {
		b.turns = map[string]int{}
	}
	b.turns[s.StepID]++
	run := b.run
	b.mu.Unlock()
	if run == nil {
		return wire.Output{Text: "done " + s.StepID}
	}
	return run(ctx, s, progress)
}

func (b *backend) ran(step string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.turns[step]
}

func (b *backend) Probe(ctx context.Context) []step.Provider {
	b.mu.Lock()
	b.probes++
	probe := b.probe
	b.mu.Unlock()
	if probe != nil {
		return probe(ctx)
	}
	return []step.Provider{b.ready("fake")}
}

func (b *backend) ready(id string) step.Provider {
	return step.Provider{ID: id, Backend: asBackend{b}, Name: "fake", AuthClass: wire.AuthLocal, State: provider.Ready, Lanes: b.lanes}
}

type asBackend struct{ *backend }

func (a asBackend) Probe(context.Context) provider.Status { return provider.Status{} }

// until blocks a step until released, or its end.
func blockUntil(release <-chan struct{}) func(context.Context, provider.Step, func(string)) wire.Output {
	return func(ctx context.Context, s provider.Step, _ func(string)) wire.Output {
		select {
		case <-release:
			return wire.Output{Text: "done " + s.StepID}
		case <-ctx.Done():
			return provider.Ended(ctx)
		}
	}
}

func (w *world) runnerLog() *slog.Logger { return slog.New(slog.NewTextHandler(w.Output(), nil)) }
