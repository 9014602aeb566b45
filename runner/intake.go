package runner

import (
	"context"
	"errors"
	"fmt"

	"runnerd/internal/fault"
	"runnerd/internal/sse"
	"runnerd/internal/wire"
	"runnerd/runner/journal"
	"runnerd/runner/step"
)

// errBadEvent ends a connection: its numbering cannot be trusted (faults N11).
var errBadEvent = errors.New("the stream carries an event that cannot be placed")

// take handles one event of the stream. An error ends the connection; the cursor has not moved then.
func (r *Runner) take(steps context.Context, ev sse.Event, plain bool) error {
	if ev.Type == wire.EventControl {
		return r.control(ev)
	}
	if ev.ID == "" {
		return fmt.Errorf("%w: %q without an id", errBadEvent, ev.Type)
	}
	seq, err := ev.Seq()
	if err != nil {
		return fmt.Errorf("%w: %w", errBadEvent, err)
	}
	frame, err := wire.Decode[wire.Dispatch](ev.Data)
	if err != nil {
		return r.takeBad(ev, seq, err, plain)
	}
	if frame.Seq != seq {
		return fmt.Errorf("%w: the frame says seq %d, the event %d", errBadEvent, frame.Seq, seq)
	}
	return r.takeFrame(steps, frame, ev.Data, plain)
}

// control obeys an event that is no frame. What is not known is taken for "report now".
func (r *Runner) control(ev sse.Event) error {
	c, err := wire.DecodeReply[wire.Control](ev.Data)
	if err == nil && c.Reason == wire.ControlSuperseded {
		return errSuperseded
	}
	if err == nil && c.Reason == wire.ControlRevoked {
		return errRevoked
	}
	r.sayNow()
	return nil
}

// takeBad refuses a frame that is not one, when it says at least which step it is about.
func (r *Runner) takeBad(ev sse.Event, seq int64, because error, plain bool) error {
	id, err := wire.DecodeReply[ident](ev.Data)
	r.log.warn("a frame was refused", "seq", seq, "err", because)
	if err != nil || id.Seq != seq {
		return nil // nobody can be told; the frame is as good as never sent
	}
	code := wire.CodeInvalidInput
	if len(ev.Data) > wire.MaxFrame {
		code = wire.CodeFrameTooLarge
	}
	r.desk.mu.Lock()
	defer r.desk.mu.Unlock()
	if r.journal.Find(id.RunID, id.StepID).Phase != journal.None {
		return nil // of a step that is known nothing is said that could be taken for its end
	}
	return r.refuse(id.StepRef, &wire.StepError{Code: code, Message: "frame: " + because.Error()}, plain)
}

// ident is what a frame must say for a refusal to be possible.
type ident struct{ wire.StepRef }

func (r *Runner) takeFrame(steps context.Context, frame wire.Dispatch, raw []byte, plain bool) error {
	ref, hash := frame.Ref(), journal.HashOf(frame)
	var plan *step.Plan
	var cannot *wire.StepError
	known := r.knowsProviders()
	if known || frame.Kind != wire.KindModel {
		plan, cannot = r.exec.Plan(frame)
	}
	fault.Point("R02")
	d := r.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	v := r.viewOf(frame, len(raw), hash)
	v.refusal = cannot
	what, because := admit(v)
	switch what {
	case nudge:
		r.postNow()
	case refuse:
		return r.refuse(ref, because, plain)
	case cannotRerun:
		return r.answer(ref, hash, rerunOutput())
	case replay:
		return r.replay(ref, hash, plain)
	case accept:
		return r.accept(steps, frame, raw, plan, plain)
	}
	return nil
}

// viewOf gathers what admit needs. The desk is locked.
func (r *Runner) viewOf(frame wire.Dispatch, size int, hash journal.Hash) view {
	known := r.journal.Find(frame.RunID, frame.StepID)
	all, byProvider := r.desk.working()
	r.mu.Lock()
	defer r.mu.Unlock()
	lanes := r.shelf[frame.Provider].Lanes
	state := r.state()
	return view{
		size: size, limit: int(min(r.limits.MaxFrameBytes, wire.MaxFrame)), seq: frame.Seq, high: max(r.desk.high, r.desk.gateway),
		cursor: r.desk.cursor(), known: known, same: known.Hash == hash, ready: state == wire.StateReady, state: state,
		free: all < r.cfg.MaxSteps && len(r.desk.tasks) < wire.MaxHeld, lane: lanes == 0 || byProvider[frame.Provider] < lanes,
		room: true, // judged by the journal itself, when it accepts
	}
}

