package dispatch_test

import (
	"context"
	"testing"

	"runnerd/gateway/bus/membus"
	"runnerd/gateway/dispatch"
	"runnerd/gateway/run"
	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// then calls after once, when an update is durable and before its caller knows.
type then struct {
	store.Store
	after func()
}

func (s *then) Update(ctx context.Context, fn func(store.Tx) error) error {
	err := s.Store.Update(ctx, fn)
	if after := s.after; after != nil {
		s.after = nil
		after()
	}
	return err
}

// A run is created while a runner becomes ready: its transaction sees none to give the step to, and the runner's search for
// waiting steps comes before that transaction is durable. The step must not wait for ever between the two.
func TestAStepThatIsQueuedWhileARunnerBecomesReadyIsOffered(t *testing.T) {
	h := newHost(t, t.TempDir())
	t.Cleanup(h.end)
	b, s, ctx := membus.New(), &then{Store: h.sqlite}, t.Context()
	h.dispatch = dispatch.New(dispatch.Config{Store: s, Bus: b, Log: h.log, Now: h.now})
	h.runs = run.New(run.Config{Store: s, Dispatch: h.dispatch, Log: h.log, Now: h.now})
	h.sweeper = h.dispatch.Sweeper()
	bell, stop := b.Listen(dispatch.DueTopic)
	defer stop()

	l := newLaptop(h, "acme/ann", "r1")
	epoch, err := h.dispatch.Register(ctx, l.who, wire.Registration{
		RunnerID: "r1", Subject: "acme/ann", Capabilities: wire.Capabilities{Providers: []string{"echo"}},
	})
	h.check(err)
	l.epoch = epoch
	l.open()

	looked, commit, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	s.after = func() { // the first report is durable; that the runner is ready is not known yet
		go func() {
			done <- h.dispatch.Update(ctx, func(tx *dispatch.Tx) error {
				_, err := h.runs.CreateTx(tx, run.CreateRequest{
					Subject: "acme/ann", Workflow: "chat", Inputs: []byte(`{"prompt":"hello"}`), Configurable: []byte(`{}`),
				})
				close(looked)
				<-commit
				return err
			})
		}()
		<-looked
	}
	l.report(nil)
	for len(bell) > 0 { // the step's own deadline rang; only a later bell would wake the sweeper at once
		<-bell
	}
	close(commit)
	h.check(<-done)
	select {
	case <-bell:
	default:
		t.Error("nothing wakes the sweeper")
	}
	h.pass(0)
	if l.receive(); len(l.got) != 1 {
		t.Errorf("the runner was sent %d steps, want 1", len(l.got))
	}
}
