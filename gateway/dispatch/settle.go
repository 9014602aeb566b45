package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// own gives the step that a runner speaks of, if the offer it names is the latest and its own. Everything else is the same
// to the runner: not found (faults.md T13).
func (s *Service) own(r store.Reader, who Who, ref wire.StepRef) (store.Step, bool, error) {
	step, err := r.Step(who.Subject.Tenant(), store.RunID(ref.RunID), store.StepID(ref.StepID))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Step{}, false, nil
	case err != nil:
		return store.Step{}, false, err
	}
	if step.Subject != who.Subject || step.Runner != who.Runner || step.Seq != ref.Seq || ref.Seq < 1 {
		return store.Step{}, false, nil
	}
	return step, true, nil
}

// accept makes an offer a start permit, once; asked again it gives the same permit.
func (s *Service) accept(tx *Tx, who Who, ref wire.StepRef) (store.Step, bool, error) {
	step, own, err := s.own(tx, who, ref)
	if err != nil || !own || step.State != store.StepOffered {
		return step, own, err
	}
	step, err = s.permit(tx, step, false)
	return step, true, err
}

// permit moves an offered step to accepted and tells its run.
func (s *Service) permit(tx *Tx, step store.Step, plain bool) (store.Step, error) {
	next, detail := step, ""
	if next.Plain = plain; plain {
		detail = "plain"
	}
	next, err := s.move(tx, step, next, EventAccept)
	if err != nil {
		return step, err
	}
	if err := s.audit(tx, store.AuditPermit, next, detail); err != nil {
		return step, err
	}
	return next, s.runs.Accepted(tx, next)
}

// refuse carries out a runner's refusal, which proves that the step was not started. It is true for a refusal as busy.
func (s *Service) refuse(tx *Tx, who Who, f wire.Refusal) (bool, error) {
	step, own, err := s.own(tx, who, f.StepRef)
	if err != nil || !own {
		return false, err
	}
	if s.taint([]byte(f.Message)) {
		f.Message = ""
	}
	tx.free(who.Runner, step.Seq)
	because := &wire.StepError{Code: f.Code, Message: f.Message}
	switch {
	case step.State == store.StepAccepted:
		// It has the permit, so it is never offered again; it says that it will not start, or cannot say how it ended.
		return false, s.failed(tx, step, EventFailure, because)
	case step.State != store.StepOffered:
		return false, nil
	case f.Code != wire.CodeBusy:
		if err := s.audit(tx, store.AuditRefused, step, string(f.Code)); err != nil {
			return false, err
		}
		return false, s.failed(tx, step, EventRefuse, because)
	}
	next, err := s.move(tx, step, step, EventBusy)
	if err != nil {
		return false, err
	}
	tx.leaveOut(who.Runner)
	Alarm(tx, next.Due)
	return true, s.audit(tx, store.AuditRefused, next, string(f.Code))
}

// failed ends a step with what the runner says about it.
func (s *Service) failed(tx *Tx, step store.Step, e Event, because *wire.StepError) error {
	next := step
	if because.Message == "" {
		because.Message = string(because.Code)
	}
	next.Code, next.Output = string(because.Code), errorOutput(because)
	switch {
	case e == EventRefuse:
		next.Outcome = OutcomeNotStarted
	case because.Code == wire.CodeOutcomeUnknown:
		next.Code, next.Outcome = string(wire.CodeRunnerUnavailable), OutcomeUnknown
	}
	next, err := s.move(tx, step, next, e)
	if err != nil {
		return err
	}
	return s.finish(tx, next, store.AuditFailed, next.Code)
}

// giveUp ends a step by the host's own verdict: no runner could take it, or the one that took it was lost.
func (s *Service) giveUp(tx *Tx, step store.Step, e Event, why string) error {
	next := step
	next.Code, next.Outcome, next.Output = string(wire.CodeRunnerUnavailable), OutcomeNotStarted, nil
	if e == EventLost {
		next.Outcome = OutcomeUnknown
	}
	next, err := s.move(tx, step, next, e)
	if err != nil {
		return err
	}
	return s.finish(tx, next, store.AuditFailed, next.Code+" "+next.Outcome+": "+why)
}

