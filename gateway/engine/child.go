package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"runnerd/internal/wire"
)

const typeSubWorkflow = "core.subWorkflow"

// The bounds of what one run may start, its children's children included: how deep, and how many runs altogether. A child gets
// a part of what its parent has left, so no tree of runs grows past the second.
const (
	maxGenerations = 5
	maxChildren    = 1000
	childShare     = 16
)

// StartChild asks for another run. Created is complete: the caller finds the workflow, writes the row with Created's inputs and
// configurable as the request, and decides Created. If that cannot be, it brings a ChildEnded with the reason.
type StartChild struct {
	NodeID     string
	WorkflowID string
	Created    Created
}

// StopChild ends a run that StartChild asked for, as Cancel does.
type StopChild struct{ RunID, Reason string }

// PauseChild and ResumeChild hand a parent's pause on. The caller passes over a refusal.
type (
	PauseChild  struct{ RunID, Reason string }
	ResumeChild struct{ RunID string }
)

func (StartChild) effect()  {}
func (StopChild) effect()   {}
func (PauseChild) effect()  {}
func (ResumeChild) effect() {}

// A Parent is where a child run comes from. It stands on run.started.
type Parent struct {
	RunID     string `json:"runId"`
	NodeID    string `json:"nodeId"`
	Depth     int    `json:"depth"`              // 1 for the child of a run that nobody started by a node
	Children  int    `json:"children"`           // runs that it may start
	TimeoutMs int64  `json:"timeoutMs,omitzero"` // what its parent has left
}

// ChildEnded brings the end of a run that StartChild asked for; ChildResult makes it from the child's state.
type ChildEnded struct {
	RunID     string
	Status    string                     // terminal
	Outputs   json.RawMessage            // of the run
	Variables map[string]json.RawMessage // but for sensitive ones
	Error     *SnapshotError
	Untrusted bool
	Spent     time.Duration // counts against the parent's duration
}

func (ChildEnded) input() {}

// ChildResult is what a run that has ended tells its parent, and which run that is; false if it has not ended or has no parent.
func ChildResult(wf *Workflow, s *State) (in ChildEnded, parent Parent, ok bool) {
	if s.begun == nil || s.begun.Parent == nil || !s.Terminal() {
		return in, parent, false
	}
	in = ChildEnded{
		RunID: s.runID, Status: s.status, Variables: map[string]json.RawMessage{}, Untrusted: s.begun.untrusted || s.endUntrusted,
		Spent: time.Duration(s.clock.spent) * time.Millisecond,
	}
	for name := range s.variables() {
		if v, ok := s.variable(name); ok && v.variable == "" {
			in.Variables[name] = v.raw
			in.Untrusted = in.Untrusted || v.untrusted
		}
	}
	var p runCompleted
	if s.status == StatusCompleted && decode(s.end, &p) == nil {
		in.Outputs = p.Outputs
	}
	if s.status == StatusFailed {
		in.Error = errorOf(s.end)
	}
	return in, *s.begun.Parent, true
}

// A child is an act: another run, which the node waits for or not.
type child struct {
	workflow string
	created  Created
	detached bool
}

func (child) act() {}

// subWorkflow reads core.subWorkflow: its inputs are the child's, and so are the parent's variables that inputMapping names
// ({child's variable: parent's}).
func subWorkflow(c *call) act {
	o := c.settings()
	o.required("workflowId")
	a := child{workflow: o.text("workflowId", 1, wire.MaxID), detached: o.has("waitForCompletion") && !o.flag("waitForCompletion")}
	readPolicyOf(o)
	in := c.in
	for _, name := range slices.Sorted(maps.Keys(o.child("inputMapping").members)) {
		from := o.child("inputMapping").text(name, 1, 256)
		if v, ok := c.variable(from); ok {
			in[name] = v
		} else {
			o.fail("config.inputMapping."+name, "the run has no value for variable %q", from)
		}
	}
	mapping(o, "outputMapping")
	over := o.child("configurable").members
	if p := o.wrong(); p != nil {
		return p
	}
	b := c.s.begun
	parent := Parent{RunID: c.s.runID, NodeID: c.node.id, Depth: 1, Children: c.s.children / childShare}
	if b.Parent != nil {
		parent.Depth = b.Parent.Depth + 1
	}
	if parent.Depth > maxGenerations || c.s.children < 1 {
		return fail(codeRecursionLimit, "a run and its children may start %d runs, %d deep", maxChildren, maxGenerations)
	}
	parent.TimeoutMs = max((c.limit() - time.Duration(c.s.clock.elapsed(c.turn.clock))*time.Millisecond).Milliseconds(), 1)
	a.created = Created{Tags: b.Tags, Metadata: b.Metadata, Parent: &parent, Configurable: c.inherited(over)}
	if b.Owner != nil {
		a.created.Owner = *b.Owner
	}
	var doc objectWriter
	for _, name := range slices.Sorted(maps.Keys(in)) {
		v := in[name]
		doc.add(name, v.raw)
		a.created.Untrusted = a.created.Untrusted || v.untrusted
		if v.variable != "" {
			a.created.Sensitive = append(a.created.Sensitive, name)
		}
	}
	a.created.Inputs = doc.done()
	return a
}

