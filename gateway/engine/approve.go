package engine

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxRounds bounds how often one gate may be asked about or sent back.
const maxRounds = 25

// An answer to an approval (wire 7.2).
type approvalAnswer struct {
	action   string
	voter    string
	comment  string
	feedback json.RawMessage
	edited   json.RawMessage
	question string
}

// readApproval reads an answer as far as it does not depend on the gate.
func readApproval(value json.RawMessage) (a approvalAnswer, err error) {
	if jsontext.Value(value).Kind() != '{' {
		return a, badAnswer("", "must be an object")
	}
	all, err := members(value)
	if err != nil {
		return a, err
	}
	text := func(name string, most int) string {
		raw, ok := all[name]
		s, isText := textOf(raw)
		if ok && string(raw) != "null" && (!isText || len(s) > most) && err == nil {
			err = badAnswer(name, "must be a string of at most %d bytes", most)
		}
		return s
	}
	a.action, a.voter, a.comment = text("action", 32), strings.TrimSpace(text("voter", 256)), text("comment", 16<<10)
	a.question = text("question", 16<<10)
	a.edited = all["editedArtifactData"]
	if a.feedback = all["refineFeedback"]; a.feedback != nil {
		var f struct {
			Scope string `json:"scope"`
		}
		if jsontext.Value(a.feedback).Kind() != '{' || decode(a.feedback, &f) != nil || !slices.Contains([]string{"whole", "section", "items"}, f.Scope) {
			return a, badAnswer("refineFeedback", "must be an object whose scope is whole, section or items")
		}
	} else if words := text("feedback", 16<<10); words != "" {
		a.feedback = mustEncode(map[string]string{"scope": "whole", "text": words})
	} else if a.comment != "" {
		a.feedback = mustEncode(map[string]string{"scope": "whole", "text": a.comment})
	}
	return a, err
}

// check says what the gate does not take.
func (a *approvalAnswer) check(d *approval) error {
	switch {
	case a.action == "":
		return badAnswer("action", "is required")
	case !slices.Contains(d.Actions, a.action):
		return badAnswer("action", "must be one of %s", strings.Join(d.Actions, ", "))
	case a.action == actionEditAccept && a.edited == nil:
		return badAnswer("editedArtifactData", "is required with %s", actionEditAccept)
	case a.action == actionRefine && a.feedback == nil:
		return badAnswer("refineFeedback", "is required with %s, or feedback, or a comment", actionRefine)
	case a.action == actionAsk && strings.TrimSpace(a.question) == "":
		return badAnswer("question", "is required with %s", actionAsk)
	}
	return nil
}

// approve counts a vote, sends the gate back, or asks a question first.
func (t *turn) approve(i int, g *gate, in Resolve) error {
	var d approval
	if err := decode(g.data, &d); err != nil {
		return err
	}
	if len(d.Approvers) > 0 && !slices.Contains(d.Approvers, in.By) {
		return ErrNotApprover
	}
	a, err := readApproval(in.Value)
	if err == nil {
		err = a.check(&d)
	}
	switch {
	case err != nil:
		return err
	case len(d.Approvers) > 0 && a.voter != "" && a.voter != in.By: // whoever is named in a body is nobody that we know
		return badAnswer("voter", "must be the caller where the approvers are listed")
	case a.voter == "":
		a.voter = in.By
	}
	id := t.s.wf.nodes[i].id
	if (a.action == actionAsk || a.action == actionRefine) && t.s.nodes[i].asks >= maxRounds {
		return badAnswer("action", "has been taken %d times, and not more often", maxRounds)
	}
	if a.action == actionAsk {
		t.suspend(i, suspend{kind: KindClarification, untrusted: !in.Authorized, data: clarification{
			Questions: []question{{ID: "q1", Question: a.question}}, ContextType: KindApproval,
		}})
		return nil
	}
	for _, v := range g.votes {
		if v.Voter == a.voter {
			return badAnswer("voter", "has voted")
		}
	}
	received := approvalReceived{
		NodeID: id, InterruptID: g.id, Action: a.action, DecidedBy: in.By, DecidedAt: t.now, Voter: a.voter, Comment: a.comment,
	}
	switch a.action {
	case actionRefine:
		received.RefineFeedback = a.feedback
	case actionEditAccept:
		received.Edited = a.edited
	}
	count := tallyOf(append(g.votes[:len(g.votes):len(g.votes)], received), &d)
	if d.Required > 1 {
		received.Votes = &count
	}
	t.emit(TypeApprovalReceived, id, trust(!in.Authorized), received)
	if a.action == actionRefine || count.verdict(d.Policy) != wait {
		t.resolved(i, g, in)
	}
	return nil
}

