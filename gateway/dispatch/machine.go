package dispatch

import (
	"time"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// An Event is what happens to a step.
type Event string

// The events of a step. See the picture in the package comment.
const (
	EventCreate   Event = "create"
	EventOffer    Event = "offer"
	EventAccept   Event = "accept"   // the runner took the offer: the start permit
	EventBusy     Event = "busy"     // the runner refused for want of a lane
	EventRefuse   Event = "refuse"   // it cannot be done: the runner says so, or the frame could not be made
	EventWithdraw Event = "withdraw" // not accepted in time, or the stream closed
	EventExpire   Event = "expire"   // the wait for a runner is over
	EventResult   Event = "result"
	EventFailure  Event = "failure" // a result that is an error
	EventLost     Event = "lost"    // the runner is gone, or the deadline passed
	EventCancel   Event = "cancel"
	EventAgain    Event = "again" // its run tries a step again that no runner started
)

// The outcomes of a failure that is the host's own verdict (faults.md I8).
const (
	OutcomeNotStarted = "not_started"
	OutcomeUnknown    = "unknown"
)

// none is the state of a step that does not exist yet.
const none store.StepState = ""

// Next gives the state after an event. It is false where the event does not belong to the state: then nothing happens.
func Next(s store.StepState, e Event) (store.StepState, bool) {
	switch {
	case s == none && e == EventCreate:
		return store.StepQueued, true
	case s == none && e == EventRefuse:
		return store.StepFailed, true

	case s == store.StepQueued && e == EventOffer:
		return store.StepOffered, true
	case s == store.StepOffered && e == EventAccept:
		return store.StepAccepted, true
	case s == store.StepOffered && (e == EventBusy || e == EventWithdraw):
		return store.StepQueued, true
	case s == store.StepOffered && e == EventRefuse:
		return store.StepFailed, true
	case (s == store.StepQueued || s == store.StepOffered) && e == EventExpire:
		return store.StepFailed, true

	case s == store.StepAccepted && e == EventResult:
		return store.StepDone, true
	case s == store.StepAccepted && (e == EventFailure || e == EventLost):
		return store.StepFailed, true

	case s == store.StepFailed && e == EventAgain: // only where no runner started it: see again
		return store.StepQueued, true

	case s != none && !s.Terminal() && e == EventCancel:
		return store.StepCancelled, true
	}
	return s, false
}

// enter gives the step in its next state, with the time it has to leave it. The wait for a runner is counted until a runner
// accepts, over all the offers in between (design, section 4); a step that ended has no deadline.
func enter(step store.Step, next store.StepState, now time.Time) store.Step {
	if step.State == store.StepQueued || step.State == store.StepOffered {
		step.Waited += max(0, now.Sub(step.Since))
	}
	left := max(0, step.Wait-step.Waited)
	step.State, step.Since = next, now
	switch next {
	case store.StepQueued:
		step.Due = now.Add(left)
	case store.StepOffered:
		step.Due = now.Add(min(left, wire.AcceptWithin))
	case store.StepAccepted:
		step.Due = now.Add(step.Timeout + wire.StepGrace)
	default:
		step.Due = time.Time{}
	}
	return step
}

// again reports whether a step that failed may be tried again under the same id: no runner could take it, so nothing was
// started (wire 14.4). Everything else is final.
func again(step store.Step) bool {
	return step.State == store.StepFailed && step.Code == string(wire.CodeRunnerUnavailable) && step.Outcome == OutcomeNotStarted
}

// dueEvent says what the deadline of a step that is due brings: an offer that was not accepted goes back to the queue, if
// there is wait left.
func dueEvent(step store.Step, now time.Time) Event {
	switch {
	case step.State == store.StepAccepted:
		return EventLost
	case step.State == store.StepOffered && step.Waited+max(0, now.Sub(step.Since)) < step.Wait:
		return EventWithdraw
	}
	return EventExpire
}

// remaining is how long an accepted step may still run, as the runner is told: the grace is the gateway's.
func remaining(step store.Step, now time.Time) time.Duration {
	return max(0, step.Due.Add(-wire.StepGrace).Sub(now))
}
