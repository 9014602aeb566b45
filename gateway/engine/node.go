package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"runnerd/internal/wire"
)

// judge says whether a pending node may start now, with the reason when it never may.
func (t *turn) judge(i int) (verdict, string) {
	n := &t.s.wf.nodes[i]
	if n.disabled {
		return never, "disabled"
	}
	var arrived [len(rules)][4]int
	for _, e := range n.in {
		e := &t.s.wf.edges[e]
		arrived[e.rule][t.arrival(e)]++
	}
	all, unmet := met, ""
	for r, n := range arrived {
		if n == [4]int{} {
			continue
		}
		switch rule(r).judge(n) {
		case never:
			all, unmet = never, "the trigger rule "+rules[r]+" cannot be met"
		case wait:
			if all == met {
				all = wait
			}
		}
	}
	return all, unmet
}

// arrival is what an edge brings now.
func (t *turn) arrival(e *edge) arrival {
	switch t.s.nodes[e.from].status {
	case nodePending, nodeActive:
		return notYet
	case nodeFailedStatus:
		return failed
	case nodeCompletedStatus:
		if t.refusedBy(e) {
			return nothing
		}
		if e.condition == nil {
			return success
		}
		if e.condition.kind == whenExpression {
			if holds, p := t.expressionHolds(e); holds || p != nil { // the node behind the edge says what is wrong
				return success
			}
			return nothing
		}
		if e.condition.holds(t.left(e)) {
			return success
		}
	}
	return nothing
}

// left is the value that an edge's condition looks at; nil when there is none.
func (t *turn) left(e *edge) json.RawMessage {
	if v, ok := t.lookup(e.from, e.condition.left); ok && !v.lost {
		return v.raw
	}
	first, rest, deep := strings.Cut(e.condition.left, ".")
	v, ok := t.lookup(e.from, first)
	if first == "status" && !ok && !deep {
		return json.RawMessage(`"` + t.s.nodes[e.from].status.String() + `"`)
	}
	if !ok || v.lost {
		return nil
	}
	return walk(v.raw, strings.Split(rest, "."))
}

// startNode makes an attempt at a node: its first, or one after node.retried.
func (t *turn) startNode(i int) {
	n := &t.s.wf.nodes[i]
	limit := t.env.Caps.NodeExecutions
	if limit <= 0 {
		limit = DefaultNodeExecutions
	}
	if asked := t.s.begun.options.recursionLimit; asked > 0 {
		limit = min(limit, asked)
	}
	if t.s.starts >= limit {
		t.breach(capBreached{capStarts, int64(limit), int64(limit) + 1, n.id}, codeRecursionLimit,
			fmt.Sprintf("the run may start %d nodes", limit))
		return
	}
	t.emit(TypeNodeStarted, n.id, "", nodeStarted{n.id, n.typeID, t.s.nodes[i].attempts + 1})
	t.began = true
	t.do(i, t.first(i))
}

// first is what a node wants when it starts.
func (t *turn) first(i int) act {
	n := &t.s.wf.nodes[i]
	if p := n.unmet(t); p != nil {
		return p
	}
	for _, e := range n.in {
		e := &t.s.wf.edges[e]
		if e.condition == nil || e.condition.kind != whenExpression || t.s.nodes[e.from].status != nodeCompletedStatus {
			continue
		}
		if _, p := t.expressionHolds(e); p != nil {
			return p
		}
	}
	in, p := t.resolve(n)
	if p != nil {
		return p
	}
	kind, _ := typeOf(n.typeID)
	return kind.start(&call{t, n, in, &t.s.begun.options})
}

// do carries out what a node wants.
func (t *turn) do(i int, a act) {
	n := &t.s.wf.nodes[i]
	if t.s.recording != nil && hasEffect(a) {
		t.recorded(i)
		return
	}
	switch a := a.(type) {
	case done:
		t.completeWith(i, a)
	case *problem:
		t.failNode(i, a)
	case perform:
		a(t, i)
	case suspend:
		t.suspend(i, a)
	case child:
		t.dispatchChild(i, a)
	case sleep:
		t.effect(SetTimer{t.nodeTimer(delayTimer, i), time.Duration(a)})
	case step:
		p := a.check()
		if t.asked += len(a.inputs); p == nil && t.asked > maxAsked {
			p = fail(string(wire.CodeFrameTooLarge), "the run asks for steps with more than %d bytes of inputs at once", maxAsked)
		}
		if p != nil {
			t.failNode(i, p)
			return
		}
		o := &t.s.begun.options
		t.effect(Dispatch{
			StepID: t.s.stepID(i), NodeID: n.id, Attempt: t.s.nodes[i].asked, Kind: a.kind, Provider: a.provider, Model: a.model,
			Tool: a.tool, RunnerID: o.runner, Inputs: a.inputs, Wait: o.queueWait(), Timeout: o.stepTimeout(),
		})
	}
}

// maxAsked bounds the inputs of the steps that one decision asks for: they are in memory together.
const maxAsked = 32 << 20

// stepID is nodeId:call:try (design, section 5). try is raised when a person resumes a run whose pause cut the step: whether it
// was begun is not known, and what was begun is never begun again.
func (s *State) stepID(i int) string {
	n := &s.nodes[i]
	return s.wf.nodes[i].id + ":" + strconv.Itoa(n.call) + ":" + strconv.Itoa(n.try)
}

// nodeTimer is the id of a node's timer; the attempt in it tells an old one.
func (t *turn) nodeTimer(prefix string, i int) string {
	return prefix + t.s.wf.nodes[i].id + ":" + strconv.Itoa(t.s.nodes[i].attempts)
}

// check refuses a step that no frame could carry.
func (s step) check() *problem {
	const envelope = 2048 // what a frame holds beside the inputs
	switch {
	case len(s.inputs)+envelope > wire.MaxFrame:
		return fail(string(wire.CodeFrameTooLarge), "the step's inputs have %d bytes, and a frame holds %d", len(s.inputs), wire.MaxFrame)
	case depthOf(s.inputs) > wire.MaxDepth-2:
		return fail(codeInvalidInput, "the step's inputs are nested deeper than %d levels", wire.MaxDepth-2)
	}
	d := wire.Dispatch{RunID: "r", StepID: "s", Kind: s.kind, Provider: s.provider, Model: s.model, Tool: s.tool, Inputs: s.inputs}
	if s.kind == wire.KindModel { // what is left open is settled when the step is offered
		d.Provider, d.Model = cmp.Or(d.Provider, "any"), cmp.Or(d.Model, "any")
	}
	if err := d.Validate(); err != nil {
		return fail(codeInvalidInput, "the step cannot be dispatched: %v", err)
	}
	return nil
}

// skip ends a node that never may start. A failure that only this node could have taken care of now fails the run.
func (t *turn) skip(i int, reason string) {
	n := &t.s.wf.nodes[i]
	t.emit(TypeNodeSkipped, n.id, "", nodeEnded{n.id, reason})
	for _, e := range n.in {
		if from := t.s.wf.edges[e].from; t.s.nodes[from].status == nodeFailedStatus && !t.s.Terminal() && !t.handled(from) {
			t.failAfter(from)
		}
	}
}

// handled reports whether an edge out of a failed node leads to one that takes failures and has not been skipped.
func (t *turn) handled(i int) bool {
	for _, e := range t.s.wf.nodes[i].out {
		if e := &t.s.wf.edges[e]; e.rule.tolerant() && t.s.nodes[e.to].status != nodeSkippedStatus {
			return true
		}
	}
	return false
}