// finish does what every end of a step has in common.
func (s *Service) finish(tx *Tx, step store.Step, kind, detail string) error {
	if err := s.audit(tx, kind, step, detail); err != nil {
		return err
	}
	if err := tx.DeleteAsks(step.Tenant, step.Run, step.ID); err != nil {
		return fmt.Errorf("delete questions of step %s: %w", step.ID, err)
	}
	return s.runs.Ended(tx, step)
}

// withdraw takes an offer back. The step goes to the queue, with the wait that it has left, and on to whoever can take it.
func (s *Service) withdraw(tx *Tx, step store.Step, why string) error {
	next, err := s.move(tx, step, step, EventWithdraw)
	if err != nil {
		return err
	}
	tx.free(step.Runner, step.Seq) // its late accept will be answered "gone"
	Alarm(tx, next.Due)
	if err := s.audit(tx, store.AuditWithdrawn, next, why); err != nil {
		return err
	}
	tx.Publish(store.QueueTopic(next.Subject))
	return nil
}

// Abandon cancels a step at once, wherever it is; its runner learns by a stop. A step that ended already is left alone.
func (s *Service) Abandon(tx *Tx, t store.Tenant, run store.RunID, id store.StepID, why string) error {
	step, err := tx.Step(t, run, id)
	if err != nil {
		return fmt.Errorf("abandon step %s: %w", id, err)
	}
	if step.State.Terminal() {
		return nil
	}
	next := step
	next.Code = string(wire.CodeCancelled)
	next, err = s.move(tx, step, next, EventCancel)
	if err != nil {
		return err
	}
	if err := s.audit(tx, store.AuditCancel, next, why); err != nil {
		return err
	}
	if err := tx.DeleteAsks(t, run, id); err != nil {
		return fmt.Errorf("delete questions of step %s: %w", id, err)
	}
	if step.State == store.StepQueued {
		return nil
	}
	tx.Publish(store.RunnerTopic(step.Runner)) // "report now": the answer has the stop
	return nil
}

// Withdraw takes back every offer to a runner that is not connected any more, and offers the steps to others.
func (s *Service) Withdraw(ctx context.Context, who Who, why string) error {
	offered, err := s.has(ctx, who, store.StepOffered)
	if err != nil || !offered {
		return err
	}
	return s.Update(ctx, func(tx *Tx) error {
		if !s.reg.unlinked(who.Runner) {
			return nil // it is back
		}
		return s.withdrawAll(tx, who, why)
	})
}

func (s *Service) withdrawAll(tx *Tx, who Who, why string) error {
	return s.each(tx, who, store.StepOffered, func(step store.Step) error { return s.withdraw(tx, step, why) })
}

// lose gives up every step that the runner accepted and mentioned does not hold.
func (s *Service) lose(tx *Tx, who Who, mentioned map[wire.StepRef]bool, why string) error {
	return s.each(tx, who, store.StepAccepted, func(step store.Step) error {
		if mentioned[wire.StepRef{RunID: string(step.Run), StepID: string(step.ID), Seq: step.Seq}] {
			return nil
		}
		return s.giveUp(tx, step, EventLost, why)
	})
}

// each goes through a runner's steps in a state. What is done with one may end others of the same run, so each is looked at
// again when its turn comes.
func (s *Service) each(tx *Tx, who Who, state store.StepState, do func(store.Step) error) error {
	for step, err := range tx.StepsOfRunner(who.Subject, who.Runner, state) {
		if err != nil {
			return err
		}
		now, err := tx.Step(step.Tenant, step.Run, step.ID)
		if err != nil {
			return err
		}
		if now.Fence() != step.Fence() {
			continue
		}
		if err := do(now); err != nil {
			return err
		}
	}
	return nil
}

// has says whether a runner has steps in one of the states.
func (s *Service) has(ctx context.Context, who Who, states ...store.StepState) (bool, error) {
	found := false
	err := s.store.View(ctx, func(r store.Reader) error {
		for _, err := range r.StepsOfRunner(who.Subject, who.Runner, states...) {
			found = err == nil
			return err
		}
		return nil
	})
	return found, err
}

// errorOutput is the output of a step that failed with a code.
func errorOutput(e *wire.StepError) json.RawMessage {
	b, err := json.Marshal(wire.Output{Error: e})
	if err != nil {
		panic("an error has no JSON form: " + err.Error())
	}
	return b
}
