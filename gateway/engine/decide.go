package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// The ceilings that hold where Env.Caps names none (wire 2.1 limits).
const (
	DefaultNodeExecutions = 1000
	DefaultRunDuration    = 24 * time.Hour
)

// maxRunID leaves room for the sequence that an event's id adds to the run's.
const maxRunID = 108

// Decide says what one input leads to. It changes neither the workflow nor the state, and gives the same answer to the same
// question; the only randomness is in Env.Fence. The errors are ErrStale, when the input is about something that is over or
// was never asked for; what Refused knows, when somebody asked for what cannot be; ErrMasked and ErrNoRecording, when the state
// lacks what is not in its log; and broken invariants: a caller's mistake, or a log that does not fit the workflow.
func Decide(wf *Workflow, s *State, in Input, env Env) (Decision, error) {
	if s == nil {
		s = NewState(wf)
	}
	if s.wf != wf && !bytes.Equal(s.wf.doc, wf.doc) { // the same definition may have been read twice
		return Decision{}, errors.New("decide: the state is of another workflow")
	}
	_, first := in.(Created)
	switch {
	case s.Terminal(), first != (s.begun == nil):
		return Decision{}, s.refusal(in)
	case !first && s.begun.Masked != nil && !s.begun.revealed:
		return Decision{}, ErrMasked
	}
	if _, replay := s.Source(); replay && s.recording == nil {
		return Decision{}, ErrNoRecording
	}
	t := newTurn(s.Clone(), env)
	if t.input(in) && t.err == nil {
		t.settle()
	}
	return t.decision()
}

func newTurn(s *State, env Env) *turn {
	t := &turn{s: s, env: env, now: env.Now.UTC().Truncate(time.Millisecond), read: map[int]*outputs{}}
	t.clock = t.now.UnixMilli()
	if !env.Clock.IsZero() {
		t.clock = env.Clock.UnixMilli()
	}
	t.clock = max(t.clock, 1)
	return t
}

func (t *turn) decision() (Decision, error) {
	if t.err != nil {
		return Decision{}, t.err
	}
	t.keepTime()
	return Decision{Events: t.events, Effects: t.effects, Next: t.s}, nil
}

// refusal is what an input is told that comes before the beginning or after the end.
func (s *State) refusal(in Input) error {
	switch in := in.(type) {
	case Pause, Resume:
		return &StateError{Status: Status(s)}
	case Resolve:
		if _, _, err := s.interrupt(in.NodeID, in.InterruptID); err != nil {
			return err
		}
	}
	return ErrStale
}

// A turn is one decision in the making: s is the state after the events so far. Once err is set nothing more happens.
type turn struct {
	s       *State
	env     Env
	now     time.Time
	clock   int64 // store time, ms
	events  []Event
	effects []Effect
	began   bool  // a node or a step began to last
	spent   int64 // ms of the child whose node is ending
	asked   int   // bytes of inputs of the steps in effects
	read    map[int]*outputs
	err     error

	conditions map[*edge]conditionResult
	idle       map[int]bool // nodes of a fork's history that were not taken up yet: nothing of theirs is outstanding
}

// input applies an input, and says whether nodes may have become ready by it.
func (t *turn) input(in Input) bool {
	switch in := in.(type) {
	case Created:
		return t.created(in)
	case StepEnded:
		return t.stepEnded(in)
	case Progress:
		t.progress(in)
	case StepPhase:
		t.stepPhase(in)
	case TimerFired:
		return t.timerFired(in)
	case ChildEnded:
		return t.childEnded(in)
	case Pause:
		t.pause(in)
	case Resume:
		return t.resume()
	case Resolve:
		return t.resolveInterrupt(in)
	case Cancel:
		t.cancel(in)
	default:
		t.err = fmt.Errorf("decide: unknown input %T", in)
	}
	return false
}

// emit writes an event and folds it, so that the rest of the decision sees it.
func (t *turn) emit(typ, nodeID, trust string, payload any) {
	t.emitCaused(typ, nodeID, trust, "", payload)
}

// emitCaused writes an event that an earlier one led to.
func (t *turn) emitCaused(typ, nodeID, trust, cause string, payload any) {
	if t.err != nil {
		return
	}
	raw, err := encode(payload)
	if err != nil {
		t.err = fmt.Errorf("encode %s: %w", typ, err)
		return
	}
	t.emitRaw(Event{Type: typ, NodeID: nodeID, ContentTrust: trust, CausationID: cause, Payload: json.RawMessage(raw)})
}

// emitRaw gives an event its place in the log.
func (t *turn) emitRaw(e Event) {
	if t.err != nil {
		return
	}
	e.EventID, e.RunID, e.Sequence, e.Timestamp = eventID(t.s.runID, t.s.seq+1), t.s.runID, t.s.seq+1, t.now
	if t.err = t.s.Apply(e); t.err == nil {
		t.events = append(t.events, e)
	}
}

// effect refuses what a replay may not do, whatever led to it.
func (t *turn) effect(e Effect) {
	switch e.(type) {
	case Dispatch, StartChild:
		if t.s.recording != nil && t.err == nil {
			t.err = fmt.Errorf("decide: a replay asks for a %T", e)
		}
	}
	if t.err == nil {
		t.effects = append(t.effects, e)
	}
}

func eventID(run string, seq int64) string { return run + "." + strconv.FormatInt(seq, 10) }

// trust is how what was composed of values is marked (wire section 13, meet rule).
func trust(untrusted bool) string {
	if untrusted {
		return Untrusted
	}
	return Trusted
}

// since is a duration of wall time that never is negative, whatever the clock did.
func (t *turn) since(at time.Time) int64 { return max(t.now.Sub(at).Milliseconds(), 0) }

// settle starts and skips what has become ready, until nothing is, and ends the run when nothing is left. Sources come
// before their targets in the order, so one pass sees everything that a pass can lead to.
func (t *turn) settle() {
	if t.s.paused != nil || t.s.draining != nil {
		if !t.s.Terminal() {
			t.drained()
		}
		return
	}
	left := 0
	for _, i := range t.s.wf.order {
		if t.err != nil || t.s.Terminal() {
			return
		}
		if t.s.nodes[i].status != nodePending {
			continue
		}
		switch v, reason := t.judge(i); v {
		case met:
			t.startNode(i)
		case never:
			t.skip(i, reason)
		default:
			left++
		}
	}
	switch {
	case t.err != nil || t.s.Terminal() || t.s.active > 0:
	case left > 0:
		t.err = fmt.Errorf("decide: run %s stands still with %d nodes left", t.s.runID, left)
	default:
		t.complete()
	}
}