const (
	failParent = "fail-parent"
	goOn       = "continue"
)

// readPolicyOf says what a child's failure leads to.
func readPolicyOf(o object) string {
	return o.choice("onChildFailure", failParent, goOn, "absorb", "ignore")
}

// mapping is an object of names.
func mapping(o object, name string) map[string]string {
	m, names := o.child(name), map[string]string{}
	for to := range m.members {
		names[to] = m.text(to, 1, 256)
	}
	return names
}

// inherited is what of the run's configurable holds for its children: what the protocol and this project reserve, apart from
// limits, which the parent's own are passed on instead of; and over it what the node's config says.
func (c *call) inherited(over map[string]jsontext.Value) json.RawMessage {
	all, _ := members(c.s.begun.Configurable)
	kept := map[string]json.RawMessage{}
	for name, raw := range all {
		switch {
		case name == "recursionLimit" || name == "runTimeoutMs" || name == keyRunner:
		case slices.Contains([]string{"model", "temperature", "maxTokens", "promptOverrides", keyMock}, name),
			strings.HasPrefix(name, "ai."), strings.HasPrefix(name, "runner."):
			kept[name] = raw
		}
	}
	if c.opt.runner != "" {
		kept[keyRunner] = mustEncode(c.opt.runner)
	}
	for name, raw := range over {
		kept[name] = json.RawMessage(raw)
	}
	if len(kept) == 0 {
		return nil
	}
	return mustEncode(kept)
}

// childID is the same each time that it is asked for, and nobody else's.
func childID(run, node string, attempt int) string {
	sum := sha256.Sum256([]byte("runnerd child\x00" + run + "\x00" + node + "\x00" + strconv.Itoa(attempt)))
	return "run_" + hex.EncodeToString(sum[:16])
}

// dispatchChild asks for the run. What is not waited for ends its node at once.
func (t *turn) dispatchChild(i int, a child) {
	n := &t.s.wf.nodes[i]
	a.created.RunID = childID(t.s.runID, n.id, t.s.nodes[i].attempts)
	t.emit(TypeNodeDispatched, n.id, "", nodeDispatched{a.created.RunID, a.workflow, StatusPending})
	t.effect(StartChild{n.id, a.workflow, a.created})
	if a.detached {
		t.completeWith(i, done{{"childRunId", value{raw: mustEncode(a.created.RunID)}}, {"childStatus", value{raw: mustEncode(StatusPending)}}})
	}
}

// childEnded ends the node of a child: with its outputs, and with the variables that outputMapping names ({parent's variable:
// child's variable, or output}) as outputs and as variables of the run.
func (t *turn) childEnded(in ChildEnded) bool {
	i := slices.IndexFunc(t.s.nodes, func(n nodeState) bool { return n.phase == phaseChild && n.child == in.RunID })
	if i < 0 || in.RunID == "" {
		t.err = ErrStale
		return false
	}
	c := &call{turn: t, node: &t.s.wf.nodes[i], opt: &t.s.begun.options}
	o := c.settings()
	out := done{{"childRunId", value{raw: mustEncode(in.RunID)}}, {"childStatus", value{raw: mustEncode(in.Status)}}}
	tell := func(name string, raw json.RawMessage) {
		if raw != nil {
			out = append(out, output{name, value{raw: raw, untrusted: in.Untrusted, from: c.node.id}})
		}
	}
	t.spent = in.Spent.Milliseconds()
	defer func() { t.spent = 0 }()
	if in.Status != StatusCompleted {
		p := fail(codeChild, "the child run ended %s", in.Status)
		if in.Error != nil {
			p.Message += ": " + clean(in.Error.Message, 2000)
		}
		p.untrusted = in.Untrusted
		p.Details = mustEncode(struct {
			ChildRunID  string         `json:"childRunId"`
			ChildStatus string         `json:"childStatus"`
			Error       *SnapshotError `json:"error,omitzero"`
		}{in.RunID, in.Status, in.Error})
		if readPolicyOf(o) == failParent {
			t.failNode(i, p)
			return true
		}
		if in.Error != nil {
			tell("error", mustEncode(in.Error))
		}
		t.completeWith(i, out)
		return true
	}
	tell("outputs", in.Outputs)
	results, _ := members(in.Outputs)
	wanted := mapping(o, "outputMapping")
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		raw, ok := in.Variables[wanted[name]]
		if !ok {
			raw, ok = results[wanted[name]]
		}
		if !ok || t.s.sensitive(name) {
			t.failNode(i, fail(codeInvalidInput, "config.outputMapping.%s names no variable and no output of the child that may be shown", name))
			return true
		}
		tell(name, raw)
	}
	for _, o := range out[min(3, len(out)):] {
		t.change(i, o)
	}
	t.completeWith(i, out)
	return true
}

// change gives a variable of the run another value.
func (t *turn) change(i int, o output) {
	p := variableChanged{Name: o.name, Next: o.raw, NodeID: t.s.wf.nodes[i].id}
	if old, ok := t.s.variable(o.name); ok {
		p.Previous = old.raw
	}
	t.emit(TypeVariableChanged, p.NodeID, trust(o.untrusted), p)
}
