package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"runnerd/internal/schema"
	"runnerd/internal/wire"
)

// What a definition may hold. A node's id leaves room for the call and try that a step id adds to it (design, section 5).
const (
	MaxDefinition = 4 << 20
	MaxNodes      = 1000
	MaxEdges      = 5000
	MaxVariables  = 1000
	MaxConditions = 200
	MaxNodeID     = wire.MaxID - len(":99999:99999")
)

// A Workflow is a definition that was found whole (wire 11.1). It never changes, so any number of runs may share it.
type Workflow struct {
	ID      string
	Name    string
	Version string

	doc        []byte
	nodes      []node
	edges      []edge
	index      map[string]int // of a node's id
	order      []int          // nodes, sources before their targets, as declared where that leaves a choice
	sinks      []int          // nodes without an outgoing edge
	variables  map[string]variable
	timeout    time.Duration // settings.timeout; 0: none
	maxRetries int
	options    *schema.Schema // configurableSchema; nil: none
}

// Doc is the definition as it was given to Parse.
func (wf *Workflow) Doc() []byte { return wf.doc }

type node struct {
	id       string
	typeID   string
	config   map[string]json.RawMessage
	inputs   []binding // by port
	in, out  []int     // edges
	disabled bool
	hidden   map[string]bool // outputs that no event may show (outputSensitivity)
	retry    retryPolicy
	agent    *agentRef
}

// A binding says where an input port gets its value.
type binding struct {
	port     string
	kind     string // one of the bind... constants
	value    json.RawMessage
	variable string
	node     int
	output   string
	optional bool
	compute  *expression
}

const (
	bindStatic     = "static"
	bindVariable   = "variable"
	bindConnection = "connection"
	bindExpression = "expression"
)

type edge struct {
	id        string
	from, to  int
	rule      rule
	condition *condition
	// output goes to port when the edge carries a value as well as an order.
	carries      bool
	output, port string
}

type variable struct {
	required  bool
	sensitive bool
	value     json.RawMessage // default; nil: none
}

// Parse reads a definition. Where it matters to what a run does it is as strict as the protocol's schema, and where a member
// does nothing here (positions, groups, notes) it is not looked at. The error joins every mistake, each a *wire.FieldError
// with the path of its member.
func Parse(doc []byte) (*Workflow, error) {
	if len(doc) > MaxDefinition {
		return nil, &wire.FieldError{Field: "document", Reason: fmt.Sprintf("must have at most %d bytes", MaxDefinition)}
	}
	if depthOf(doc) > maxDepth {
		return nil, &wire.FieldError{Field: "document", Reason: fmt.Sprintf("must not be nested deeper than %d levels", maxDepth)}
	}
	if raw := jsontext.Value(doc); !raw.IsValid() { // a member given twice is not valid either
		return nil, &wire.FieldError{Field: "document", Reason: "must be valid JSON in UTF-8 without repeated members"}
	}
	p := parser{wf: &Workflow{doc: bytes.Clone(doc), index: map[string]int{}, variables: map[string]variable{}}}
	p.root(p.object("", doc))
	if len(p.errs) == 0 {
		p.graph()
	}
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return p.wf, nil
}

type parser struct {
	reader
	wf          *Workflow
	expressions int
}

