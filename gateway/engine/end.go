package engine

import (
	"encoding/json"
	"slices"

	"runnerd/internal/wire"
)

// maxCopied bounds the outputs that a run's own nodes may write into its log: a few nodes that each put their input out twice
// would otherwise fill the store.
const maxCopied = 16 << 20

// completeWith ends a node of ours with outputs.
func (t *turn) completeWith(i int, outs done) {
	var payload nodeCompleted
	var doc objectWriter
	for _, o := range outs {
		raw := o.raw
		if o.variable != "" || t.s.wf.nodes[i].hidden[o.name] {
			payload.hide(o.name, o.variable)
			raw = json.RawMessage(masked)
		}
		doc.add(o.name, raw)
		if o.untrusted {
			payload.Untrusted = append(payload.Untrusted, o.name)
		}
	}
	payload.Outputs = doc.done()
	if n := len(payload.Outputs); n > wire.MaxResult || t.s.copied+n > maxCopied {
		t.failNode(i, fail(codeTooLarge, "the node's outputs have %d bytes, more than a node may put out or a run may copy", n))
		return
	}
	untrusted := len(payload.Untrusted) > 0
	if len(payload.Untrusted) == len(outs) {
		payload.Untrusted = nil
	}
	t.completeNode(i, untrusted, payload)
}

// An objectWriter puts a JSON object together from members that are JSON already.
type objectWriter struct{ doc []byte }

func (w *objectWriter) add(name string, raw json.RawMessage) {
	quoted := mustEncode(name)
	w.doc = append(append(w.doc, ','), quoted...)
	w.doc = append(append(w.doc, ':'), raw...)
}

func (w *objectWriter) done() json.RawMessage {
	if len(w.doc) == 0 {
		return json.RawMessage("{}")
	}
	w.doc[0] = '{'
	return append(w.doc, '}')
}

func (p *nodeCompleted) hide(name, variable string) {
	if p.Sensitive == nil {
		p.Sensitive = map[string]string{}
	}
	p.Sensitive[name] = variable
}

func (t *turn) completeNode(i int, untrusted bool, p nodeCompleted) {
	p.NodeID, p.DurationMs, p.SpentMs = t.s.wf.nodes[i].id, t.duration(i), t.spent
	t.emit(TypeNodeCompleted, p.NodeID, trust(untrusted), p)
	if t.s.recording != nil {
		t.diverged(i)
	}
	t.read[i] = &outputs{whole: p.Outputs, untrusted: p.Untrusted, sensitive: p.Sensitive}
}

// failNode ends a node, and the run with it unless an edge takes care of the failure.
func (t *turn) failNode(i int, p *problem) {
	id := t.s.wf.nodes[i].id
	t.closeAgent(i, agentFailed)
	t.emit(TypeNodeFailed, id, trust(p.untrusted), nodeFailed{id, p.nodeError, t.s.nodes[i].attempts, p.outputs, t.spent})
	if t.s.recording != nil {
		t.diverged(i)
	}
	if t.err == nil && (p.fatal || !t.handled(i)) {
		t.failAfter(i)
	}
}

// failAfter ends the run because a node failed.
func (t *turn) failAfter(i int) {
	var p nodeFailed
	if t.err = decode(t.s.nodes[i].payload, &p); t.err == nil {
		t.failRun(p.Error, p.NodeID, t.s.nodes[i].untrusted, nil)
	}
}

// breach ends the run because it went past a ceiling (wire 5.5).
func (t *turn) breach(b capBreached, code, message string) {
	if t.s.recording != nil {
		b.Observed = t.s.recording.observed(b)
	}
	t.failRun(nodeError{Code: code, Message: message}, b.NodeID, false, &b)
}

// failRun ends the run at once: what is still going could no longer change how it ends, and may cost money.
func (t *turn) failRun(e nodeError, nodeID string, untrusted bool, b *capBreached) {
	t.cut("the run failed")
	if b != nil {
		t.emit(TypeCapBreached, b.NodeID, "", b)
	}
	t.emit(TypeRunFailed, "", trust(untrusted), runFailed{e, nodeID, t.runDuration(TypeRunFailed)})
}

func (t *turn) cancel(in Cancel) {
	t.cut("the run was cancelled")
	t.emit(TypeRunCancelled, "", "", runCancelled{in.Reason, in.By, t.since(t.s.begun.at)})
}

// cut abandons everything that is going on. A step or timer of this very decision has not been asked for yet, so it is not.
func (t *turn) cut(reason string) {
	for _, i := range t.s.wf.order {
		n, id := t.s.nodes[i], t.s.wf.nodes[i].id
		if n.status != nodeActive {
			continue
		}
		t.abandon(i, reason)
		t.closeAgent(i, agentFailed)
		t.emit(TypeNodeCancelled, id, "", nodeEnded{id, reason})
	}
}

// abandon takes back what an active node waits for.
func (t *turn) abandon(i int, reason string) {
	n := &t.s.nodes[i]
	if t.idle[i] {
		return
	}
	switch n.phase {
	case phaseQueued, phaseAccepted:
		id := t.s.stepID(i)
		t.undo(Stop{id, reason}, func(e Effect) bool { d, ok := e.(Dispatch); return ok && d.StepID == id })
	case phaseTimer:
		t.clearTimer(t.nodeTimer(delayTimer, i))
	case phaseRetry:
		t.clearTimer(t.nodeTimer(retryTimer, i))
	case phaseChild:
		t.undo(StopChild{n.child, reason}, func(e Effect) bool { s, ok := e.(StartChild); return ok && s.Created.RunID == n.child })
	case phaseSuspended:
		for g := n.gate; g != nil; g = g.under {
			if g.timeout > 0 {
				t.clearTimer(g.timer())
			}
		}
	}
}

func (t *turn) clearTimer(id string) {
	t.undo(ClearTimer{id}, func(e Effect) bool { s, ok := e.(SetTimer); return ok && s.ID == id })
}

// undo leaves out what this very decision asked for, else asks for the contrary.
func (t *turn) undo(contrary Effect, asked func(Effect) bool) {
	if kept := slices.DeleteFunc(t.effects, asked); len(kept) < len(t.effects) {
		t.effects = kept
		return
	}
	t.effect(contrary)
}

// complete ends a run of which nothing is left.
func (t *turn) complete() {
	outputs, untrusted := t.runOutputs()
	t.emit(TypeRunCompleted, "", trust(untrusted), runCompleted{outputs, t.runDuration(TypeRunCompleted)})
}

// runOutputs are those of the node that no edge leaves; where there are several such nodes, an object with the outputs of
// each that completed, by node id. The shape follows from the workflow alone. Outputs that together would not fit an event
// are left out: every node.completed has its own.
func (t *turn) runOutputs() (outputs json.RawMessage, untrusted bool) {
	var doc objectWriter
	for _, i := range t.s.wf.sinks {
		if t.s.nodes[i].status != nodeCompletedStatus {
			continue
		}
		whole := t.outputs(i).whole
		untrusted = untrusted || t.s.nodes[i].untrusted
		if len(t.s.wf.sinks) == 1 {
			return whole, untrusted
		}
		if doc.add(t.s.wf.nodes[i].id, whole); len(doc.doc) > wire.MaxResult {
			return nil, false
		}
	}
	return doc.done(), untrusted
}
