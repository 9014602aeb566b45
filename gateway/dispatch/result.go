package dispatch

import (
	"bytes"
	"context"

	"runnerd/gateway/store"
	"runnerd/internal/fault"
	"runnerd/internal/wire"
)

// An Incoming is a result frame as the channel read it. Refuse is set when the frame itself may not be kept: then the
// output is not looked at.
type Incoming struct {
	wire.Result
	Refuse wire.Code
}

// CodeNotFound is the code of every refusal of a result that is not the runner's to give, whatever the reason: unknown run,
// another subject's, another offer's, no permit (faults.md T13).
const CodeNotFound = "not_found"

// A ruling is what a result frame leads to.
type ruling string

const (
	rulingStore     ruling = "store"     // the step's result
	rulingRefusal   ruling = "refusal"   // an error without a permit: the runner refused the offer
	rulingDuplicate ruling = "duplicate" // the result is stored already
	rulingLate      ruling = "late"      // the step ended without it
	rulingUnfit     ruling = "unfit"     // it is the step's result, and may not be kept
	rulingForeign   ruling = "foreign"   // not this runner's to give
)

// judge decides about a result frame. own says that its (runner, seq) is the step's latest offer, and to this runner: no
// result is taken by run and step alone, and none by epoch.
func judge(step store.Step, own bool, in Incoming, failure *wire.StepError) ruling {
	switch {
	case !own:
		return rulingForeign
	case step.State == store.StepAccepted && in.Refuse != "":
		return rulingUnfit
	case step.State == store.StepAccepted:
		return rulingStore
	case step.State == store.StepOffered && in.Refuse == "" && failure != nil:
		return rulingRefusal
	case step.State.Terminal() && len(step.Output) > 0:
		return rulingDuplicate
	case step.State.Terminal() && in.Refuse == "":
		return rulingLate
	}
	return rulingForeign
}

// Results carries out a runner's result frames in one transaction and gives a verdict for each, in their order.
func (s *Service) Results(ctx context.Context, who Who, frames []Incoming) ([]wire.Verdict, error) {
	var verdicts []wire.Verdict
	var done []int64
	err := s.Update(ctx, func(tx *Tx) error {
		verdicts, done = make([]wire.Verdict, 0, len(frames)), nil
		for _, in := range frames {
			v, err := s.result(tx, who, in)
			if err != nil {
				return err
			}
			if verdicts = append(verdicts, v); v.Verdict != wire.VerdictRefused || v.Code != CodeNotFound {
				done = append(done, in.Seq)
			}
		}
		fault.Point("G11")
		return nil
	})
	s.reg.seen(who.Runner)
	if err != nil {
		return nil, err
	}
	s.reg.release(who.Runner, done...)
	return verdicts, nil
}

func (s *Service) result(tx *Tx, who Who, in Incoming) (wire.Verdict, error) {
	step, own, err := s.own(tx, who, in.Ref())
	if err != nil {
		return wire.Verdict{}, err
	}
	var failure *wire.StepError
	if in.Refuse == "" {
		failure = wire.Failure(in.Output)
	}
	v := wire.Verdict{RunID: in.RunID, StepID: in.StepID, Seq: in.Seq}
	what := judge(step, own, in, failure)
	if what != rulingForeign {
		tx.free(who.Runner, in.Seq)
	}
	switch what {
	case rulingStore:
		v.Verdict = wire.VerdictAccepted
		return v, s.keep(tx, step, in, failure)
	case rulingRefusal:
		v.Verdict = wire.VerdictAccepted
		_, err := s.refuse(tx, who, wire.Refusal{StepRef: in.Ref(), Code: failure.Code, Message: failure.Message})
		return v, err
	case rulingDuplicate:
		v.Verdict = wire.VerdictDeduplicated
		if in.Refuse == "" && !bytes.Equal(step.Output, in.Output) {
			return v, s.audit(tx, store.AuditReject, step, "another output for a step that has one")
		}
		return v, nil
	case rulingLate:
		v.Verdict = wire.VerdictLate
		return v, s.late(tx, step, in)
	case rulingUnfit:
		v.Verdict, v.Code = wire.VerdictRefused, string(in.Refuse)
		if err := s.audit(tx, store.AuditReject, step, v.Code); err != nil {
			return v, err
		}
		return v, s.failed(tx, step, EventFailure, &wire.StepError{Code: in.Refuse, Message: "the runner's result was refused and not kept"})
	}
	if v.Verdict, v.Code = wire.VerdictRefused, CodeNotFound; in.Refuse != "" {
		v.Code = string(in.Refuse)
	}
	// Nothing of the frame is kept, not even its ids, which may be anything.
	return v, s.audit(tx, store.AuditReject, store.Step{Subject: who.Subject, Runner: who.Runner}, v.Code)
}

// keep stores the result of an accepted step.
func (s *Service) keep(tx *Tx, step store.Step, in Incoming, failure *wire.StepError) error {
	next := step
	next.Output = in.Output
	kind, detail, e := store.AuditResult, "", EventResult
	if failure != nil {
		next.Code, e, detail = string(failure.Code), EventFailure, string(failure.Code)
		if failure.Code == wire.CodeOutcomeUnknown {
			next.Code, next.Outcome = string(wire.CodeRunnerUnavailable), OutcomeUnknown
		}
	}
	next, err := s.move(tx, step, next, e)
	if err != nil {
		return err
	}
	return s.finish(tx, next, kind, detail)
}

// late keeps a result that came after its step had ended; the owner of the run can see it for a week.
func (s *Service) late(tx *Tx, step store.Step, in Incoming) error {
	for l, err := range tx.LateResults(step.Tenant, step.Run) {
		if err != nil {
			return err
		}
		if l.Runner == step.Runner && l.Seq == step.Seq {
			return nil
		}
	}
	err := tx.PutLate(store.Late{
		Tenant: step.Tenant, Run: step.Run, Step: step.ID, Runner: step.Runner, Seq: step.Seq, Output: in.Output, At: s.wall(),
	})
	if err != nil {
		return err
	}
	tx.Publish(store.SubjectTopic(step.Subject))
	return s.audit(tx, store.AuditLate, step, "")
}