func (p *parser) root(o object) {
	o.required("id", "name", "version", "nodes", "edges", "triggers", "variables", "metadata", "settings")
	o.closed("id", "name", "description", "version", "type", "isActive", "status", "tenantId", "scopeId", "slug", "nodes", "edges",
		"triggers", "variables", "groups", "channels", "configurableSchema", "defaults", "metadata", "settings",
		"acceptsInheritedArtifacts", "createdAt", "updatedAt")
	wf := p.wf
	wf.ID = o.text("id", 1, wire.MaxID)
	if wf.ID != "" && !matches(wf.ID, inWorkflowID) {
		p.fail("id", "must match ^[a-z][a-z0-9_-]*$")
	}
	wf.Name, wf.Version = o.text("name", 1, 256), o.text("version", 1, 256)
	o.child("metadata")
	o.child("defaults")
	o.child("channels")
	o.list("groups")
	p.variables(o)
	p.nodes(o)
	p.edges(o)
	p.triggers(o)
	settings := o.child("settings")
	wf.timeout = time.Duration(settings.whole("timeout", 0, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	wf.maxRetries = int(settings.whole("maxRetries", 0, math.MaxInt32))
	if raw, ok := o.members["configurableSchema"]; ok {
		if o.child("configurableSchema").members != nil {
			p.schema("configurableSchema", raw)
		}
	}
}

func (p *parser) variables(o object) {
	list := o.list("variables")
	if len(list) > MaxVariables {
		o.fail("variables", "must hold at most %d variables", MaxVariables)
		return
	}
	for i, raw := range list {
		v := p.object(fmt.Sprintf("variables[%d]", i), raw)
		v.required("name", "type")
		v.closed("name", "type", "description", "required", "defaultValue", "sensitive")
		v.choice("type", "string", "number", "boolean", "object", "array")
		name := v.text("name", 1, 256)
		if _, twice := p.wf.variables[name]; twice && name != "" {
			v.fail(v.at("name"), "is the name of an earlier variable: %q", name)
		}
		p.wf.variables[name] = variable{
			required: v.flag("required"), sensitive: v.flag("sensitive"), value: json.RawMessage(v.members["defaultValue"]),
		}
	}
}

func (p *parser) triggers(o object) {
	seen := map[string]bool{}
	for i, raw := range o.list("triggers") {
		t := p.object(fmt.Sprintf("triggers[%d]", i), raw)
		t.required("id", "type")
		t.closed("id", "type", "name", "description", "config", "enabled", "nodeId", "eventType")
		t.choice("type", "manual", "schedule", "webhook", "event", "artifact", "canvas", "envelope", "command", "chat-message", "channel-write")
		id := t.text("id", 1, wire.MaxID)
		if seen[id] && id != "" {
			t.fail(t.at("id"), "is the id of an earlier trigger: %q", id)
		}
		seen[id] = true
		if id := t.text("nodeId", 1, wire.MaxID); id != "" && !p.known(id) {
			t.fail(t.at("nodeId"), "names no node: %q", id)
		}
	}
}

// schema compiles the workflow's own schema of configurable.
func (p *parser) schema(path string, raw jsontext.Value) {
	var err error
	if p.wf.options, err = compileSchema(raw); err != nil {
		p.fail(path, "%v", err)
	}
}

// compileSchema reads a schema of a workflow's author. References are refused: with a few that double, an author could have a
// check take for ever, and these are made while other runs wait.
func compileSchema(raw jsontext.Value) (*schema.Schema, error) {
	for d := jsontext.NewDecoder(bytes.NewReader(raw)); ; {
		token, err := d.ReadToken()
		if err != nil {
			break
		}
		if kind, n := d.StackIndex(d.StackDepth()); kind == '{' && n%2 == 1 && strings.HasSuffix(strings.ToLower(token.String()), "ref") {
			return nil, fmt.Errorf("may not refer to other schemas: it has a %q", token.String())
		}
	}
	s, err := schema.Compile(raw)
	if err != nil {
		return nil, fmt.Errorf("is not a JSON Schema: %w", err)
	}
	return s, nil
}

// expression compiles what a member holds.
func (p *parser) expression(o object, name string, names ...string) *expression {
	source, ok := textOf(o.members[name])
	if p.expressions++; !ok || source == "" {
		if o.has(name) {
			o.fail(o.at(name), "must be a string that is not empty")
		}
		return nil
	}
	if p.expressions > MaxExpressions {
		o.fail(o.at(name), "must not be the expression after the %dth", MaxExpressions)
		return nil
	}
	x, err := readExpression(source, names...)
	if err != nil {
		o.fail(o.at(name), "%v", err)
		return nil
	}
	for i, n := range x.nodes {
		if !p.known(n.id) {
			o.fail(o.at(name), "names no node: %q", n.id)
			return nil
		}
		x.nodes[i].index = p.wf.index[n.id]
	}
	return x
}

func (p *parser) known(id string) bool { _, ok := p.wf.index[id]; return ok }

// matches says whether s is a lower-case letter followed by the bytes that rest allows.
func matches(s string, rest func(byte) bool) bool {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := 1; i < len(s); i++ {
		if !rest(s[i]) {
			return false
		}
	}
	return true
}

func inWorkflowID(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

func inTypeID(c byte) bool { return inWorkflowID(c) || c >= 'A' && c <= 'Z' || c == '.' }
