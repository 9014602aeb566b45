package runner

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"runnerd/internal/fault"
	"runnerd/internal/wire"
	"runnerd/runner/journal"
	"runnerd/runner/provider"
)

func now() time.Time { return time.Now() }

func encodeFailure(code wire.Code, message string) ([]byte, error) {
	return json.Marshal(wire.Failed(code, "%s", message))
}

// start begins a step that was permitted, in goroutines that end with it. The desk is locked.
func (r *Runner) start(steps context.Context, t *task, remaining time.Duration) {
	if t.cancel != nil || t.phase != wire.PhaseAccepted {
		return // a repeated permit
	}
	fault.Point("R04")
	ctx, cancel := context.WithCancelCause(steps)
	t.cancel = cancel
	if remaining <= 0 {
		cancel(provider.ErrTimeout)
	}
	deadline := r.cfg.Clock.Now() + remaining
	r.work.Go(func() { at(ctx, r.cfg.Clock, deadline, func() { cancel(provider.ErrTimeout) }) })
	r.work.Go(func() {
		defer cancel(nil)
		r.perform(ctx, t)
	})
}

// perform runs one step from its permit to its result.
func (r *Runner) perform(ctx context.Context, t *task) {
	ref, log := t.ref, r.cfg.Log.With("run", t.ref.RunID, "step", t.ref.StepID, "provider", t.provider)
	if failed := r.prepare(ctx, t); failed != nil {
		log.Info("step failed before it started", "code", failed.Code)
		r.finish(t, r.exec.Encode(ref, wire.Output{Error: failed}))
		return
	}
	if err := r.journal.Start(ref); err != nil {
		_ = r.broken(err)
		return
	}
	fault.Point("R06")
	r.desk.mu.Lock()
	t.phase, t.since = wire.PhaseRunning, now()
	r.desk.mu.Unlock()
	kick(r.wake)
	log.Info("step started")
	output := r.exec.Run(ctx, t.plan, func(delta string) { r.progress(t, delta) })
	r.finish(t, output)
	failure := wire.Failure(output)
	if failure == nil {
		log.Info("step finished")
		return
	}
	log.Info("step failed", "code", failure.Code)
	if worthALook(failure.Code) {
		r.lookSoon()
	}
}

// prepare does what comes before the start: a plan, if the providers were not known yet, and a look at what to mask.
func (r *Runner) prepare(ctx context.Context, t *task) *wire.StepError {
	if t.plan == nil {
		select {
		case <-r.probed:
		case <-ctx.Done():
		}
	}
	if ctx.Err() == nil && t.plan == nil {
		var failed *wire.StepError
		if t.plan, failed = r.exec.Plan(t.frame); failed != nil {
			return failed
		}
	}
	if err := r.vault.Sync(ctx); err != nil {
		r.log.warn("the credential store does not open; what it holds is not used", "err", err)
	}
	fault.Point("R05")
	if ctx.Err() != nil {
		out := provider.Ended(ctx)
		return out.Error
	}
	return nil
}

// progress takes partial output on its way.
func (r *Runner) progress(t *task, delta string) {
	if delta == "" {
		return
	}
	r.desk.mu.Lock()
	first := t.output.add(delta, now())
	r.desk.mu.Unlock()
	if first {
		kick(r.wake)
	}
}

// finish puts the output into the outbox and lets the sender know. After it the step is the outbox's.
func (r *Runner) finish(t *task, output []byte) {
	d := r.desk
	d.mu.Lock()
	hash := journal.HashOf(t.frame)
	d.mu.Unlock()
	if err := r.journal.Finish(t.ref, hash, output); err != nil {
		_ = r.broken(err)
		return
	}
	fault.Point("R11")
	d.mu.Lock()
	defer d.mu.Unlock()
	t.phase, t.since, t.cancel, t.plan, t.frame = wire.PhaseFinished, now(), nil, nil, wire.Dispatch{}
	t.output = trickle{} // the result has it
	if d.busy {
		r.sayNow() // a lane is free again
	}
	d.stir()
	r.postNow()
}

// stop ends a step that the gateway does not want any more. The desk is locked.
func (r *Runner) stop(s wire.Stop) {
	t := r.desk.find(s.StepRef)
	if t == nil {
		if t = r.desk.tasks[pairOf(s.StepRef)]; t != nil && t.again == s.StepRef {
			t.again = wire.StepRef{}
		}
		return
	}
	switch {
	case t.cancel != nil:
		t.cancel(provider.ErrCancelled)
	case t.phase == wire.PhaseAccepted:
		if err := r.journal.Drop(t.ref); err != nil && !errors.Is(err, journal.ErrWrongPhase) {
			_ = r.broken(err)
			return
		}
		delete(r.desk.tasks, pairOf(t.ref))
		r.desk.stir()
	}
}
