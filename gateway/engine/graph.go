package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"runnerd/internal/wire"
)

func (p *parser) nodes(o object) {
	list := o.list("nodes")
	if o.has("nodes") && len(list) == 0 || len(list) > MaxNodes {
		o.fail("nodes", "must hold 1 to %d nodes", MaxNodes)
		return
	}
	inputs := make([]object, len(list))
	for i, raw := range list {
		n := p.object(fmt.Sprintf("nodes[%d]", i), raw)
		n.required("id", "typeId", "name", "position", "config", "inputs")
		n.closed("id", "typeId", "name", "position", "config", "inputs", "credentialsRef", "settings", "outputRole", "disabled", "notes",
			"groupId", "agent", "envelopeContract", "artifactType", "cardType", "outputSensitivity")
		n.choice("outputRole", "primary", "secondary")
		n.text("name", 1, 256)
		n.child("position")
		it := node{id: n.text("id", 1, MaxNodeID), typeID: n.text("typeId", 1, 256), disabled: n.flag("disabled")}
		if it.typeID != "" && !matches(it.typeID, inTypeID) {
			n.fail(n.at("typeId"), "must match ^[a-z][a-zA-Z0-9._-]*$")
		}
		if _, twice := p.wf.index[it.id]; twice && it.id != "" {
			n.fail(n.at("id"), "is the id of an earlier node: %q", it.id)
		} else {
			p.wf.index[it.id] = i
		}
		it.config = map[string]json.RawMessage{}
		for name, raw := range n.child("config").members {
			it.config[name] = json.RawMessage(raw)
		}
		it.hidden = map[string]bool{}
		hidden := n.child("outputSensitivity")
		for name := range hidden.members {
			it.hidden[name] = hidden.flag(name)
		}
		it.retry = readPolicy(n)
		it.agent = readAgent(n)
		inputs[i] = n.child("inputs")
		p.wf.nodes = append(p.wf.nodes, it)
	}
	for i, ports := range inputs { // now that every id is known
		for _, port := range slices.Sorted(maps.Keys(ports.members)) {
			p.wf.nodes[i].inputs = append(p.wf.nodes[i].inputs, p.binding(ports.child(port), port))
		}
	}
}

func (p *parser) binding(o object, port string) binding {
	b := binding{port: port, kind: o.choice("type", bindStatic, bindVariable, bindConnection, bindExpression), optional: o.flag("optional")}
	o.required("type")
	switch b.kind {
	case bindStatic:
		o.required("value")
		o.closed("type", "value")
		b.value = json.RawMessage(o.members["value"])
	case bindVariable:
		o.required("variableName")
		o.closed("type", "variableName", "optional")
		b.variable = o.text("variableName", 1, 256)
	case bindConnection:
		o.required("nodeId", "outputKey")
		o.closed("type", "nodeId", "outputKey", "optional")
		b.output = o.text("outputKey", 1, 256)
		b.node = p.nodeRef(o, "nodeId")
	case bindExpression:
		o.required("expression")
		o.closed("type", "expression")
		b.compute = p.expression(o, "expression")
	}
	return b
}

// nodeRef is the index of the node that a member names.
func (p *parser) nodeRef(o object, name string) int {
	id := o.text(name, 1, wire.MaxID)
	if id != "" && !p.known(id) {
		o.fail(o.at(name), "names no node: %q", id)
	}
	return p.wf.index[id]
}

func (p *parser) edges(o object) {
	list := o.list("edges")
	if len(list) > MaxEdges {
		o.fail("edges", "must hold at most %d edges", MaxEdges)
		return
	}
	seen, conditions := map[string]bool{}, 0
	for i, raw := range list {
		e := p.object(fmt.Sprintf("edges[%d]", i), raw)
		e.required("id", "sourceNodeId", "targetNodeId")
		e.closed("id", "sourceNodeId", "sourceOutput", "targetNodeId", "targetInput", "condition", "label", "triggerRule")
		id := e.text("id", 1, wire.MaxID)
		if seen[id] && id != "" {
			e.fail(e.at("id"), "is the id of an earlier edge: %q", id)
		}
		seen[id] = true
		it := edge{
			id: id, from: p.nodeRef(e, "sourceNodeId"), to: p.nodeRef(e, "targetNodeId"),
			rule:    rule(max(slices.Index(rules[:], e.choice("triggerRule", rules[:]...)), 0)),
			carries: e.has("sourceOutput") || e.has("targetInput"),
			output:  cmp.Or(e.text("sourceOutput", 1, 256), defaultOutput),
			port:    cmp.Or(e.text("targetInput", 1, 256), defaultInput),
		}
		if e.has("condition") {
			it.condition = p.condition(e.child("condition"))
			conditions++
		}
		p.wf.edges = append(p.wf.edges, it)
	}
	if conditions > MaxConditions {
		o.fail("edges", "must hold at most %d conditions", MaxConditions)
	}
}