// accept takes a step: first into the journal, then onto the desk, and into the next report. The desk is locked.
func (r *Runner) accept(steps context.Context, frame wire.Dispatch, raw []byte, plan *step.Plan, plain bool) error {
	d, ref := r.desk, frame.Ref()
	was := d.high
	d.high = max(d.high, ref.Seq)
	switch err := r.journal.Accept(frame, raw, d.cursor()); {
	case errors.Is(err, journal.ErrNoRoom):
		d.high = was
		r.log.warn("no room for another step", "err", err)
		return r.refuse(ref, &wire.StepError{Code: wire.CodeBusy, Message: journal.ErrNoRoom.Error(), Retriable: true}, plain)
	case err != nil:
		d.high = was
		return r.broken(err)
	}
	t := &task{ref: ref, frame: frame, plan: plan, phase: wire.PhaseAccepted, since: now(), provider: frame.Provider, model: frame.Model}
	d.tasks[pairOf(ref)] = t
	d.stir()
	if plain {
		r.start(steps, t, wire.StepTimeout)
		return nil
	}
	r.sayNow()
	return nil
}

// refuse turns an offer down: in the next report, or, to a plain host, by a result. The desk is locked.
func (r *Runner) refuse(ref wire.StepRef, because *wire.StepError, plain bool) error {
	d := r.desk
	if plain {
		d.high = max(d.high, ref.Seq)
		return r.answer(ref, journal.Hash{}, r.exec.Encode(ref, wire.Output{Error: because}))
	}
	for _, old := range d.refusals {
		if old.StepRef == ref {
			return nil // already on its way
		}
	}
	if len(d.refusals) >= wire.MaxHeld { // back-pressure (faults H06): the cursor stays, and the frame comes again
		return fmt.Errorf("%w: %d refusals wait", errBadEvent, len(d.refusals))
	}
	settles := ref.Seq > d.cursor() && ref.Seq <= max(d.high, d.gateway)+maxJump
	if settles {
		d.high = max(d.high, ref.Seq)
	}
	if because.Code == wire.CodeBusy {
		d.busy = true
	}
	d.refusals = append(d.refusals, refusal{wire.Refusal{StepRef: ref, Code: because.Code, Message: because.Message}, settles})
	r.sayNow()
	return nil
}

// answer puts an output into the outbox for an offer that is not run. The desk is locked.
func (r *Runner) answer(ref wire.StepRef, hash journal.Hash, output []byte) error {
	if err := r.journal.Finish(ref, hash, output); err != nil {
		if errors.Is(err, journal.ErrNoRoom) {
			r.log.warn("no room for an answer", "err", err)
			return nil // it will be offered again
		}
		return r.broken(err)
	}
	r.desk.tasks[pairOf(ref)] = &task{ref: ref, phase: wire.PhaseFinished, since: now()}
	r.desk.high = max(r.desk.high, ref.Seq)
	r.desk.stir()
	r.postNow()
	return nil
}

// replay answers an offer by the result that waits from an earlier offer of the same step: at once to a plain host, else
// under a permit like any other result. The desk is locked.
func (r *Runner) replay(ref wire.StepRef, hash journal.Hash, plain bool) error {
	t := r.desk.tasks[pairOf(ref)]
	if t == nil {
		return nil
	}
	r.desk.high = max(r.desk.high, ref.Seq)
	if plain {
		output, err := r.journal.Output(t.ref)
		if err != nil {
			return r.broken(err)
		}
		return r.answer(ref, hash, output)
	}
	t.again = ref
	r.sayNow()
	return nil
}

// broken ends the runner when the journal cannot keep its promises any more.
func (r *Runner) broken(err error) error {
	if errors.Is(err, journal.ErrBroken) {
		r.fail(err)
		return err
	}
	r.log.warn("the journal refuses", "err", err)
	return nil
}

func rerunOutput() []byte {
	b, err := encodeFailure(wire.CodeOutcomeUnknown, "this step ran here before; its result was delivered and is not kept")
	if err != nil {
		panic(err) // a constant
	}
	return b
}

// worthALook says that a failure may have changed what a provider can do.
func worthALook(code wire.Code) bool {
	switch code {
	case wire.CodeAuthRequired, wire.CodeCLINotFound, wire.CodeCLITooOld, wire.CodeEndpointDown, wire.CodeCredentialMissing, wire.CodeCredentialLocked:
		return true
	}
	return false
}
