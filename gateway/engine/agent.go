package engine

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"runnerd/internal/wire"
)

// An Agent is what a node with agent: {agentId} thinks with (wire section 17): a manifest as far as the loop needs it, with its
// tools resolved. It comes in with each decision, and is not in the log.
type Agent struct {
	ID         string
	Version    string
	ModelClass string
	Prompt     string // system instruction
	Provider   string // hints, which node and run come before
	Model      string
	Tools      []AgentTool // the whole surface: toolAllowlist is already applied, and none means none
	MaxTurns   int         // model steps; 0: the host's
	MaxTokens  int         // of all its model steps; 0: the host's
}

// An AgentTool is a tool that an agent may call.
type AgentTool struct {
	Name        string // as the model says it; empty: made from Tool
	Tool        string // of the runner
	Description string
	Parameters  json.RawMessage // JSON Schema
	Transport   string          // mcp, http or native; empty: by the tool's name
	Approve     bool            // a person is asked before each call
}

// The bounds of a loop where neither host nor agent sets closer ones.
const (
	DefaultAgentTurns  = 12
	DefaultAgentTokens = 500_000

	maxTurnCalls   = 16 // tool calls of one model step
	minAgentID     = 3
	toolApprovalIn = 10 * time.Minute // an approval that nobody gives is denied
)

const typeAgent = "runnerd.agent"

// An agentRef is the agent of a node as a snapshot shows it.
type agentRef struct {
	AgentID    string `json:"agentId"`
	Name       string `json:"name,omitzero"`
	ModelClass string `json:"modelClass,omitzero"`
}

func readAgent(n object) *agentRef {
	a := n.child("agent")
	if a.members == nil {
		return nil
	}
	a.required("agentId")
	ref := agentRef{AgentID: a.text("agentId", minAgentID, 256), Name: a.text("name", 0, 256), ModelClass: a.text("modelClass", 0, 128)}
	classes := []string{"reasoning", "tool-using", "chat", "code", "vision", "multimodal", "embedding", "classification", "retrieval"}
	if !slices.Contains(classes, ref.ModelClass) { // a vendor's, which the closed list of snapshots has no room for
		ref.ModelClass = ""
	}
	return &ref
}

// agentic reports whether the node is an agent's loop. An agent on a node of any other type is who it runs for, and nothing
// else: the protocol's own fixture pins one on core.identity.
func (n *node) agentic() bool {
	return n.agent != nil && (n.typeID == typeAgent || n.model() && n.config["mcp"] == nil)
}

func (t *turn) agentOf(n *node) *Agent {
	if t.env.Agents == nil {
		return nil
	}
	return t.env.Agents(n.agent.AgentID)
}

// calling reports whether the node's step is a tool call of an agent.
func (s *State) calling(i int) bool {
	return s.wf.nodes[i].agentic() && s.nodes[i].loop != nil && s.nodes[i].loop.pending() != nil
}

// A loop is how far an agent has come in its node. It is replaced, never changed.
type loop struct {
	talk   []exchange
	tokens int64
	open   *openCall // a tool call that was not answered yet
}

// An exchange is a model step with tool calls, and what came of them so far.
type exchange struct {
	text    string
	calls   []wire.ToolCall
	results []stepOutput
}

type openCall struct {
	id      string
	tool    string
	eventID string
	at      time.Time
}

// pending is the tool call that comes next; nil when the model does.
func (l *loop) pending() *wire.ToolCall {
	if len(l.talk) == 0 {
		return nil
	}
	last := &l.talk[len(l.talk)-1]
	if len(last.results) == len(last.calls) {
		return nil
	}
	return &last.calls[len(last.results)]
}

// foldAgent applies the events of an agent's loop. What a step returned stands in an event of our own, whole: the protocol's
// pair of events about a tool is content-free.
func (n *nodeState) foldAgent(e Event) error {
	l := loop{}
	if n.loop != nil {
		l = *n.loop
	}
	switch e.Type {
	case TypeToolCalled:
		var p toolCalled
		if err := decode(e.Payload, &p); err != nil {
			return err
		}
		l.open = &openCall{p.CallID, p.ToolName, e.EventID, e.Timestamp}
		n.phase = phaseQueued // again, if a person was asked first
	case TypeToolReturned:
		l.open = nil
	case TypeAgentStep:
		var p agentStepEnded
		if err := decode(e.Payload, &p); err != nil {
			return err
		}
		l.take(p.Output)
		n.call, n.try, n.asked, n.stream, n.phase = n.call+1, 1, 1, stream{}, phaseQueued
	}
	n.loop = &l
	return nil
}

