package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"runnerd/gateway/bus"
	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// Runs is what dispatch tells the runs about. The methods write in the transaction that they are given, in which the step
// has moved already.
type Runs interface {
	// Ended brings a step that is done or failed. Of one that was cancelled the run knows: it asked for that.
	Ended(tx *Tx, step store.Step) error
	// Accepted brings a step that a runner has taken.
	Accepted(tx *Tx, step store.Step) error
	// Progress brings pieces of running steps' output, all of one run, in the order they came.
	Progress(tx *Tx, t store.Tenant, run store.RunID, pieces []wire.Progress) error
	// Fired brings a timer that is due. The timer is gone from the store already.
	Fired(tx *Tx, timer store.Timer) error
}

// A Config is what a Service is made of.
type Config struct {
	Store store.Store
	Bus   bus.Bus
	Log   *slog.Logger
	Now   func() time.Time  // wall time with its monotonic part; time.Now if nil
	Taint func([]byte) bool // reports whether a document holds what looks like a credential; nil: none does
}

// A Service dispatches steps. Its methods may be called concurrently.
type Service struct {
	store store.Store
	bus   bus.Bus
	log   *slog.Logger
	now   func() time.Time
	taint func([]byte) bool
	reg   *registry
	runs  Runs
}

// New makes a service. Follow must be called before it is used.
func New(c Config) *Service {
	s := &Service{store: c.Store, bus: c.Bus, log: c.Log, now: c.Now, taint: c.Taint}
	if s.now == nil {
		s.now = time.Now
	}
	if s.taint == nil {
		s.taint = func([]byte) bool { return false }
	}
	s.reg = newRegistry(c.Bus, s.now)
	return s
}

// Follow names the runs that are told what becomes of steps. It is called once, while the gateway is put together: runs
// dispatch steps and steps move runs, so one of the two must come second.
func (s *Service) Follow(r Runs) { s.runs = r }

// Presence gives what the gateway knows of a runner now: the value that the matcher reads too.
func (s *Service) Presence(row store.Runner) Presence { return s.reg.presence(row) }

// Phase gives the phase that the runner last reported for an accepted step (wire.Phase...), or nothing (UD-88).
func (s *Service) Phase(step store.Step) string {
	if step.State != store.StepAccepted {
		return ""
	}
	return s.reg.phase(step.Runner, step.Seq)
}

// DueTopic rings when something became due sooner than the sweeper would look.
const DueTopic store.Topic = "due"

// Alarm makes sure that the sweeper wakes for a deadline. Whoever puts a timer calls it.
func Alarm(tx store.Tx, at time.Time) {
	if at.Sub(tx.Now()) < sweepEvery {
		tx.Publish(DueTopic)
	}
}

// A NewStep is what a run asks for.
type NewStep struct {
	Tenant   store.Tenant
	Run      store.RunID
	ID       store.StepID
	Subject  store.Subject
	Kind     string
	Provider string
	Model    string
	Tool     string
	Named    store.RunnerID
	Inputs   []byte
	Wait     time.Duration
	Timeout  time.Duration
	Again    bool // a further attempt at a step that no runner started
}

