package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"runnerd/internal/redact"
	"runnerd/internal/wire"
)

// The statuses of agent.toolReturned (wire 15.2). With the last two the tool was never started.
const (
	toolOK        = "ok"
	toolError     = "error"
	toolForbidden = "forbidden"
)

// callID names a tool call in its run: a node's calls count up with its model steps.
func (s *State) callID(i int) string {
	return s.wf.nodes[i].id + ":" + strconv.Itoa(s.nodes[i].call)
}

// callTool makes the pending call, or says no to it. It reports whether the loop can go on at once.
func (t *turn) callTool(i int, wanted *wire.ToolCall, tools []AgentTool) bool {
	at := slices.IndexFunc(tools, func(t AgentTool) bool { return t.Name == wanted.Name })
	if at < 0 {
		t.refuseTool(i, AgentTool{Name: wanted.Name}, wanted, "there is no such tool here")
		return true
	}
	tool, args := tools[at], argumentsOf(wanted.Arguments)
	st := step{kind: wire.KindTool, tool: tool.Tool, inputs: args}
	if args == nil {
		t.refuseTool(i, tool, wanted, "the arguments are not an object")
		return true
	}
	if p := st.check(); p != nil {
		t.refuseTool(i, tool, wanted, p.Message)
		return true
	}
	if tool.Approve {
		switch asked, granted := t.permitted(i); {
		case !asked:
			t.suspend(i, toolApproval(t.s.callID(i), &tool, args))
			return false
		case !granted:
			t.refuseTool(i, tool, wanted, "a person did not allow it")
			return true
		}
	}
	t.toolCalled(i, tool, args)
	t.do(i, st)
	return false
}

// argumentsOf is what a model gave a call, as an object; some write it as text.
func argumentsOf(raw json.RawMessage) json.RawMessage {
	if text, ok := textOf(raw); ok {
		raw = json.RawMessage(text)
	}
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}")
	}
	if v := jsontext.Value(raw); !v.IsValid() || v.Kind() != '{' || depthOf(raw) > maxDepth {
		return nil
	}
	return raw
}

// toolApproval asks a person about a call. A token alone does not answer it: what the model wants stands in it, and it may have
// been told to want it.
func toolApproval(callID string, tool *AgentTool, args json.RawMessage) suspend {
	data := mustEncode(struct {
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}{tool.Tool, args})
	return suspend{kind: KindApproval, timeout: toolApprovalIn, untrusted: true, data: approval{
		ArtifactID: callID, ArtifactType: "tool-call", Title: "Allow " + clean(tool.Tool, 128) + "?", ArtifactData: data,
		Actions: []string{actionAccept, actionReject}, Required: 1, Policy: policyVeto, Profile: ProfileAuthRequired,
	}}
}

// permitted says whether a person was asked about the pending call, and allowed it.
func (t *turn) permitted(i int) (asked, granted bool) {
	g := t.s.nodes[i].gate
	var d approval
	if g == nil || !g.over() || decode(g.data, &d) != nil || d.ArtifactID != t.s.callID(i) {
		return false, false
	}
	return true, g.state == gateResolved && tallyOf(g.votes, &d).verdict(d.Policy) == met
}

// toolCalled writes the first of the pair, once a call.
func (t *turn) toolCalled(i int, tool AgentTool, args json.RawMessage) {
	n := &t.s.wf.nodes[i]
	if l := t.s.nodes[i].loop; l.open != nil {
		return
	}
	t.emit(TypeToolCalled, n.id, Untrusted, toolCalled{
		AgentID: n.agent.AgentID, ToolName: toolLabel(tool), CallID: t.s.callID(i), ArgsHash: argsHash(args), Principal: n.agent.AgentID, Transport: transportOf(tool),
	})
}

// toolLabel is the runner's name for a tool; a model's name for one that is not here is cut to what can be read.
func toolLabel(tool AgentTool) string {
	if tool.Tool != "" {
		return tool.Tool
	}
	return clean(tool.Name, 128)
}

func transportOf(tool AgentTool) string {
	switch {
	case tool.Transport == "mcp" || tool.Transport == "http" || tool.Transport == "native":
		return tool.Transport
	case strings.HasPrefix(tool.Tool, "mcp."):
		return "mcp"
	case strings.HasPrefix(tool.Tool, "http.") || strings.HasPrefix(tool.Tool, "connector."):
		return "http"
	}
	return "native"
}