// take adds what a step returned to the talk.
func (l *loop) take(doc json.RawMessage) {
	out, _ := readOutput(doc)
	l.talk = slices.Clone(l.talk)
	if l.pending() != nil {
		last := &l.talk[len(l.talk)-1]
		last.results = append(last.results[:len(last.results):len(last.results)], *out)
		return
	}
	if counts(out.Usage) {
		l.tokens += out.Usage.InputTokens + out.Usage.OutputTokens
	}
	l.talk = append(l.talk, exchange{text: out.Text, calls: callsOf(out)})
}

func callsOf(out *stepOutput) []wire.ToolCall {
	return out.ToolCalls[:min(len(out.ToolCalls), maxTurnCalls)]
}

// agentStep takes an agent's node on from where it is.
func agentStep(c *call) act {
	if len(c.node.hidden) > 0 {
		return fail(codeInvalidInput, "an agent's node cannot hide its outputs: it is told them itself")
	}
	return perform(func(t *turn, i int) { t.agentGoesOn(i, c.in) })
}

// resumeAgent goes on after a person was asked about a tool.
func resumeAgent(c *call, _ *gate) act {
	in, p := c.resolve(c.node)
	if p != nil {
		return p
	}
	c.in = in
	return agentStep(c)
}

// agentGoesOn makes the next step of a loop: the tool call that is pending, else the model's turn. Calls are made one after the
// other, in the model's order, since what they do to a machine may depend on it.
func (t *turn) agentGoesOn(i int, in map[string]value) {
	n, s := &t.s.wf.nodes[i], &t.s.nodes[i]
	a := t.agentOf(n)
	if a == nil {
		t.failNode(i, fail(codeCapability, "agent %q is not installed", n.agent.AgentID))
		return
	}
	c := &call{t, n, in, &t.s.begun.options}
	tools, p := c.surface(a)
	if p != nil {
		t.failNode(i, p)
		return
	}
	if s.loop == nil {
		t.emit(TypeAgentStarted, n.id, Trusted, agentStarted{
			InvocationID: s.invocation(n), AgentID: n.agent.AgentID, Source: "workflow-node", ModelClass: a.ModelClass,
			AgentVersion: a.Version, ToolSurfaceCount: len(tools),
		})
	}
	for t.err == nil && s.status == nodeActive {
		t.toolReturned(i)
		turns := cmp.Or(a.MaxTurns, DefaultAgentTurns)
		if most := cmp.Or(t.env.Caps.AgentTurns, DefaultAgentTurns); turns > most {
			turns = most
		}
		if asked, ok := wholeOf(n.config["maxTurns"]); ok && asked > 0 {
			turns = int(min(asked, int64(turns)))
		}
		tokens := int64(cmp.Or(t.env.Caps.AgentTokens, DefaultAgentTokens))
		if a.MaxTokens > 0 {
			tokens = min(tokens, int64(a.MaxTokens))
		}
		l := s.loop
		switch {
		case len(l.talk) >= turns:
			t.agentBreach(i, capBreached{"loop-iterations", int64(turns), int64(turns) + 1, n.id}, codeAgentTurns)
			return
		case l.tokens > tokens:
			t.agentBreach(i, capBreached{"budget-tokens", tokens, l.tokens, n.id}, codeAgentTokens)
			return
		case l.pending() == nil:
			t.do(i, agentTurn(c, a, tools, l, len(l.talk) == turns-1))
			return
		}
		if !t.callTool(i, l.pending(), tools) {
			return
		}
	}
}

// agentBreach ends a node that went past the ceiling of its loop.
func (t *turn) agentBreach(i int, b capBreached, code string) {
	t.emit(TypeCapBreached, b.NodeID, "", b)
	t.failNode(i, fail(code, "the agent went past its limit of %d", b.Limit))
}

