package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"runnerd/internal/wire"
)

// A suspend waits for somebody's answer.
type suspend struct {
	kind      string
	key       string
	data      any
	schema    json.RawMessage // of the answer
	timeout   time.Duration
	untrusted bool
}

func (suspend) act() {}

// The actions of an approval (wire 7.1).
const (
	actionAccept     = "accept"
	actionReject     = "reject"
	actionRefine     = "refine"
	actionEditAccept = "edit-accept"
	actionAsk        = "ask"
	actionTimeout    = "timeout"
)

const (
	policyVeto     = "single-veto"
	policyMajority = "majority"
)

// An approval is the data of an approval's request. Its schema is open: profile and refinements are ours.
type approval struct {
	ArtifactID   string          `json:"artifactId"`
	ArtifactType string          `json:"artifactType"`
	Title        string          `json:"title"`
	Description  string          `json:"description,omitzero"`
	ArtifactData json.RawMessage `json:"artifactData,omitzero"`
	Actions      []string        `json:"actions"`
	Required     int             `json:"requiredApprovals"`
	Approvers    []string        `json:"approversList,omitzero"`
	Policy       string          `json:"rejectionPolicy"`
	Profile      string          `json:"profile,omitzero"`
	Refinements  []refinement    `json:"refinements,omitzero"` // what was asked for so far
}

type refinement struct {
	By       string          `json:"by,omitzero"`
	Feedback json.RawMessage `json:"feedback"`
}

type clarification struct {
	Questions   []question `json:"questions"`
	ContextType string     `json:"contextType,omitzero"`
}

type question struct {
	ID       string          `json:"id"`
	Question string          `json:"question"`
	Schema   json.RawMessage `json:"schema,omitzero"`
}

type externalEvent struct {
	EventType   string                     `json:"eventType"`
	Correlation map[string]json.RawMessage `json:"correlation"`
}

type customData struct {
	CustomKind string          `json:"customKind"`
	Payload    json.RawMessage `json:"payload,omitzero"`
}

// What one interrupt may hold.
const (
	maxVoters    = 1000
	maxQuestions = 50
	maxWait      = math.MaxInt64 / int64(time.Millisecond)
)

// settings is the node's config, to be read strictly.
func (c *call) settings() object {
	o := object{&reader{}, "config", map[string]jsontext.Value{}}
	for name, raw := range c.node.config {
		o.members[name] = jsontext.Value(raw)
	}
	return o
}

// wrong is a mistake in a config or in data that was read, nil when there is none.
func (r *reader) wrong() *problem {
	if len(r.errs) == 0 {
		return nil
	}
	return fail(codeInvalidInput, "%v", errors.Join(r.errs...))
}

func approvalGate(c *call) act {
	o := c.settings()
	return c.askApproval(o, o)
}

func clarificationGate(c *call) act {
	o := c.settings()
	return c.askQuestions(o, o)
}

// interruptNode is core.interrupt: config.kind says what config.data is.
func interruptNode(c *call) act {
	o := c.settings()
	o.required("kind", "data")
	data := o.child("data")
	if p := o.wrong(); p != nil {
		return p
	}
	kind, _ := textOf(o.members["kind"])
	switch kind {
	case KindApproval:
		return c.askApproval(o, data)
	case KindClarification:
		return c.askQuestions(o, data)
	case KindExternalEvent:
		data.required("eventType", "correlation")
		data.closed("eventType", "correlation")
		e := externalEvent{EventType: data.text("eventType", 1, 256), Correlation: map[string]json.RawMessage{}}
		for name, raw := range data.child("correlation").members {
			e.Correlation[name] = json.RawMessage(raw)
		}
		return c.ask(o, suspend{kind: kind, data: e})
	case KindCustom:
		data.required("customKind")
		data.closed("customKind", "payload")
		return c.ask(o, suspend{kind: kind, data: customData{data.text("customKind", 1, 256), json.RawMessage(data.members["payload"])}})
	}
	return fail(codeInvalidInput, "config.kind must be %s, %s, %s or %s", KindApproval, KindClarification, KindExternalEvent, KindCustom)
}

