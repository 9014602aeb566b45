package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// created begins the run. What no node of the workflow could do anyway fails it before anything costs money.
func (t *turn) created(in Created) bool {
	if in.RunID == "" || len(in.RunID) > maxRunID {
		t.err = fmt.Errorf("decide: a run id has 1 to %d bytes", maxRunID)
		return false
	}
	if err := CheckCreate(t.s.wf, in.Inputs, in.Configurable); err != nil {
		t.err = fmt.Errorf("decide: created: %w", err)
		return false
	}
	p, err := t.s.wf.started(in)
	if err != nil {
		t.err = fmt.Errorf("decide: created: %w", err)
		return false
	}
	t.s.runID = in.RunID
	t.emit(TypeRunStarted, "", trust(in.Untrusted), p)
	if t.err == nil {
		t.err = t.s.Reveal(in.Inputs, in.Configurable)
	}
	if t.err != nil {
		return false
	}
	return t.able()
}

// able ends a run of which a node could not do anything anyway.
func (t *turn) able() bool {
	for _, i := range t.s.wf.order {
		n := &t.s.wf.nodes[i]
		if p := n.unmet(t); p != nil && !n.disabled {
			t.failRun(p.nodeError, n.id, false, nil)
			return false
		}
	}
	return true
}

// stepOf finds the node whose step is outstanding.
func (t *turn) stepOf(stepID string) (int, bool) {
	id := stepID
	for range 2 {
		id = id[:max(strings.LastIndexByte(id, ':'), 0)]
	}
	i, ok := t.s.wf.index[id]
	if ok {
		n := &t.s.nodes[i]
		ok = n.status == nodeActive && (n.phase == phaseQueued || n.phase == phaseAccepted) && t.s.stepID(i) == stepID
	}
	if !ok {
		t.err = ErrStale
	}
	return i, ok
}

func (t *turn) stepPhase(in StepPhase) {
	i, ok := t.stepOf(in.StepID)
	if !ok || (t.s.nodes[i].phase == phaseAccepted) == in.Accepted {
		return
	}
	typ := TypeStepQueued
	if in.Accepted {
		typ, t.began = TypeStepAccepted, true
	}
	id := t.s.wf.nodes[i].id
	t.emit(typ, id, "", stepPhase{id, in.StepID})
}

func (t *turn) progress(in Progress) {
	i, ok := t.stepOf(in.StepID)
	if !ok || t.s.calling(i) || !t.s.nodes[i].stream.takes(in) || t.s.wf.nodes[i].hidden["text"] {
		return
	}
	id := t.s.wf.nodes[i].id
	t.emit(TypeOutputChunk, id, Untrusted, outputChunk{NodeID: id, RunID: t.s.runID, Chunk: in.Delta, N: in.N})
}

func (t *turn) timerFired(in TimerFired) bool {
	s := t.s
	if s.clock.on && in.ID == s.clock.timer() {
		limit := t.limit().Milliseconds()
		t.breach(capBreached{Kind: capDuration, Limit: limit, Observed: max(s.clock.elapsed(t.clock), limit+1)}, codeRunTimeout,
			fmt.Sprintf("the run went on for longer than %s", time.Duration(limit)*time.Millisecond))
		return false
	}
	for _, i := range s.wf.order {
		switch phase := s.nodes[i].phase; {
		case phase == phaseRetry && in.ID == t.nodeTimer(retryTimer, i):
			t.startNode(i)
			return true
		case phase == phaseTimer && in.ID == t.nodeTimer(delayTimer, i):
			if s.mocked(i) {
				t.mockToken(i)
				return true
			}
			kind, _ := typeOf(s.wf.nodes[i].typeID)
			t.do(i, kind.wake(&call{t, &s.wf.nodes[i], nil, &s.begun.options}))
			return true
		case phase == phaseSuspended:
			for g := s.nodes[i].gate; g != nil; g = g.under {
				if g.timeout > 0 && in.ID == g.timer() {
					t.expire(i, g)
					return true
				}
			}
		}
	}
	t.err = ErrStale
	return false
}