// surface is what the agent may call here: its own tools, less those that the node's config.toolAllowlist leaves out.
func (c *call) surface(a *Agent) ([]AgentTool, *problem) {
	tools := slices.Clone(a.Tools)
	for i := range tools {
		tools[i].Name = cmp.Or(tools[i].Name, toolName(tools[i].Tool))
	}
	raw, ok := c.node.config["toolAllowlist"]
	if !ok {
		return tools, nil
	}
	var names []string
	if decode(raw, &names) != nil {
		return nil, fail(codeInvalidInput, "config.toolAllowlist must be an array of names")
	}
	return slices.DeleteFunc(tools, func(t AgentTool) bool { return !slices.Contains(names, t.Tool) && !slices.Contains(names, t.Name) }), nil
}

// toolName is a runner's tool under a name that every model's API takes.
func toolName(tool string) string {
	name := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			return c
		}
		return '_'
	}, tool)
	return name[:min(len(name), 64)]
}

// invocation identifies an agent's loop in its run. A node has one.
func (n *nodeState) invocation(of *node) string { return of.id }

// agentEnded takes the result of a step of the loop.
func (t *turn) agentEnded(i int, out *stepOutput, p *problem) bool {
	n, s := &t.s.wf.nodes[i], &t.s.nodes[i]
	if s.loop == nil { // a log that is not ours
		t.err = ErrStale
		return false
	}
	if s.loop.pending() != nil {
		t.toolEnded(i, out, p)
	} else {
		calls := callsOf(out)
		switch {
		case p != nil:
			t.failNode(i, p)
			return true
		case len(calls) == 0:
			t.agentDone(i, out)
			return true
		}
		if out.Text != "" {
			t.emit(TypeAgentReasoned, n.id, Untrusted, agentReasoned{n.agent.AgentID, clean(out.Text, 2000), "summary"})
		}
		t.emit(TypeAgentStep, n.id, Untrusted, agentStepEnded{n.id, t.s.stepID(i), out.doc})
	}
	if t.err == nil {
		t.agentResumes(i)
	}
	return true
}

// agentResumes goes on with the loop, with the node's inputs as they are.
func (t *turn) agentResumes(i int) {
	in, p := t.resolve(&t.s.wf.nodes[i])
	if p != nil {
		t.failNode(i, p)
		return
	}
	t.agentGoesOn(i, in)
}

// agentDone ends the loop with the model's answer.
func (t *turn) agentDone(i int, out *stepOutput) {
	n, s := &t.s.wf.nodes[i], &t.s.nodes[i]
	decision := mustEncode(struct {
		Action       string `json:"action"`
		FinishReason string `json:"finishReason,omitzero"`
		Turns        int    `json:"turns"`
	}{"answer", clean(out.FinishReason, 64), len(s.loop.talk) + 1})
	t.emit(TypeAgentDecided, n.id, Untrusted, agentDecided{n.agent.AgentID, decision, nil})
	outcome := agentCompletedOK
	if out.FinishReason == "content_filter" {
		outcome = agentRefused
	}
	t.closeAgent(i, outcome)
	t.completeStep(i, out)
}

// closeAgent closes what an agent's events opened, when its node ends: the call that is out, and the invocation.
func (t *turn) closeAgent(i int, outcome string) {
	n, s := &t.s.wf.nodes[i], &t.s.nodes[i]
	if s.loop == nil || !n.agentic() {
		return
	}
	if open := s.loop.open; open != nil {
		t.emitCaused(TypeToolReturned, n.id, Trusted, open.eventID, toolReturned{
			AgentID: n.agent.AgentID, ToolName: open.tool, CallID: open.id, Status: toolError, DurationMs: t.tookSince(open.at),
		})
	}
	t.emit(TypeAgentCompleted, n.id, Trusted, agentCompleted{s.invocation(n), n.agent.AgentID, outcome})
}

// tookSince is a duration that a replay does not know.
func (t *turn) tookSince(at time.Time) *int64 {
	if t.s.recording != nil {
		return nil
	}
	took := t.since(at)
	return &took
}