// Enqueue creates a step and offers it at once if a runner can take it. A step that no runner could ever take is created
// failed; the caller looks at the state of what is returned, because Runs.Ended is not called for it. A further attempt
// takes up the step as it was, under the same id and with the inputs that were stored first.
func (s *Service) Enqueue(tx *Tx, n NewStep) (store.Step, error) {
	if n.Again {
		step, err := s.requeue(tx, n)
		if err != nil {
			return step, err
		}
		offered, ok, err := s.offer(tx, step)
		if err != nil || ok {
			return offered, err
		}
		s.waits(tx, step)
		return step, nil
	}
	step, refused := prepare(store.Step{
		Tenant: n.Tenant, Run: n.Run, ID: n.ID, Subject: n.Subject, Kind: n.Kind, Provider: n.Provider, Model: n.Model,
		Tool: n.Tool, Named: n.Named, Inputs: n.Inputs, Created: tx.Now(),
		Wait: min(max(n.Wait, 0), wire.QueueWaitMax), Timeout: min(max(n.Timeout, time.Millisecond), wire.StepTimeoutMax),
	}, s.taint)
	if refused != nil {
		step.Code, step.Outcome, step.Output = string(refused.Code), OutcomeNotStarted, errorOutput(refused)
		step.Inputs = []byte("{}") // too large, or not to be kept
		step, err := s.create(tx, step, EventRefuse)
		if err != nil {
			return step, err
		}
		return step, s.audit(tx, store.AuditFailed, step, step.Code)
	}
	offered, ok, err := s.offer(tx, step)
	if err != nil || ok {
		return offered, err
	}
	if step, err = s.create(tx, step, EventCreate); err != nil {
		return step, err
	}
	s.waits(tx, step)
	return step, nil
}

func (s *Service) waits(tx *Tx, step store.Step) {
	tx.Publish(store.QueueTopic(step.Subject))
	Alarm(tx, step.Due)
}

// create stores a step in the state that events lead to from nothing: one row written once, also when it is offered at once.
func (s *Service) create(tx *Tx, step store.Step, events ...Event) (store.Step, error) {
	for _, e := range events {
		state, ok := Next(step.State, e)
		if !ok {
			return step, fmt.Errorf("a step that is %q cannot begin with %s: %w", step.State, e, store.ErrConflict)
		}
		step = enter(step, state, tx.Now())
	}
	if err := tx.CreateStep(step); err != nil {
		return step, fmt.Errorf("create step %s: %w", step.ID, err)
	}
	tx.steps.put(step)
	tx.Publish(store.SubjectTopic(step.Subject))
	return step, nil
}

// requeue gives a step that no runner started the whole wait once more.
func (s *Service) requeue(tx *Tx, n NewStep) (store.Step, error) {
	step, err := tx.Step(n.Tenant, n.Run, n.ID)
	if err != nil {
		return step, fmt.Errorf("read step %s: %w", n.ID, err)
	}
	if !again(step) {
		return step, fmt.Errorf("step %s is %s %s and is not tried again: %w", n.ID, step.State, step.Outcome, store.ErrConflict)
	}
	next := step
	next.Waited, next.Code, next.Outcome, next.Output = 0, "", "", nil
	return s.move(tx, step, next, EventAgain)
}

// offer gives a step that waits, or is new, to a runner, if one can take it now.
func (s *Service) offer(tx *Tx, step store.Step) (store.Step, bool, error) {
	for {
		from, err := s.candidates(tx, step.Subject)
		if err != nil {
			return step, false, err
		}
		fit, ok := Match(WantOf(step), from)
		if !ok {
			return step, false, nil
		}
		switch next, err := s.offerTo(tx, step, fit); {
		case errors.Is(err, errGone):
		case err != nil:
			return step, false, err
		default:
			return next, true, nil
		}
	}
}

// candidates are the dispatchable runners of a subject with their lanes as this transaction sees them.
func (s *Service) candidates(tx *Tx, subject store.Subject) ([]Candidate, error) {
	var all []Candidate
	known, gains := s.reg.candidates(subject)
	if tx.looks(subject) {
		tx.AfterCommit(func() { s.reg.missed(subject, gains) })
	}
	for _, c := range known {
		if tx.without[c.Runner] {
			continue
		}
		h, err := tx.hand(subject, c.Runner, c.held)
		if err != nil {
			return nil, err
		}
		c.Hand, c.Lanes = h.steps, h.lanes
		all = append(all, c.Candidate)
	}
	return all, nil
}

// errGone says that a runner was revoked though memory still has it; the transaction looks at it no more.
var errGone = errors.New("a runner that was matched is gone")

