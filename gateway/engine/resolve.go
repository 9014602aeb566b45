package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"runnerd/internal/wire"
)

// Resolve answers an interrupt (wire 7.2). Either NodeID or InterruptID names it; where both are given, both must fit. Decide
// refuses it with one of the errors beside ErrNoInterrupt, or with a *wire.FieldError under "resumeValue"; the run is then as it
// was.
type Resolve struct {
	NodeID      string
	InterruptID string
	Value       json.RawMessage // resumeValue
	By          string          // opaque principal, from the credential and never from the body
	Authorized  bool            // the caller holds approvals:respond; a signed token alone does not say so
	Untrusted   bool            // the value is marked as untrusted content (wire 7.3)
}

func (Resolve) input() {}

// maxAnswer bounds an answer, in bytes: it stands in three events.
const maxAnswer = 256 << 10

const inAnswer = "resumeValue"

func badAnswer(member, format string, args ...any) error {
	if member != "" {
		member = "." + member
	}
	return &wire.FieldError{Field: inAnswer + member, Reason: fmt.Sprintf(format, args...)}
}

func (t *turn) resolveInterrupt(in Resolve) bool {
	i, g, err := t.s.interrupt(in.NodeID, in.InterruptID)
	if err == nil {
		err = t.admit(i, g, in)
	}
	if err == nil {
		switch g.kind {
		case KindApproval:
			err = t.approve(i, g, in)
		case KindClarification:
			err = t.clarify(i, g, in)
		case KindExternalEvent, KindCustom:
			err = t.deliver(i, g, in)
		default:
			err = ErrNoInterrupt
		}
	}
	if t.err == nil {
		t.err = err
	}
	return t.err == nil
}

// admit looks at everything about an answer but its meaning.
func (t *turn) admit(i int, g *gate, in Resolve) error {
	switch {
	case t.s.nodes[i].gate != g:
		return &wire.FieldError{Field: "interruptId", Reason: "waits for the answer to a question that an approver asked"}
	case g.auth && !in.Authorized:
		return ErrAuthRequired
	case in.Untrusted:
		return ErrUntrustedAnswer
	case len(in.Value) == 0:
		return badAnswer("", "is required")
	case len(in.Value) > maxAnswer:
		return badAnswer("", "must have at most %d bytes", maxAnswer)
	case depthOf(in.Value) > maxDepth:
		return badAnswer("", "must not be nested deeper than %d levels", maxDepth)
	case !jsontext.Value(in.Value).IsValid():
		return badAnswer("", "must be valid JSON in UTF-8 without repeated members")
	}
	var p suspendRequest
	if err := decode(g.request, &p); err != nil {
		return err
	}
	return conforms(p.ResumeSchema, "", in.Value)
}

// conforms holds a value against a schema of the workflow's author, if there is one.
func conforms(doc json.RawMessage, member string, value json.RawMessage) error {
	if doc == nil {
		return nil
	}
	s, err := compileSchema(jsontext.Value(doc))
	if err == nil {
		err = s.Validate(value)
	}
	if err == nil {
		return nil
	}
	var under []error
	for _, err := range leaves(err) {
		at := member
		if e, ok := errors.AsType[*wire.FieldError](err); ok {
			if err = errors.New(e.Reason); e.Field != "document" {
				at = strings.TrimPrefix(member+"."+e.Field, ".")
			}
		}
		under = append(under, badAnswer(at, "%v", err))
	}
	return errors.Join(under[:min(len(under), maxMistakes)]...)
}

func leaves(err error) []error {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return all.Unwrap()
	}
	return []error{err}
}

// resolved closes the interrupt, and lets its node go on.
func (t *turn) resolved(i int, g *gate, in Resolve) {
	var value bytes.Buffer
	if err := json.Compact(&value, in.Value); err != nil {
		t.err = err
		return
	}
	if g.timeout > 0 {
		t.effect(ClearTimer{g.timer()})
	}
	id := t.s.wf.nodes[i].id
	t.emit(TypeInterruptResolved, id, trust(!in.Authorized), interruptResolved{
		NodeID: id, InterruptID: g.id, Kind: g.kind, ResumeValue: value.Bytes(), RunID: t.s.runID, ResolvedAt: t.now, ResolvedBy: in.By,
	})
	if t.err == nil && g.under == nil && t.s.paused == nil {
		t.resumeNode(i)
	}
}

// resumeNode goes on with a node whose interrupt has been resolved.
func (t *turn) resumeNode(i int) {
	n, g := &t.s.wf.nodes[i], t.s.nodes[i].gate
	if !g.resumed {
		t.emit(TypeNodeResumed, n.id, trust(!g.trusted), nodeResumed{n.id, g.id, g.value})
	}
	kind, _ := typeOf(n.typeID)
	if t.err == nil {
		t.do(i, kind.resume(&call{t, n, nil, &t.s.begun.options}, t.s.nodes[i].gate))
	}
}

