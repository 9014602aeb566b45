package runner

import (
	"fmt"

	"runnerd/internal/wire"
	"runnerd/runner/journal"
)

// maxJump is how far a frame's seq may be ahead of the highest that was seen. Numbers are skipped only by offers that were
// withdrawn before they came here, so a jump further than this is a broken peer's, and following it would leave no way back
// (faults H05).
const maxJump = 1_000_000

// A verdict is what is done with a frame.
type verdict int

const (
	ignore      verdict = iota // a repeat, or nothing that could be answered without a lie
	accept                     // take it
	refuse                     // say no, which proves that it was not started
	nudge                      // its result waits already: post it
	replay                     // it ran here under an earlier offer: its result answers this one too
	cannotRerun                // it ran here and its result is gone: say so
)

// A view is all that the decision about a frame depends on.
type view struct {
	size    int             // bytes of the frame
	limit   int             // that a frame may have
	seq     int64           // of the frame
	high    int64           // highest seq that was seen, here or by the gateway
	cursor  int64           // at or below which every frame was settled
	known   journal.Step    // what is known of its run and step
	same    bool            // it asks for the work that is known
	refusal *wire.StepError // why it cannot run here at all
	ready   bool            // steps are taken now
	state   string          // why not
	free    bool            // a lane is free
	lane    bool            // of its provider too
	room    bool            // on the disk
}

// admit decides about a frame. Being asked again is normal; being asked for other work under the same name, or out of
// order, is a broken peer's doing and starts nothing (faults H05, H07).
func admit(v view) (verdict, *wire.StepError) {
	no := func(code wire.Code, format string, args ...any) (verdict, *wire.StepError) {
		return refuse, &wire.StepError{Code: code, Message: fmt.Sprintf(format, args...), Retriable: code == wire.CodeBusy}
	}
	if v.known.Phase != journal.None && v.known.Seq == v.seq {
		if !v.same && v.known.Phase != journal.Settled {
			return ignore, nil // a refusal would say of the step that runs that it does not
		}
		switch v.known.Phase {
		case journal.Finished:
			return nudge, nil
		case journal.Settled:
			return cannotRerun, nil
		}
		return ignore, nil
	}
	if v.seq > v.high+maxJump {
		return no(wire.CodeInvalidInput, "seq %d is too far ahead of %d", v.seq, v.high)
	}
	if v.known.Phase != journal.None {
		switch {
		case v.seq < v.known.Seq:
			return ignore, nil
		case !v.same:
			return no(wire.CodeInvalidInput, "the step is known here with other inputs")
		case v.known.Phase == journal.Started:
			return ignore, nil
		case v.known.Phase == journal.Finished:
			return replay, nil
		case v.known.Phase == journal.Settled:
			return cannotRerun, nil
		}
	}
	switch {
	case v.seq <= v.cursor:
		return no(wire.CodeBusy, "seq %d is not above the cursor %d", v.seq, v.cursor)
	case v.size > v.limit:
		return no(wire.CodeFrameTooLarge, "the frame has %d bytes, %d are taken", v.size, v.limit)
	case v.refusal != nil:
		return refuse, v.refusal
	case !v.ready:
		return no(wire.CodeBusy, "the runner is %s", v.state)
	case v.known.Phase == journal.Accepted:
		return accept, nil // under a newer offer; its lane and its room are its own
	case !v.free:
		return no(wire.CodeBusy, "all lanes are taken")
	case !v.lane:
		return no(wire.CodeBusy, "all lanes of the provider are taken")
	case !v.room:
		return no(wire.CodeBusy, "%v", journal.ErrNoRoom)
	}
	return accept, nil
}