// votes reports whether this is one.
func (p *approvalReceived) votes() bool {
	return p.Action == actionAccept || p.Action == actionEditAccept || p.Action == actionReject
}

func tallyOf(votes []approvalReceived, d *approval) tally {
	n := tally{Required: max(d.Required, 1)}
	for _, v := range votes {
		switch v.Action {
		case actionAccept, actionEditAccept:
			n.Accepted++
		case actionReject:
			n.Rejected++
		}
	}
	return n
}

// verdict says how the votes decide: met for accepted, never for rejected. Under the policy majority, a majority of the
// approvals that are required rejects (wire 7.2: of three, the second).
func (n tally) verdict(policy string) verdict {
	switch {
	case n.Rejected > 0 && (policy != policyMajority || n.Rejected > n.Required/2):
		return never
	case n.Accepted >= n.Required:
		return met
	}
	return wait
}

// decided is what becomes of a gate that has been decided or sent back.
func (c *call) decided(g *gate) act {
	var d approval
	a, err := readApproval(g.value)
	if err == nil {
		err = decode(g.data, &d)
	}
	if err != nil {
		return fail(codeInvalidInput, "the approval cannot be read: %v", err)
	}
	if a.action == actionRefine {
		d.Refinements = append(d.Refinements, refinement{g.by, a.feedback})
		return suspend{kind: KindApproval, data: d, timeout: g.timeout, untrusted: g.foreign || !g.trusted}
	}
	told := func(name string, raw json.RawMessage, untrusted bool) output {
		return output{name, value{raw: raw, untrusted: untrusted, from: c.node.id}}
	}
	count, action := tallyOf(g.votes, &d), actionAccept
	artifact, foreign := d.ArtifactData, g.foreign
	if count.verdict(d.Policy) != met {
		action = actionReject
	}
	for _, v := range g.votes {
		if v.Edited != nil && action != actionReject {
			action, artifact, foreign = actionEditAccept, v.Edited, !g.trusted
		}
	}
	out := done{told("action", mustEncode(action), false), told("decidedBy", mustEncode(g.by), false)}
	if artifact != nil {
		out = append(out, told("artifactData", artifact, foreign))
	}
	if a.comment != "" {
		out = append(out, told("comment", mustEncode(a.comment), !g.trusted))
	}
	if action == actionReject && !slices.ContainsFunc(c.node.out, func(e int) bool { return c.s.wf.edges[e].onReject() }) {
		p := fail(codeRejected, "the approval was refused")
		p.Details = mustEncode(struct {
			InterruptID string `json:"interruptId"`
			DecidedBy   string `json:"decidedBy,omitzero"`
			Votes       tally  `json:"votes"`
		}{g.id, g.by, count})
		return p
	}
	return out
}

// onReject reports whether the edge is for a gate's rejection. Such an edge, and whether there is one, decides what a
// rejection leads to: this way, or the failure of the node.
func (e *edge) onReject() bool { return e.output == actionReject || e.output == "rejected" }

// onAccept reports whether the edge names the way of acceptance, which is that of every edge that does not name the other.
func (e *edge) onAccept() bool {
	return e.output == actionAccept || e.output == "accepted" || e.output == "approved"
}

// refusedBy reports whether an edge leaves an approval that was decided the other way.
func (t *turn) refusedBy(e *edge) bool {
	if kind, _ := typeOf(t.s.wf.nodes[e.from].typeID); !kind.routes {
		return false
	}
	if g := t.s.nodes[e.from].gate; g == nil || g.kind != KindApproval {
		return false
	}
	v, _ := t.lookup(e.from, "action")
	action, _ := textOf(v.raw)
	return (action == actionReject) != e.onReject()
}

// route gives an edge that names a way of an approval, and no output, all outputs to carry.
func (t *turn) route(e *edge) (value, bool) {
	v, ok := t.lookup(e.from, e.output)
	if kind, _ := typeOf(t.s.wf.nodes[e.from].typeID); !ok && kind.routes && (e.onReject() || e.onAccept()) {
		return t.lookup(e.from, defaultOutput)
	}
	return v, ok
}
