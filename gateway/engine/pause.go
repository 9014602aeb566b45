package engine

import (
	"fmt"
	"time"

	"runnerd/internal/wire"
)

// The drain policies of a pause (wire section 8).
const (
	DrainCurrentNode = "drain-current-node" // what is active ends first
	DrainImmediate   = "immediate"          // what is active is cut, and starts again when the run is resumed
)

// Pause keeps the run from going on. Decide refuses it with a *StateError, or with a *wire.FieldError for another policy.
type Pause struct {
	Reason string
	Policy string // empty: DrainCurrentNode
	By     string // opaque principal
}

// Resume lets a run that was paused go on. Decide refuses it with a *StateError.
type Resume struct{ By string }

func (Pause) input()  {}
func (Resume) input() {}

// A StateError says that a run cannot be paused or resumed as it stands. The run is as it was.
type StateError struct {
	Status   string     // details.runStatus
	PausedAt *time.Time // of a run that is paused, or is about to be
}

func (e *StateError) Error() string { return "the run is " + e.Status }

// A pausing is a pause that was asked for.
type pausing struct {
	runPaused
	at time.Time
}

// pause refuses a run that only waits for somebody: there is nothing to hold up, and its interrupt stays what it was.
func (t *turn) pause(in Pause) {
	if in.Policy == "" {
		in.Policy = DrainCurrentNode
	}
	s := t.s
	switch {
	case in.Policy != DrainCurrentNode && in.Policy != DrainImmediate:
		t.err = &wire.FieldError{Field: "drainPolicy", Reason: fmt.Sprintf("must be %s or %s", DrainCurrentNode, DrainImmediate)}
		return
	case s.paused != nil:
		t.err = &StateError{StatusPaused, when(s.paused.at)}
		return
	case s.draining != nil && in.Policy == DrainCurrentNode:
		t.err = &StateError{StatusPaused, when(s.draining.at)}
		return
	case !s.busy():
		t.err = &StateError{Status: Status(s)}
		return
	}
	p := runPaused{in.Reason, in.Policy, in.By}
	if in.Policy == DrainCurrentNode {
		t.emit(TypeRunPausing, "", "", p)
		return
	}
	for _, i := range s.wf.order {
		switch n := &s.nodes[i]; {
		case n.status != nodeActive || n.phase == phaseSuspended:
		case n.phase == phaseChild:
			t.effect(PauseChild{n.child, in.Reason})
		default:
			t.abandon(i, "the run was paused")
		}
	}
	t.emit(TypeRunPaused, "", "", p)
}

// drained pauses the run once what was active has ended.
func (t *turn) drained() {
	if p := t.s.draining; p != nil && !t.s.busy() {
		t.emit(TypeRunPaused, "", "", p.runPaused)
	}
}

// resume goes on where the run was held up: with attempts that were cut, with interrupts that were answered meanwhile, and
// with what has become ready.
func (t *turn) resume() bool {
	if t.s.paused == nil && t.s.draining == nil {
		t.err = &StateError{Status: Status(t.s)}
		return false
	}
	held := t.s.paused != nil
	t.emit(TypeRunResumed, "", "", struct{}{})
	for _, i := range t.s.wf.order {
		if t.err != nil || t.s.Terminal() {
			break
		}
		switch n := &t.s.nodes[i]; {
		case n.status != nodeActive:
		case n.phase == phaseCut:
			t.startNode(i)
		case n.answered():
			t.resumeNode(i)
		case n.phase == phaseChild && held:
			t.effect(ResumeChild{n.child})
		}
	}
	return t.err == nil
}

// busy reports whether a node does something, apart from waiting for somebody.
func (s *State) busy() bool {
	for i := range s.nodes {
		if n := &s.nodes[i]; n.status == nodeActive && n.phase != phaseSuspended {
			return true
		}
	}
	return false
}

func (s *State) foldPause(e Event) error {
	var p runPaused
	if err := decode(e.Payload, &p); err != nil {
		return err
	}
	switch {
	case s.paused != nil:
		return errOrder
	case e.Type == TypeRunPausing:
		s.draining = &pausing{p, e.Timestamp}
		return nil
	}
	s.draining, s.paused = nil, &pausing{p, e.Timestamp}
	for i := range s.nodes {
		if n := &s.nodes[i]; n.status == nodeActive && n.phase != phaseSuspended && n.phase != phaseChild {
			n.phase = phaseCut
		}
	}
	return nil
}