// askApproval shows what is to be approved: the input "artifactData", or all inputs as an object, or what the data holds.
func (c *call) askApproval(o, data object) act {
	a := approval{
		ArtifactID: cmp.Or(data.text("artifactId", 1, 256), c.node.id), ArtifactType: cmp.Or(data.text("artifactType", 1, 256), KindApproval),
		Title: cmp.Or(data.text("title", 1, 1024), c.node.id), Description: data.text("description", 0, 16<<10),
		Required: int(max(data.whole("requiredApprovals", 1, maxVoters), 1)), Policy: data.choice("rejectionPolicy", policyVeto, policyMajority),
		ArtifactData: json.RawMessage(data.members["artifactData"]), Profile: data.text("profile", 1, 256),
	}
	for i, raw := range data.list("actions") {
		one := object{o.reader, data.at("actions"), map[string]jsontext.Value{strconv.Itoa(i): raw}}
		a.Actions = append(a.Actions, one.choice(strconv.Itoa(i), actionAccept, actionReject, actionRefine, actionEditAccept, actionAsk))
	}
	slices.Sort(a.Actions)
	if a.Actions = slices.Compact(a.Actions); len(a.Actions) == 0 {
		a.Actions = []string{actionAccept, actionReject}
	}
	for i, raw := range data.list("approversList") {
		one := object{o.reader, data.at("approversList"), map[string]jsontext.Value{strconv.Itoa(i): raw}}
		a.Approvers = append(a.Approvers, one.text(strconv.Itoa(i), 1, 256))
	}
	ask := suspend{kind: KindApproval}
	for _, port := range c.ports() {
		v := c.in[port]
		if v.variable != "" {
			return fail(codeInvalidInput, "input %q is a sensitive variable, and what is to be approved stands in the log", port)
		}
		ask.untrusted = ask.untrusted || v.untrusted
	}
	if v, ok := c.in["artifactData"]; ok {
		a.ArtifactData = v.raw
	} else if len(c.in) > 0 {
		var w objectWriter
		for _, port := range c.ports() {
			w.add(port, c.in[port].raw)
		}
		a.ArtifactData = w.done()
	}
	ask.data = a
	return c.ask(o, ask)
}

// askQuestions takes the questions of the config, or those of the input "questions".
func (c *call) askQuestions(o, data object) act {
	ask, list := suspend{kind: KindClarification}, data.list("questions")
	if v, ok := c.in["questions"]; ok {
		ask.untrusted = v.untrusted
		from := object{o.reader, "inputs", map[string]jsontext.Value{"questions": jsontext.Value(v.raw)}}
		list = from.list("questions")
	}
	d := clarification{ContextType: data.text("contextType", 1, 256)}
	seen := map[string]bool{}
	for i, raw := range list {
		q := o.object("questions["+strconv.Itoa(i)+"]", raw)
		q.required("id", "question")
		q.closed("id", "question", "schema")
		one := question{ID: q.text("id", 1, 128), Question: q.text("question", 1, 16<<10), Schema: json.RawMessage(q.members["schema"])}
		if seen[one.ID] {
			q.fail(q.at("id"), "is the id of an earlier question: %q", one.ID)
		}
		seen[one.ID] = true
		if one.Schema != nil && (ask.untrusted || !q.takesSchema("schema")) {
			q.fail(q.at("schema"), "must be a JSON Schema without references, by the workflow's author")
		}
		d.Questions = append(d.Questions, one)
	}
	if len(d.Questions) == 0 || len(d.Questions) > maxQuestions {
		o.fail("questions", "must hold 1 to %d questions", maxQuestions)
	}
	ask.data = d
	return c.ask(o, ask)
}

// ask adds what every interrupt may have, unless something was wrong.
func (c *call) ask(o object, s suspend) act {
	s.key = o.text("key", 1, 256)
	s.timeout = time.Duration(o.whole("timeoutMs", 0, maxWait)) * time.Millisecond
	if raw, ok := o.members["resumeSchema"]; ok && o.takesSchema("resumeSchema") {
		s.schema = json.RawMessage(raw)
	}
	if p := o.wrong(); p != nil {
		return p
	}
	return s
}

// takesSchema notes what keeps a member from being a schema.
func (o object) takesSchema(name string) bool {
	raw := o.members[name]
	if raw.Kind() != '{' {
		o.fail(o.at(name), "must be an object")
		return false
	}
	if _, err := compileSchema(raw); err != nil {
		o.fail(o.at(name), "%v", err)
		return false
	}
	return true
}

// suspend emits the request. Trust is the data's.
func (t *turn) suspend(i int, a suspend) {
	n, id := t.s.nodes[i].asks+1, t.s.wf.nodes[i].id
	key := a.key
	if key == "" || n > 1 { // another request is another key
		key = cmp.Or(a.key, id) + ":" + strconv.Itoa(n)
	}
	data, err := encode(a.data)
	if err != nil || len(data) > wire.MaxResult || depthOf(data) > wire.MaxDepth-4 {
		t.failNode(i, fail(codeTooLarge, "what the node asks about has %d bytes, more than an event holds, or is nested too deep", len(data)))
		return
	}
	t.emit(TypeNodeSuspended, id, "", nodeSuspended{id, interruptID(id, n), a.kind, key})
	t.emit(TypeInterruptRequested, id, trust(a.untrusted), suspendRequest{
		Kind: a.kind, Key: key, Data: json.RawMessage(data), ResumeSchema: a.schema, TimeoutMs: a.timeout.Milliseconds(),
	})
	if t.err == nil && a.timeout > 0 {
		t.effect(SetTimer{t.s.nodes[i].gate.timer(), a.timeout})
	}
}
