package engine

import (
	"encoding/json"
	"fmt"
	"slices"
)

// The ports that an edge joins when it does not name them (wire 11.1). Where a node has no output of that name, the default
// output is all its outputs as one object.
const (
	defaultOutput = "output"
	defaultInput  = "input"
)

// A value is what a port holds, with where it came from.
type value struct {
	raw       json.RawMessage
	untrusted bool
	from      string // node that put it out; empty: the run or its author
	variable  string // the sensitive variable whose value it is
	lost      bool   // it is sensitive and not kept
}

// outputs of a node that has ended, read from its last event once in a decision.
type outputs struct {
	whole     json.RawMessage
	members   map[string]json.RawMessage // read when one is asked for
	untrusted []string                   // nil: all, when any is
	sensitive map[string]string
	err       json.RawMessage
}

func (t *turn) outputs(i int) *outputs {
	if out := t.read[i]; out != nil {
		return out
	}
	var p struct {
		Outputs   json.RawMessage   `json:"outputs"`
		Untrusted []string          `json:"untrusted"`
		Sensitive map[string]string `json:"sensitive"`
		Error     json.RawMessage   `json:"error"`
	}
	out := &outputs{}
	if decode(t.s.nodes[i].payload, &p) == nil { // otherwise the node has no outputs, and whoever needs one says so
		*out = outputs{p.Outputs, nil, p.Untrusted, p.Sensitive, p.Error}
	}
	t.read[i] = out
	return out
}

// lookup is the output of a node that has ended, by key. A failed node has what its step had put out, and "error".
func (t *turn) lookup(i int, key string) (value, bool) {
	n := &t.s.nodes[i]
	if n.status != nodeCompletedStatus && n.status != nodeFailedStatus {
		return value{}, false
	}
	out := t.outputs(i)
	v := value{untrusted: n.untrusted, from: t.s.wf.nodes[i].id}
	if name, hidden := out.sensitive[key]; hidden && name != "" {
		return t.variable(name)
	} else if hidden {
		v.lost = true
		return v, true
	}
	if out.members == nil {
		out.members, _ = members(out.whole) // nodes put out objects
	}
	if raw, ok := out.members[key]; ok {
		v.raw = raw
		v.untrusted = v.untrusted && (out.untrusted == nil || slices.Contains(out.untrusted, key))
		return v, true
	}
	switch {
	case key == "error" && out.err != nil:
		v.raw = out.err
	case key == defaultOutput && out.whole != nil:
		v.raw, v.lost = out.whole, len(out.sensitive) > 0
	default:
		return value{}, false
	}
	return v, true
}

func (t *turn) variable(name string) (value, bool) { return t.s.variable(name) }

// resolve gives a node's input ports their values.
func (t *turn) resolve(n *node) (map[string]value, *problem) {
	in := make(map[string]value, len(n.inputs))
	for _, b := range n.inputs {
		var v value
		var ok bool
		var missing string
		switch b.kind {
		case bindStatic:
			v, ok = value{raw: b.value}, true
		case bindVariable:
			v, ok = t.variable(b.variable)
			missing = fmt.Sprintf("the run has no value for variable %q", b.variable)
		case bindConnection:
			v, ok = t.lookup(b.node, b.output)
			missing = fmt.Sprintf("node %q has no output %q", t.s.wf.nodes[b.node].id, b.output)
		case bindExpression:
			var p *problem
			if v, p = t.evaluate(b.compute, nil); p != nil {
				p.Message = fmt.Sprintf("input %q: %s", b.port, p.Message)
				return nil, p
			}
			ok = true
		}
		switch {
		case ok && v.lost:
			return nil, lost(b.port)
		case ok:
			in[b.port] = v
		case !b.optional:
			return nil, fail(codeInvalidInput, "input %q is missing: %s", b.port, missing)
		}
	}
	for _, e := range n.in {
		e := &t.s.wf.edges[e]
		if _, bound := in[e.port]; !e.carries || bound {
			continue
		}
		v, ok := t.route(e)
		switch {
		case ok && v.lost:
			return nil, lost(e.port)
		case ok:
			in[e.port] = v
		case t.s.nodes[e.from].status == nodeCompletedStatus:
			return nil, fail(codeInvalidInput, "input %q is missing: node %q has no output %q", e.port, t.s.wf.nodes[e.from].id, e.output)
		}
	}
	return in, nil
}

func lost(port string) *problem {
	return fail(codeInvalidInput, "input %q is a sensitive output, which is not kept; only a sensitive variable can be passed on, and only whole", port)
}