// graph settles what follows from nodes and edges together: what comes before what, and that nothing comes before itself.
func (p *parser) graph() {
	wf := p.wf
	waits := make([]int, len(wf.nodes))
	for i, e := range wf.edges {
		wf.nodes[e.from].out = append(wf.nodes[e.from].out, i)
		wf.nodes[e.to].in = append(wf.nodes[e.to].in, i)
		waits[e.to]++
	}
	for done := make([]bool, len(wf.nodes)); len(wf.order) < len(wf.nodes); {
		before := len(wf.order)
		for i := range wf.nodes {
			if waits[i] == 0 && !done[i] {
				done[i] = true
				wf.order = append(wf.order, i)
				for _, e := range wf.nodes[i].out {
					waits[wf.edges[e].to]--
				}
			}
		}
		if len(wf.order) == before {
			p.cycles(done)
			return
		}
	}
	p.connections()
	for i := range wf.nodes {
		if len(wf.nodes[i].out) == 0 {
			wf.sinks = append(wf.sinks, i)
		}
	}
}

// cycles names one cycle for each knot among the nodes that no order could place.
func (p *parser) cycles(placed []bool) {
	wf, seen := p.wf, slices.Clone(placed)
	for start := range wf.nodes {
		if seen[start] {
			continue
		}
		var path []int
		at := start
		for !seen[at] { // every unplaced node has an unplaced source, so walking up ends in a cycle or in one that was named
			seen[at] = true
			path = append(path, at)
			for _, e := range wf.nodes[at].in {
				if from := wf.edges[e].from; !placed[from] {
					at = from
					break
				}
			}
		}
		if from := slices.Index(path, at); from >= 0 {
			p.fail("edges", "form a cycle: %s", wf.cycle(path[from:]))
		}
	}
}

// cycle writes a cycle that was walked against its edges.
func (wf *Workflow) cycle(path []int) string {
	path = slices.Clone(path)
	slices.Reverse(path)
	ids := make([]string, 0, len(path)+1)
	for _, i := range append(path, path[0]) {
		ids = append(ids, wf.nodes[i].id)
	}
	if len(ids) > 12 {
		ids = slices.Insert(slices.Delete(ids, 6, len(ids)-5), 6, "...")
	}
	return strings.Join(ids, " -> ")
}

// connections checks that a node takes values only from nodes that have ended when it starts.
func (p *parser) connections() {
	wf, words := p.wf, (len(p.wf.nodes)+63)/64
	before := make([][]uint64, len(wf.nodes)) // a bit for each node that comes before
	for _, i := range wf.order {
		before[i] = make([]uint64, words)
		for _, e := range wf.nodes[i].in {
			from := wf.edges[e].from
			before[i][from/64] |= 1 << (from % 64)
			for w, bits := range before[from] {
				before[i][w] |= bits
			}
		}
		for _, b := range wf.nodes[i].inputs {
			path := object{path: fmt.Sprintf("nodes[%d].inputs", i)}.at(b.port)
			if b.kind == bindConnection {
				p.comes(before[i], b.node, i, path, "connects to")
			}
			for _, n := range b.compute.reads() {
				p.comes(before[i], n.index, i, path, "reads")
			}
		}
	}
	for i, e := range wf.edges {
		if e.condition == nil {
			continue
		}
		for _, n := range e.condition.expression.reads() {
			if n.index != e.from {
				p.comes(before[e.from], n.index, e.from, fmt.Sprintf("edges[%d].condition", i), "reads")
			}
		}
	}
}

// comes notes that a node may not have ended when its value is needed.
func (p *parser) comes(before []uint64, from, to int, path, what string) {
	if before[from/64]&(1<<(from%64)) == 0 {
		p.fail(path, "%s node %q, and no edges lead from there to node %q", what, p.wf.nodes[from].id, p.wf.nodes[to].id)
	}
}

func (x *expression) reads() []nodeRead {
	if x == nil {
		return nil
	}
	return x.nodes
}
