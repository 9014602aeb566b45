package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"runnerd/gateway/store"
)

const (
	sweepEvery  = time.Second // presence is looked at so often; deadlines in the store are met to the moment
	forgetEvery = 10 * time.Minute
	batch       = 64 // rows of one sweeping transaction
)

// A Sweeper moves what only time moves: steps and timers that are due, runners that went silent, rows that are past their
// time; and it follows the cursor of revocations, so that a revoked runner is cut wherever it was revoked.
type Sweeper struct {
	s       *Service
	revoked int64
	forgot  time.Time
}

// Sweeper makes the service's sweeper. One runs in each gateway.
func (s *Service) Sweeper() *Sweeper { return &Sweeper{s: s} }

// Run sweeps until ctx ends. It fails only if it cannot begin; later errors are logged and tried again.
func (w *Sweeper) Run(ctx context.Context) error {
	wake, stop := w.s.bus.Listen(DueTopic, store.RevokedTopic)
	defer stop()
	if err := w.Begin(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("begin to sweep: %w", err)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-timer.C:
		}
		next, err := w.Sweep(ctx)
		if err != nil && ctx.Err() == nil {
			w.s.log.WarnContext(ctx, "sweep was cut short", "err", err)
		}
		timer.Reset(next)
	}
}

// Begin opens a fresh window for every runner that has accepted steps: this gateway has not listened until now. It offers
// nothing, because no runner is connected yet.
func (w *Sweeper) Begin(ctx context.Context) error {
	return w.s.store.View(ctx, func(r store.Reader) error {
		for row, err := range r.AllRunnersHolding() {
			if err != nil {
				return err
			}
			a, err := ReadAbilities(row)
			if err != nil {
				return err
			}
			w.s.reg.wait(row, a)
		}
		w.revoked = 0
		for v, err := range r.Revocations(0) {
			if err != nil {
				return err
			}
			w.revoked = max(w.revoked, v.Seq)
		}
		return nil
	})
}

// Sweep does what is due now and says how long there is nothing to do.
func (w *Sweeper) Sweep(ctx context.Context) (time.Duration, error) {
	err := errors.Join(w.revocations(ctx), w.presence(ctx), w.steps(ctx), w.timers(ctx), w.forget(ctx))
	if err != nil {
		return sweepEvery, err
	}
	return w.next(ctx)
}

// next is how long until something in the store is due, at most until presence is to be looked at again.
func (w *Sweeper) next(ctx context.Context) (time.Duration, error) {
	wait := sweepEvery
	err := w.s.store.View(ctx, func(r store.Reader) error {
		now := r.Now()
		for step, err := range r.AllDueSteps(now.Add(sweepEvery), 1) {
			if err != nil {
				return err
			}
			wait = min(wait, step.Due.Sub(now))
		}
		for t, err := range r.AllDueTimers(now.Add(sweepEvery), 1) {
			if err != nil {
				return err
			}
			wait = min(wait, t.Due.Sub(now))
		}
		return nil
	})
	return max(wait, 0), err
}

