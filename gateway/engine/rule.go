package engine

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A rule of an edge says what must have become of its source before its target may start (wire 11.1). Where the edges into a
// node have different rules, each rule is judged over its own edges, and all must be met.
type rule uint8

const (
	allSuccess rule = iota
	anySuccess
	allComplete
	noneFailed
	anyFailed
)

// rules are the names of the rules in the protocol.
var rules = [...]string{"all_success", "any_success", "all_complete", "none_failed", "any_failed"}

// tolerant rules can be met although a source failed, so a target that has not been skipped takes care of the failure.
func (r rule) tolerant() bool { return r == anySuccess || r == allComplete || r == anyFailed }

// An arrival is what an edge brings to its target.
type arrival uint8

const (
	notYet arrival = iota
	success
	failed
	nothing // the source was skipped, or the edge's condition does not hold
)

// A verdict is what a node's edges say together.
type verdict uint8

const (
	wait verdict = iota
	met
	never
)

// judge applies one rule to the arrivals of its edges, by number. The any_ rules do not wait for the rest.
func (r rule) judge(n [4]int) verdict {
	switch {
	case r == allSuccess && n[failed]+n[nothing] > 0, r == noneFailed && n[failed] > 0:
		return never
	case r == anySuccess && n[success] > 0, r == anyFailed && n[failed] > 0:
		return met
	case n[notYet] > 0:
		return wait
	case r == anySuccess, r == anyFailed:
		return never
	}
	return met
}

// A condition of an edge compares one value of its source's outputs. Left is a dotted path into them; "status" and "output"
// stand for the source's status and for all its outputs where no output has that name. An expression has "output" and "status" too.
type condition struct {
	kind    string
	left    string
	right   json.RawMessage
	pattern *pattern

	expression *expression
}

const (
	whenEquals     = "equals"
	whenNotEquals  = "notEquals"
	whenContains   = "contains"
	whenRegex      = "regex"
	whenExpression = "expression"
)

func (p *parser) condition(o object) *condition {
	o.closed("type", "left", "right", "expression")
	c := &condition{
		kind: o.choice("type", whenExpression, whenEquals, whenNotEquals, whenContains, whenRegex),
		left: o.text("left", 0, 1024), right: json.RawMessage(o.members["right"]),
	}
	if c.kind == whenExpression {
		o.required("expression")
		c.expression = p.expression(o, "expression", nameOutput, nameStatus)
		return c
	}
	o.required("left", "right")
	if c.kind == whenRegex && o.has("right") {
		text, ok := textOf(c.right)
		var err error
		if c.pattern, err = readPattern(text); err != nil {
			o.fail(o.at("right"), "%v", err)
		} else if !ok {
			o.fail(o.at("right"), "must be a string")
		}
	}
	return c
}

// maxCompared is the largest value, in bytes, that a condition looks at; a larger one is as if it were not there. With
// MaxConditions it bounds what conditions cost a decision.
const maxCompared = 64 << 10

// holds compares left, nil when there is no such value, with the condition's right.
func (c *condition) holds(left json.RawMessage) bool {
	if len(left) > maxCompared {
		left = nil
	}
	switch c.kind {
	case whenEquals:
		return left != nil && sameJSON(left, c.right)
	case whenNotEquals:
		return left == nil || !sameJSON(left, c.right)
	case whenRegex:
		text, ok := textOf(left)
		return ok && c.pattern.MatchString(text)
	case whenContains:
		if text, ok := textOf(left); ok {
			part, ok := textOf(c.right)
			return ok && strings.Contains(text, part)
		}
		var items []json.RawMessage
		if decode(left, &items) == nil {
			for _, item := range items {
				if sameJSON(item, c.right) {
					return true
				}
			}
		}
	}
	return false
}

// sameJSON compares values, not their writing.
func sameJSON(a, b json.RawMessage) bool {
	x, y := jsontext.Value(bytes.Clone(a)), jsontext.Value(bytes.Clone(b))
	return x.Canonicalize() == nil && y.Canonicalize() == nil && bytes.Equal(x, y)
}

// walk follows a dotted path into a value; nil when it leads nowhere.
func walk(v json.RawMessage, path []string) json.RawMessage {
	for _, name := range path {
		var members map[string]json.RawMessage
		if decode(v, &members) != nil {
			return nil
		}
		v = members[name]
	}
	return v
}
