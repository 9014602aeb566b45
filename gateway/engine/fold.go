package engine

import (
	"errors"
	"fmt"
)

// errOrder means that an event came to a node that cannot have it now.
var errOrder = errors.New("the node is not in a state in which this can happen")

// fold applies what an event says, its place in the log aside.
func (s *State) fold(e Event) error {
	switch e.Type {
	case TypeRunStarted:
		return s.begin(e)
	case TypeRunCompleted:
		return s.finish(e, StatusCompleted)
	case TypeRunFailed:
		return s.finish(e, StatusFailed)
	case TypeRunCancelled:
		return s.finish(e, StatusCancelled)
	case TypeVariableChanged:
		return s.foldChange(e)
	case TypeRunPausing, TypeRunPaused:
		return s.foldPause(e)
	case TypeRunResumed:
		s.paused, s.draining = nil, nil
	case TypeProviderUsage:
		return s.cost.add(e.Payload)
	case TypeNodeStarted, TypeNodeCompleted, TypeNodeFailed, TypeNodeSkipped, TypeNodeCancelled, TypeNodeRetried,
		TypeOutputChunk, TypeStepAccepted, TypeStepQueued, TypeNodeSuspended, TypeInterruptRequested, TypeApprovalReceived,
		TypeInterruptResolved, TypeNodeResumed, TypeNodeDispatched,
		TypeAgentStarted, TypeToolCalled, TypeToolReturned, TypeAgentStep:
		i, ok := s.wf.index[e.NodeID]
		if !ok {
			return fmt.Errorf("workflow %s has no node %q", s.wf.ID, e.NodeID)
		}
		return s.foldNode(i, e)
	}
	return nil
}

func (s *State) begin(e Event) error {
	if s.begun != nil {
		return errors.New("the run had started")
	}
	b := begun{at: e.Timestamp, untrusted: e.ContentTrust != Trusted}
	err := decode(e.Payload, &b.runStarted)
	if err == nil && e.Fork != nil {
		s.fork = e.Fork
		err = b.forked(e.Fork)
	}
	if err == nil {
		b.inputs, err = members(b.Inputs)
	}
	if err == nil {
		b.options, err = readOptions(b.Configurable)
	}
	if b.Masked != nil {
		b.hidden = map[string]bool{}
		for _, name := range b.Masked.Inputs {
			b.hidden[name] = true
		}
	}
	if err != nil {
		return err
	}
	s.begun, s.runID, s.status, s.children = &b, e.RunID, StatusRunning, maxChildren
	if b.Parent != nil {
		s.children = min(b.Parent.Children, maxChildren)
	}
	return nil
}

func (s *State) finish(e Event, status string) error {
	s.status, s.ended, s.end, s.endUntrusted = status, e.Timestamp, e.Payload, e.ContentTrust == Untrusted
	return nil
}

func (s *State) foldNode(i int, e Event) error {
	n := &s.nodes[i]
	switch e.Type {
	case TypeNodeStarted:
		switch {
		case n.status == nodePending:
			s.active++
			n.started = e.Timestamp
			n.call, n.try, n.asked = 1, 1, 1
		case n.phase == phaseRetry:
			n.asked++
		case n.phase == phaseCut: // somebody may have begun the step: only another one may be asked for
			n.try++
			n.asked, n.stream = 1, stream{}
		default:
			return errOrder
		}
		n.status, n.phase, n.payload = nodeActive, s.waits(i), nil
		n.attempts++
		s.starts++
		return nil
	case TypeNodeSkipped:
		if n.status != nodePending {
			return errOrder
		}
		n.end(nodeSkippedStatus, e)
		return nil
	}
	if n.status != nodeActive {
		return errOrder
	}
	switch e.Type {
	case TypeNodeCompleted, TypeNodeFailed:
		if err := s.foldSpent(i, e); err != nil {
			return err
		}
		if e.Type == TypeNodeFailed {
			n.end(nodeFailedStatus, e)
			break
		}
		if kind, _ := typeOf(s.wf.nodes[i].typeID); kind.waits != phaseQueued {
			s.copied += len(e.Payload)
		}
		n.end(nodeCompletedStatus, e)
	case TypeNodeCancelled:
		n.end(nodeCancelledStatus, e)
	case TypeNodeRetried:
		n.phase, n.payload = phaseRetry, e.Payload
		n.retries++
	case TypeStepAccepted:
		n.phase = phaseAccepted
	case TypeStepQueued:
		n.phase = phaseQueued
	case TypeAgentStarted, TypeToolCalled, TypeToolReturned, TypeAgentStep:
		if s.wf.nodes[i].agentic() {
			return n.foldAgent(e)
		}
	case TypeNodeDispatched:
		var p nodeDispatched
		if err := decode(e.Payload, &p); err != nil {
			return err
		}
		n.child = p.ChildRunID
		s.children -= 1 + s.children/childShare
	case TypeOutputChunk:
		return n.stream.fold(e.Payload)
	case TypeNodeSuspended, TypeInterruptRequested, TypeApprovalReceived, TypeInterruptResolved, TypeNodeResumed:
		if kind, _ := typeOf(s.wf.nodes[i].typeID); kind.resume == nil {
			return errOrder
		}
		return n.foldInterrupt(e)
	}
	if n.status != nodeActive {
		s.active--
	}
	return nil
}

// foldSpent counts a child's time as the run's own.
func (s *State) foldSpent(i int, e Event) error {
	if s.wf.nodes[i].typeID != typeSubWorkflow {
		return nil
	}
	var p struct {
		SpentMs int64 `json:"spentMs"`
	}
	err := decode(e.Payload, &p)
	s.clock.spent += max(p.SpentMs, 0)
	return err
}

func (n *nodeState) end(status nodeStatus, e Event) {
	n.status, n.phase, n.ended, n.payload = status, phaseNone, e.Timestamp, e.Payload
	n.untrusted = e.ContentTrust != Trusted
	n.stream, n.loop = stream{}, nil
	n.closeGate(status)
}