func (w *Sweeper) revocations(ctx context.Context) error {
	var gone []store.Revocation
	err := w.s.store.View(ctx, func(r store.Reader) error {
		gone = nil
		for v, err := range r.Revocations(w.revoked) {
			if err != nil {
				return err
			}
			gone = append(gone, v)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read revocations: %w", err)
	}
	for _, v := range gone {
		if err := w.s.Revoked(ctx, v.Runner); err != nil {
			return fmt.Errorf("cut revoked runner %s: %w", v.Runner, err)
		}
		w.revoked = max(w.revoked, v.Seq)
	}
	return nil
}

func (w *Sweeper) presence(ctx context.Context) error {
	d := w.s.reg.tick()
	var errs []error
	for _, who := range d.parted {
		errs = append(errs, w.s.Withdraw(ctx, who, "no stream followed"))
	}
	for _, subject := range d.ready {
		errs = append(errs, w.s.Refill(ctx, subject))
	}
	for _, who := range d.lost {
		errs = append(errs, w.lost(ctx, who))
	}
	if len(d.touched) > 0 {
		errs = append(errs, w.s.Update(ctx, func(tx *Tx) error {
			for _, t := range d.touched {
				err := tx.TouchRunner(t.Subject, t.Runner, t.seen.UTC().Truncate(time.Microsecond))
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return fmt.Errorf("touch runner %s: %w", t.Runner, err)
				}
			}
			return nil
		}))
	}
	return errors.Join(errs...)
}

func (w *Sweeper) lost(ctx context.Context, who Who) error {
	holds, err := w.s.has(ctx, who, store.StepAccepted)
	if err != nil || !holds {
		return err
	}
	return w.s.Update(ctx, func(tx *Tx) error {
		if !w.s.reg.gone(who.Runner) {
			return nil // it is back
		}
		return w.s.lose(tx, who, nil, "the runner gave no sign of life")
	})
}

// steps moves the steps that are due. Each batch is a transaction of its own; it ends when nothing is due.
func (w *Sweeper) steps(ctx context.Context) error {
	for {
		any := false
		err := w.s.store.View(ctx, func(r store.Reader) error {
			for _, err := range r.AllDueSteps(r.Now(), 1) {
				any = err == nil
				return err
			}
			return nil
		})
		if err != nil || !any {
			return err
		}
		if err := w.s.Update(ctx, func(tx *Tx) error { return w.due(tx) }); err != nil {
			return fmt.Errorf("move steps that are due: %w", err)
		}
	}
}

func (w *Sweeper) due(tx *Tx) error {
	for step, err := range tx.AllDueSteps(tx.Now(), batch) {
		if err != nil {
			return err
		}
		now, err := tx.Step(step.Tenant, step.Run, step.ID)
		if err != nil {
			return err
		}
		if now.Fence() != step.Fence() {
			continue // the end of another one has moved it
		}
		switch e := dueEvent(now, tx.Now()); {
		case e == EventWithdraw:
			err = w.s.withdraw(tx, now, "not accepted in time")
		case e == EventLost:
			err = w.s.giveUp(tx, now, e, "no result within the step's time")
		case now.State == store.StepOffered:
			if err = w.s.withdraw(tx, now, "the wait is over"); err == nil {
				now, err = tx.Step(step.Tenant, step.Run, step.ID)
			}
			if err == nil {
				err = w.s.giveUp(tx, now, e, "no runner took it in time")
			}
		default:
			err = w.s.giveUp(tx, now, e, "no runner could take it in time")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *Sweeper) timers(ctx context.Context) error {
	for {
		var due []store.Timer
		err := w.s.store.View(ctx, func(r store.Reader) error {
			for t, err := range r.AllDueTimers(r.Now(), batch) {
				if err != nil {
					return err
				}
				due = append(due, t)
			}
			return nil
		})
		if err != nil || len(due) == 0 {
			return err
		}
		err = w.s.Update(ctx, func(tx *Tx) error {
			for t, err := range tx.AllDueTimers(tx.Now(), batch) {
				if err != nil {
					return err
				}
				if err := tx.DeleteTimer(t.Tenant, t.Run, t.ID); err != nil {
					return err
				}
				if err := w.s.runs.Fired(tx, t); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("fire timers: %w", err)
		}
	}
}

func (w *Sweeper) forget(ctx context.Context) error {
	now := w.s.now()
	if now.Sub(w.forgot) < forgetEvery {
		return nil
	}
	for {
		n := 0
		err := w.s.store.Update(ctx, func(tx store.Tx) (err error) {
			n, err = tx.AllForget(w.s.wall())
			return err
		})
		if err != nil {
			return fmt.Errorf("forget old rows: %w", err)
		}
		if n == 0 {
			break
		}
	}
	w.forgot = now
	return nil
}
