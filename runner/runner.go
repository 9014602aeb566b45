package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"runnerd/internal/wire"
	"runnerd/runner/journal"
	"runnerd/runner/link"
	"runnerd/runner/local"
	"runnerd/runner/step"
)

// ErrLoggedOut says that Run ended because the owner gave the runner up.
var ErrLoggedOut = errors.New("logged out")

// A Runner is one paired runner. New makes it, Run is its life.
type Runner struct {
	cfg    Config
	vault  *Vault
	client *link.Client
	exec   *step.Executor
	born   time.Time
	log    *slowLog

	journal *journal.Journal // set by Run before anything else starts
	desk    *desk
	say     chan struct{} // there is something to report
	post    chan struct{} // there is a result to post
	wake    chan struct{} // there may be something to report soon
	look    chan struct{} // the providers are to be looked at
	probed  chan struct{} // closed when the first look has ended
	work    sync.WaitGroup
	end     context.CancelCauseFunc // ends the life that Run gives; nil before

	mu              sync.Mutex
	id              Identity
	stopping        bool
	draining        bool // by command; no new steps until resumed
	shelf           shelf
	stocked         bool     // the gateway has the inventory as it is
	registeredNames []string // of the providers, in the record of this connection
	limits          wire.Limits
	plain           bool
	session         *session
	standing        standing
}

// New makes a runner of a paired data folder.
func New(cfg Config) (*Runner, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	id, err := LoadIdentity(cfg.Dir)
	if err != nil {
		return nil, err
	}
	vault := NewVault(cfg.Credentials, cfg.Mask)
	if v, ok := cfg.Credentials.(*Vault); ok {
		vault = v
	}
	client, err := link.New(id.Gateway, cfg.Client, vault)
	if err != nil {
		return nil, err
	}
	r := &Runner{
		cfg: cfg, vault: vault, client: client, id: id, born: time.Now(), log: &slowLog{log: cfg.Log}, limits: wire.DefaultLimits(),
		desk: newDesk(), say: make(chan struct{}, 1), wake: make(chan struct{}, 1), post: make(chan struct{}, 1), look: make(chan struct{}, 1), probed: make(chan struct{}),
	}
	r.standing = standing{state: local.Connecting, since: r.born, reconnects: map[string]int{}}
	r.exec = &step.Executor{
		Provider: r.provider, Rules: cfg.Rules, Mask: cfg.Mask, Temp: cfg.temp(), Log: cfg.Log,
		Room: func() int { return int(r.Limits().MaxResultBytes) },
	}
	return r, nil
}

// Limits are the gateway's, as far as this runner can follow them.
func (r *Runner) Limits() wire.Limits {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.limits
}

// Run serves until ctx ends, then drains: it returns nil when it was asked to stop, and by then every step has ended, and
// what there was to say was said, or lies in the outbox.
func (r *Runner) Run(parent context.Context) (err error) {
	opts := r.cfg.Journal
	opts.Owner = r.id.owner()
	j, err := journal.Open(r.cfg.Dir, opts)
	if err != nil {
		return explainOpen(err)
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	r.mu.Lock()
	r.journal = j
	r.mu.Unlock()
	if err := r.exec.Sweep(); err != nil {
		return err
	}
	r.recover()

	ctx, stop := context.WithCancelCause(parent)                       // while it lives we take new steps
	steps, kill := context.WithCancelCause(context.WithoutCancel(ctx)) // the work in hand outlives it
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))   // the link outlives that, for the last words
	defer func() { stop(nil); kill(nil); end(nil) }()
	r.mu.Lock()
	r.end = stop
	r.mu.Unlock()
	var loops sync.WaitGroup
	loop := func(f func() error) {
		loops.Go(func() {
			if err := f(); err != nil {
				stop(err)
			}
		})
	}
	if r.cfg.Control != nil {
		l, err := r.cfg.Control(r.cfg.Dir)
		if err != nil {
			return err
		}
		loop(func() error { return local.Serve(life, l, r, r.cfg.Log) })
	}
	loop(func() error { r.probe(life); return nil })
	loop(func() error { r.connect(life, steps); return nil })
	loop(func() error { r.deliver(life); return r.journal.Err() })
	loop(func() error { r.noticeSleep(life); return nil })

	<-ctx.Done()
	r.drain(steps, kill)
	end(errStopped)
	loops.Wait()
	if parent.Err() != nil && r.journal.Err() == nil {
		return nil // we were asked to stop
	}
	return context.Cause(ctx)
}

var errStopped = errors.New("the runner stopped")

// fail ends the runner: what it promises cannot be kept any more.
func (r *Runner) fail(err error) {
	r.mu.Lock()
	end := r.end
	r.mu.Unlock()
	r.cfg.Log.Error("the runner cannot go on", "err", err)
	end(err)
}

// recover puts on the desk what the journal holds from an earlier process.
func (r *Runner) recover() {
	r.desk.mu.Lock()
	defer r.desk.mu.Unlock()
	r.desk.high, _ = r.journal.Cursor()
	if n := r.journal.Damage(); n > 0 {
		r.cfg.Log.Error("the journal was damaged; the old file is kept as journal.damaged", "ranges", n)
	}
	for _, s := range r.journal.Held() {
		t := &task{ref: s.StepRef, phase: wire.PhaseFinished, since: s.At}
		if s.Phase == journal.Accepted {
			t.phase = wire.PhaseAccepted
			frame, err := r.journal.Frame(s.StepRef)
			if err == nil {
				t.frame, err = wire.Decode[wire.Dispatch](frame)
			}
			if err != nil {
				r.cfg.Log.Error("an accepted step cannot be read back", "run", s.RunID, "step", s.StepID, "err", err)
				continue // the gateway misses it in the first report
			}
			t.provider, t.model = t.frame.Provider, t.frame.Model
		}
		r.desk.tasks[pairOf(s.StepRef)] = t
		r.desk.high = max(r.desk.high, s.Seq)
	}
	r.postNow()
}

func (r *Runner) sayNow()  { kick(r.say) }
func (r *Runner) postNow() { kick(r.post) }

func kick(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// explainOpen says in words why the data folder cannot be used.
func explainOpen(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("the data folder cannot be written: %w", err)
	}
	return err
}

// noticeSleep compares the clock that counts a sleep with the one that does not. After a sleep the connection is dead and
// does not know it: a new one is made at once (UD-01, UD-05).
func (r *Runner) noticeSleep(ctx context.Context) {
	for {
		before, begun := r.cfg.Clock.Now(), time.Now()
		t := time.NewTimer(noticeSleep)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		if slept := r.cfg.Clock.Now() - before - time.Since(begun); slept > noticeSleep {
			r.cfg.Log.Info("the machine was asleep", "for", slept.Round(time.Second).String())
			r.hangUp(errSlept)
		}
	}
}
