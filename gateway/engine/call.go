package engine

import (
	"maps"
	"slices"

	"runnerd/internal/fence"
)

// A call is one start of a node.
type call struct {
	*turn
	node *node
	in   map[string]value
	opt  *options
}

func (t *turn) fence() *fence.Fencer {
	if t.env.Fence == nil {
		return &fence.Fencer{}
	}
	return t.env.Fence
}

// sourceOf says what made a node's output, as far as a model is told.
func (t *turn) sourceOf(id string) string {
	n := &t.s.wf.nodes[t.s.wf.index[id]]
	kind, _ := typeOf(n.typeID)
	switch {
	case id == "":
		return "run"
	case n.tool() != "":
		return n.tool()
	case kind.waits == phaseQueued:
		return "model"
	}
	return id
}

// ports are the names of the inputs, in order.
func (c *call) ports() []string { return slices.Sorted(maps.Keys(c.in)) }

// pick is the first of the names that is an input, else the first that is in the config; null is as if absent.
func (c *call) pick(names ...string) (value, string, bool) {
	for _, name := range names {
		if v, ok := c.in[name]; ok && string(v.raw) != "null" {
			return v, name, true
		}
	}
	for _, name := range names {
		if raw, ok := c.node.config[name]; ok && string(raw) != "null" {
			return value{raw: raw}, name, true
		}
	}
	return value{}, "", false
}