// expire ends the node of an interrupt that nobody answered in time.
func (t *turn) expire(i int, g *gate) {
	n := &t.s.wf.nodes[i]
	if g.kind == KindApproval {
		t.emit(TypeApprovalReceived, n.id, "", approvalReceived{NodeID: n.id, InterruptID: g.id, Action: actionTimeout, DecidedAt: t.now})
	}
	if n.agentic() { // nobody's permission is no permission, and the agent may do something else
		value := json.RawMessage(`{"action":"` + actionTimeout + `"}`)
		t.emit(TypeInterruptResolved, n.id, Trusted, interruptResolved{
			NodeID: n.id, InterruptID: g.id, Kind: g.kind, ResumeValue: value, RunID: t.s.runID, ResolvedAt: t.now,
		})
		if t.err == nil && t.s.paused == nil {
			t.resumeNode(i)
		}
		return
	}
	t.failNode(i, fail(codeExpired, "nobody answered within %s", g.timeout))
}

// clarify takes {"answers": {"q1": "blue"}}, {"answers": [{"id": "q1", "answer": "blue"}]}, or either without "answers".
func (t *turn) clarify(i int, g *gate, in Resolve) error {
	var d clarification
	if err := decode(g.data, &d); err != nil {
		return err
	}
	answers, err := readAnswers(in.Value)
	if err != nil {
		return err
	}
	var wrong []error
	var doc objectWriter
	for _, q := range d.Questions {
		raw, ok := answers[q.ID]
		if text, isText := textOf(raw); !ok || string(raw) == "null" || isText && strings.TrimSpace(text) == "" {
			wrong = append(wrong, badAnswer("answers."+q.ID, "is required"))
			continue
		}
		wrong = append(wrong, conforms(q.Schema, "answers."+q.ID, raw))
		doc.add(q.ID, raw)
		delete(answers, q.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(answers)) {
		wrong = append(wrong, badAnswer("answers."+id, "answers no question"))
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	id := t.s.wf.nodes[i].id
	t.emit(TypeClarificationResolved, id, trust(!in.Authorized), clarificationResolved{id, doc.done(), in.By})
	t.resolved(i, g, in)
	return nil
}

func readAnswers(value json.RawMessage) (map[string]json.RawMessage, error) {
	if jsontext.Value(value).Kind() == '{' {
		all, err := members(value)
		if err != nil {
			return nil, err
		}
		inner, ok := all["answers"]
		if kind := jsontext.Value(inner).Kind(); !ok || kind != '{' && kind != '[' {
			return all, nil
		}
		value = inner
	}
	if jsontext.Value(value).Kind() == '{' {
		return members(value)
	}
	var list []struct {
		ID     string          `json:"id"`
		Answer json.RawMessage `json:"answer"`
	}
	if decode(value, &list) != nil {
		return nil, badAnswer("answers", "must be an object, or an array of objects with id and answer")
	}
	all := map[string]json.RawMessage{}
	for _, a := range list {
		if _, twice := all[a.ID]; twice {
			return nil, badAnswer("answers."+a.ID, "is given twice")
		}
		all[a.ID] = a.Answer
	}
	return all, nil
}

// deliver takes an external event that fits its correlation, and anything for a custom interrupt.
func (t *turn) deliver(i int, g *gate, in Resolve) error {
	if g.kind == KindExternalEvent {
		var d externalEvent
		if err := decode(g.data, &d); err != nil {
			return err
		}
		if jsontext.Value(in.Value).Kind() != '{' {
			return badAnswer("", "must be an object")
		}
		value, err := members(in.Value)
		if err != nil {
			return err
		}
		var wrong []error
		for _, name := range slices.Sorted(maps.Keys(d.Correlation)) { // what is expected is not told: it is how a sender is known
			if got, ok := value[name]; !ok || !sameJSON(got, d.Correlation[name]) {
				wrong = append(wrong, badAnswer(name, "does not match the event that is waited for"))
			}
		}
		if err := errors.Join(wrong...); err != nil {
			return err
		}
	}
	t.resolved(i, g, in)
	return nil
}

// resumeGate ends a node of ours with what it was told.
func resumeGate(c *call, g *gate) act {
	v := value{raw: g.value, untrusted: !g.trusted || g.kind == KindExternalEvent, from: c.node.id}
	switch g.kind {
	case KindApproval:
		return c.decided(g)
	case KindClarification:
		answers, err := readAnswers(g.value)
		if err != nil {
			return fail(codeInvalidInput, "%v", err)
		}
		v.raw = mustEncode(answers)
		return done{{"answers", v}}
	}
	all, err := members(g.value)
	if jsontext.Value(g.value).Kind() != '{' || err != nil {
		return done{{"value", v}}
	}
	var out done
	for _, name := range slices.Sorted(maps.Keys(all)) {
		v.raw = all[name]
		out = append(out, output{name, v})
	}
	return out
}