// stepEnded ends the node of a step, or puts the step back when nobody started it and the policy says so.
func (t *turn) stepEnded(in StepEnded) bool {
	i, ok := t.stepOf(in.StepID)
	if !ok {
		return false
	}
	if in.Lost != nil {
		t.lost(i, *in.Lost)
		return true
	}
	out, p := readOutput(in.Output)
	if !t.s.calling(i) {
		t.lastChunk(i, out, p != nil)
		t.usage(i, out, in.UsedFor)
	}
	if t.s.wf.nodes[i].agentic() {
		return t.agentEnded(i, out, p)
	}
	if p != nil {
		p.outputs, _ = hide(p.outputs, t.s.wf.nodes[i].hidden)
		t.failNode(i, p)
		return true
	}
	t.completeStep(i, out)
	return true
}

// completeStep ends a node with what its step returned.
func (t *turn) completeStep(i int, out *stepOutput) {
	kind, _ := typeOf(t.s.wf.nodes[i].typeID)
	var done nodeCompleted
	done.Outputs, done.Sensitive = hide(kind.outputs(&t.s.wf.nodes[i], out), t.s.wf.nodes[i].hidden)
	t.completeNode(i, true, done)
}

// lost fails the node of a step that came back without a result, or tries it again: only when it is certain that no runner
// started it, and with the same step id (wire 14.4).
func (t *turn) lost(i int, l Lost) {
	if l.Outcome != OutcomeNotStarted {
		l.Outcome = OutcomeUnknown
	}
	if l.Message == "" {
		l.Message = "no connected runner can serve this step"
	}
	e := unavailable(l.Message, l.Outcome)
	n, s := &t.s.wf.nodes[i], &t.s.nodes[i]
	if after, again := n.retry.next(s.asked, t.s.wf.maxRetries); again && l.Outcome == OutcomeNotStarted {
		t.emit(TypeNodeRetried, n.id, "", nodeRetried{n.id, s.attempts + 1, after.Milliseconds(), e})
		t.effect(SetTimer{t.nodeTimer(retryTimer, i), max(after, time.Millisecond)})
		return
	}
	if !t.s.calling(i) {
		t.lastChunk(i, &stepOutput{}, true)
	}
	t.failNode(i, &problem{nodeError: e})
}

// started makes the payload of run.started, without what may not stand in a log.
func (wf *Workflow) started(in Created) (runStarted, error) {
	p := runStarted{
		WorkflowID: wf.ID, Inputs: given(in.Inputs), Configurable: given(in.Configurable), Transport: "rest", EngineVersion: EngineVersion,
		Tags: in.Tags, Metadata: given(in.Metadata), Parent: in.Parent,
	}
	if p.Inputs == nil {
		p.Inputs = json.RawMessage("{}")
	}
	if in.Owner.Tenant != "" {
		p.Owner = &in.Owner
	}
	inputs, err := members(p.Inputs)
	if err != nil {
		return p, err
	}
	var mask maskedMembers
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		if wf.variables[name].sensitive || slices.Contains(in.Sensitive, name) {
			inputs[name] = json.RawMessage(masked)
			mask.Inputs = append(mask.Inputs, name)
		}
	}
	if mask.Inputs != nil {
		p.Inputs = mustEncode(inputs)
	}
	configurable, err := members(p.Configurable)
	if err != nil {
		return p, err
	}
	if _, mask.Runner = configurable[keyRunner]; mask.Runner {
		delete(configurable, keyRunner)
		p.Configurable = mustEncode(configurable)
	}
	if mask.Runner || mask.Inputs != nil {
		p.Masked = &mask
	}
	return p, nil
}

func given(doc json.RawMessage) json.RawMessage {
	if len(doc) == 0 {
		return nil
	}
	return doc
}
