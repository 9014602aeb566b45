package runner

import (
	"context"
	"errors"
	"time"

	"runnerd/internal/fault"
	"runnerd/internal/wire"
	"runnerd/runner/journal"
	"runnerd/runner/link"
)

// deliver posts what lies in the outbox until ctx ends. A result leaves the disk on a verdict and on nothing else; what the
// gateway does not take is parked, shown, and tried again hourly, and whenever a new connection was made (faults N07).
func (r *Runner) deliver(ctx context.Context) {
	var failures link.Backoff
	var wait time.Duration
	for {
		t := time.NewTimer(r.postWhen(wait))
		if wait > 0 { // what comes meanwhile waits too
			select {
			case <-ctx.Done():
			case <-t.C:
			}
		} else {
			select {
			case <-ctx.Done():
			case <-r.post:
			case <-t.C:
			}
		}
		t.Stop()
		if ctx.Err() != nil {
			return
		}
		wait = 0
		for {
			more, err := r.postOnce(ctx)
			if err != nil {
				asked := time.Duration(0)
				if status, ok := errors.AsType[*link.StatusError](err); ok {
					asked = status.RetryAfter
				}
				wait = failures.Next(asked)
				r.log.warn("results could not be posted", "err", r.client.Words(err))
				break
			}
			failures.Reset()
			if !more {
				break
			}
		}
	}
}

// postWhen is how long to wait for a kick: for ever, unless something failed or is parked.
func (r *Runner) postWhen(wait time.Duration) time.Duration {
	if wait > 0 {
		return wait
	}
	r.desk.mu.Lock()
	defer r.desk.mu.Unlock()
	next := wire.ParkedRetry
	for _, t := range r.desk.tasks {
		if t.parked != "" {
			next = min(next, max(time.Until(t.retry), 0))
		}
	}
	return next
}

// postOnce posts one batch. It reports whether there may be more.
func (r *Runner) postOnce(ctx context.Context) (more bool, err error) {
	batch, more := r.batch()
	if len(batch) == 0 {
		return false, r.journal.Err()
	}
	verdicts, err := r.client.Results(ctx, batch)
	status, answered := errors.AsType[*link.StatusError](err)
	switch {
	case err == nil:
		fault.Point("R12")
		return more, r.judged(verdicts)
	case errors.Is(err, link.ErrUnpaired):
		r.park(batch, err.Error())
		return more, nil
	case answered && status.Lasting() && len(batch) > 1: // one of them may be to blame: each for itself
		for _, one := range batch {
			if err := r.postAlone(ctx, one); err != nil {
				return true, err
			}
		}
		return more, nil
	case answered && status.Lasting():
		r.park(batch, status.Error())
		return more, nil
	}
	return true, err
}

func (r *Runner) postAlone(ctx context.Context, one wire.Result) error {
	verdicts, err := r.client.Results(ctx, []wire.Result{one})
	if status, ok := errors.AsType[*link.StatusError](err); ok && status.Lasting() {
		r.park([]wire.Result{one}, status.Error())
		return nil
	}
	if err != nil {
		return err
	}
	return r.judged(verdicts)
}

// batch gathers the oldest results that are due and fit into one request.
func (r *Runner) batch() (batch []wire.Result, more bool) {
	r.desk.mu.Lock()
	defer r.desk.mu.Unlock()
	r.mu.Lock()
	most := wire.MaxResults
	if r.plain {
		most = 1
	}
	r.mu.Unlock()
	size := 0
	for _, t := range r.desk.sorted() {
		if t.phase != wire.PhaseFinished || t.parked != "" && time.Now().Before(t.retry) {
			continue
		}
		if t.parked != "" && time.Since(t.since) > wire.LateKept {
			r.expire(t)
			continue
		}
		output, err := r.output(t)
		if err != nil {
			continue
		}
		if size += len(output) + 512; len(batch) > 0 && (size > wire.MaxResult || len(batch) == most) { // 512: the frame around it
			return batch, true
		}
		batch = append(batch, wire.Result{RunID: t.ref.RunID, StepID: t.ref.StepID, Seq: t.ref.Seq, Output: output})
	}
	return batch, false
}

// output reads a result. One that the disk has spoiled is not delivered: that nobody knows what it was is (faults S06).
func (r *Runner) output(t *task) ([]byte, error) {
	output, err := r.journal.Output(t.ref)
	if !errors.Is(err, journal.ErrDamaged) {
		if err != nil {
			_ = r.broken(err)
		}
		return output, err
	}
	r.cfg.Log.Error("a result is damaged on the disk", "run", t.ref.RunID, "step", t.ref.StepID)
	output, err = encodeFailure(wire.CodeOutcomeUnknown, "the result was damaged on the runner's disk")
	if err == nil {
		err = r.journal.Finish(t.ref, r.journal.Find(t.ref.RunID, t.ref.StepID).Hash, output)
	}
	if err != nil {
		_ = r.broken(err)
	}
	return output, err
}

// judged takes acknowledged results off the disk and the desk.
func (r *Runner) judged(verdicts []wire.Verdict) error {
	fault.Point("R13")
	d := r.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range verdicts {
		ref := wire.StepRef{RunID: v.RunID, StepID: v.StepID, Seq: v.Seq}
		t := d.find(ref)
		if t == nil {
			continue // it answers a newer offer by now
		}
		if v.Verdict != wire.VerdictAccepted && v.Verdict != wire.VerdictDeduplicated {
			r.cfg.Log.Warn("a result came to nothing", "run", v.RunID, "step", v.StepID, "verdict", v.Verdict, "code", v.Code)
		}
		if err := r.journal.Ack(ref, v.Verdict); err != nil {
			return r.broken(err)
		}
		delete(d.tasks, pairOf(ref))
	}
	d.stir()
	return nil
}

// park sets results aside that the gateway does not take as things are.
func (r *Runner) park(batch []wire.Result, why string) {
	r.desk.mu.Lock()
	defer r.desk.mu.Unlock()
	for _, one := range batch {
		if t := r.desk.find(one.Ref()); t != nil {
			t.parked, t.retry = why, time.Now().Add(wire.ParkedRetry)
			r.cfg.Log.Warn("a result is kept: the gateway does not take it", "run", one.RunID, "step", one.StepID, "err", why)
		}
	}
	r.desk.stir()
}

// unpark lets every parked result be posted at once.
func (r *Runner) unpark() {
	r.desk.mu.Lock()
	defer r.desk.mu.Unlock()
	for _, t := range r.desk.tasks {
		t.retry = time.Time{}
	}
}

// expire gives up a result that the gateway did not take for wire.LateKept. The desk is locked.
func (r *Runner) expire(t *task) {
	r.cfg.Log.Error("a result is given up", "run", t.ref.RunID, "step", t.ref.StepID, "err", t.parked)
	if err := r.journal.Ack(t.ref, "expired"); err != nil {
		_ = r.broken(err)
		return
	}
	delete(r.desk.tasks, pairOf(t.ref))
	r.desk.stir()
}