func (s *Service) offerTo(tx *Tx, step store.Step, fit Fit) (store.Step, error) {
	seq, err := tx.NextSeq(step.Subject, fit.Runner)
	switch {
	case errors.Is(err, store.ErrConflict):
		tx.leaveOut(fit.Runner)
		return step, errGone
	case err != nil:
		return step, fmt.Errorf("take cursor of runner %s: %w", fit.Runner, err)
	}
	next := step
	next.Runner, next.Seq, next.UseProv, next.UseModel, next.Plain = fit.Runner, seq, fit.Provider, fit.Model, false
	if step.State == none {
		next, err = s.create(tx, next, EventCreate, EventOffer)
	} else {
		next, err = s.move(tx, step, next, EventOffer)
	}
	if err != nil {
		return step, err
	}
	tx.took(next)
	tx.Publish(store.RunnerTopic(next.Runner))
	tx.AfterCommit(func() { s.reg.used(next.Runner) })
	Alarm(tx, next.Due)
	return next, s.audit(tx, store.AuditOffer, next, "")
}

// move carries out one transition: the conditional update, the bells, and what the transaction knows of lanes.
func (s *Service) move(tx *Tx, from, to store.Step, e Event) (store.Step, error) {
	state, ok := Next(from.State, e)
	if !ok {
		return from, fmt.Errorf("step %s is %s, so %s does not apply: %w", from.ID, from.State, e, store.ErrConflict)
	}
	to = enter(to, state, tx.Now())
	if err := tx.MoveStep(from.Fence(), to); err != nil {
		return from, fmt.Errorf("move step %s from %s to %s: %w", from.ID, from.State, state, err)
	}
	tx.steps.put(to)
	if state == store.StepQueued || state.Terminal() {
		tx.gave(from)
	}
	tx.Publish(store.SubjectTopic(to.Subject))
	return to, nil
}

// maxRefill bounds how many waiting steps one refill looks at.
const maxRefill = 1024

// refill offers what waits, oldest first, to the runners that have a free lane now. It reads few steps first: most often there
// is none, or the oldest is the one, and a step may be large.
func (s *Service) refill(tx *Tx, subject store.Subject) error {
	var from []Candidate
	looked, passed := false, 0 // passed: steps at the head of the queue that nobody can take
	for limit := 4; limit <= maxRefill; limit *= 4 {
		seen := 0
		for step, err := range tx.QueuedSteps(subject, limit) {
			if err != nil {
				return err
			}
			if seen++; seen <= passed {
				continue
			}
			if !looked {
				if from, err = s.candidates(tx, subject); err != nil {
					return err
				}
				looked = true
			}
			if !anyFree(from) {
				return nil
			}
			if _, ok := Match(WantOf(step), from); !ok {
				passed++
				continue
			}
			_, ok, err := s.offer(tx, step)
			if err != nil {
				return err
			}
			if !ok {
				passed++
			}
			looked = false
		}
		if seen < limit {
			return nil
		}
	}
	return nil
}

func anyFree(all []Candidate) bool {
	for _, c := range all {
		if c.Hand < c.Max {
			return true
		}
	}
	return false
}

// Refill offers what waits for a runner of the subject. It is called when a runner can be given more than before.
func (s *Service) Refill(ctx context.Context, subject store.Subject) error {
	waits := false
	err := s.store.View(ctx, func(r store.Reader) error {
		for _, err := range r.QueuedSteps(subject, 1) {
			waits = err == nil
			return err
		}
		return nil
	})
	if err != nil || !waits {
		return err
	}
	return s.Update(ctx, func(tx *Tx) error { return s.refill(tx, subject) })
}

// wall is the wall time in the form that the store keeps.
func (s *Service) wall() time.Time { return s.now().UTC().Truncate(time.Microsecond) }

func (s *Service) audit(tx *Tx, kind string, step store.Step, detail string) error {
	return tx.AppendAudit(store.AuditEntry{
		Subject: step.Subject, At: s.wall(), Kind: kind, Run: step.Run, Step: step.ID,
		Runner: step.Runner, RunnerSeq: step.Seq, Detail: detail,
	})
}