// refuseTool answers a call that is not made. The model is told, and may do something else.
func (t *turn) refuseTool(i int, tool AgentTool, wanted *wire.ToolCall, why string) {
	n := &t.s.wf.nodes[i]
	t.toolCalled(i, tool, wanted.Arguments)
	if t.err != nil {
		return
	}
	out := mustEncode(wire.Failed(wire.CodePolicyDenied, "%s", why))
	t.emit(TypeAgentStep, n.id, Trusted, agentStepEnded{n.id, t.s.stepID(i), out})
}

// toolEnded keeps what came back from a call.
func (t *turn) toolEnded(i int, out *stepOutput, p *problem) {
	id, doc := t.s.wf.nodes[i].id, out.doc
	if p != nil && (len(doc) > wire.MaxResult || jsontext.Value(doc).Kind() != '{' || !jsontext.Value(doc).IsValid() || depthOf(doc) > wire.MaxDepth) {
		doc = mustEncode(wire.Failed(wire.Code(p.Code), "%s", p.Message)) // what cannot stand in an event
	}
	t.emit(TypeAgentStep, id, Untrusted, agentStepEnded{id, t.s.stepID(i), doc})
}

// toolReturned writes the second of the pair, for a call whose result is there. What was not allowed was never started.
func (t *turn) toolReturned(i int) {
	n, l := &t.s.wf.nodes[i], t.s.nodes[i].loop
	if l.open == nil || l.open.id == t.s.callID(i) {
		return
	}
	r := toolReturned{AgentID: n.agent.AgentID, ToolName: l.open.tool, CallID: l.open.id, Status: toolOK, DurationMs: t.tookSince(l.open.at)}
	if e := l.lastFailure(); e != nil {
		r.Status = toolError
		if e.Code == wire.CodePolicyDenied || e.Code == wire.CodeApprovalExpired {
			r.Status, r.DurationMs = toolForbidden, nil
		}
	}
	t.emitCaused(TypeToolReturned, n.id, Trusted, l.open.eventID, r)
}

// lastFailure is the failure of the call that ended last, if it failed.
func (l *loop) lastFailure() *wire.StepError {
	if len(l.talk) == 0 || len(l.talk[len(l.talk)-1].results) == 0 {
		return nil
	}
	results := l.talk[len(l.talk)-1].results
	return wire.Failure(results[len(results)-1].doc)
}

// argsHash is SHA-256 over the canonical form (RFC 8785) of the arguments, after what looks like a secret was taken out: by the
// name of its member, or by its shape (wire 15.2).
func argsHash(args json.RawMessage) string {
	var v any
	if len(args) == 0 || decode(args, &v) != nil {
		v = nil
	}
	doc := jsontext.Value(mustEncode(withoutSecrets(v)))
	if doc.Canonicalize() != nil {
		doc = jsontext.Value("null")
	}
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:])
}

// secretNames are what members that hold secrets are called, in lower case and without separators.
var secretNames = []string{"apikey", "token", "password", "passwd", "passphrase", "authorization", "secret", "credential", "cookie", "privatekey", "accesskey"}

func withoutSecrets(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, item := range v {
			plain := strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "", " ", "").Replace(name))
			if slices.ContainsFunc(secretNames, func(s string) bool { return strings.Contains(plain, s) }) {
				v[name] = redact.Mask
				continue
			}
			v[name] = withoutSecrets(item)
		}
	case []any:
		for i := range v {
			v[i] = withoutSecrets(v[i])
		}
	case string:
		if redact.HasTokenShape([]byte(v)) {
			return redact.Mask
		}
	}
	return v
}

// told is a tool's result as a model is told it.
func told(out *stepOutput) string {
	if e := wire.Failure(out.doc); e != nil {
		return "error " + string(e.Code) + ": " + e.Message
	}
	if text, ok := textOf(out.Result); ok {
		return text
	}
	doc := out.Result
	switch {
	case len(doc) > 0:
	case out.Text != "":
		return out.Text
	default:
		doc = out.doc
	}
	var compact bytes.Buffer
	if json.Compact(&compact, doc) != nil {
		return ""
	}
	return compact.String()
}
