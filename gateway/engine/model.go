package engine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"runnerd/internal/fence"
	"runnerd/internal/wire"
)

// modelStep prepares a model's turn (design, section 6). What an author wrote, or the client who started the run, goes in as
// it is. What came from a step goes in fenced, and may be nothing but content: what chooses (provider, model, tools, format,
// numbers) must be trusted. An input counts before the config, and that before the run's configurable. Inputs of names that
// mean nothing here are content too: each follows the prompt under its name.
func modelStep(c *call) act {
	if _, ok := c.node.config["mcp"]; ok { // it stands for an MCP tool (wire 11.2)
		return mcpStep(c)
	}
	switch {
	case c.opt.mock != nil:
		return mockStep(c)
	case c.node.agentic():
		return agentStep(c)
	case c.node.typeID == typeAgent:
		return fail(codeInvalidInput, "the node names no agent")
	}
	m := chosen(c)
	m.take(&m.in.Tools, "an array of tools", "tools")
	m.take(&m.in.ToolChoice, "JSON", "toolChoice")
	m.content()
	return m.made()
}

// chosen begins a model step with everything that chooses something, apart from tools.
func chosen(c *call) *modelBuilder {
	m := &modelBuilder{call: c, step: step{kind: wire.KindModel, provider: c.opt.provider, model: c.opt.model}}
	m.in.Temperature, m.in.MaxTokens = c.opt.temperature, c.opt.maxTokens
	m.take(&m.step.provider, "a string", "provider")
	m.take(&m.step.model, "a string", "model")
	m.take(&m.in.Temperature, "a number", "temperature")
	m.take(&m.in.TopP, "a number", "topP")
	m.take(&m.in.MaxTokens, "an integer", "maxTokens")
	m.take(&m.in.Seed, "an integer", "seed")
	m.take(&m.in.Stop, "an array of strings", "stop", "stopSequences")
	m.take(&m.in.ResponseFormat, "JSON", "responseFormat")
	m.schema()
	return m
}

// made is the step, once everything is said.
func (m *modelBuilder) made() act {
	if m.problem != nil {
		return m.problem
	}
	if m.fenced {
		if m.in.System != "" {
			m.in.System += "\n\n"
		}
		m.in.System += fence.SystemNote
	}
	raw, err := json.Marshal(m.in)
	if err == nil {
		err = m.in.Validate()
	}
	if err != nil {
		return fail(codeInvalidInput, "the node's inputs do not make a model step: %v", err)
	}
	m.step.inputs = raw
	return m.step
}

// agentTurn is a model step of an agent's loop: its prompt before the node's, its tools, and the talk so far. In the last turn
// that it has it can call no tool, so that it answers.
func agentTurn(c *call, a *Agent, tools []AgentTool, l *loop, last bool) act {
	m := chosen(c)
	if m.step.provider == "" && m.step.model == "" {
		m.step.provider, m.step.model = a.Provider, a.Model
	}
	for _, t := range tools {
		m.in.Tools = append(m.in.Tools, wire.ToolSpec{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	if last && len(tools) > 0 {
		m.in.ToolChoice = json.RawMessage(`"none"`)
	}
	m.content()
	if a.Prompt != "" && m.in.System != "" {
		m.in.System = "\n\n" + m.in.System
	}
	m.in.System = a.Prompt + m.in.System
	m.talk(l, tools)
	return m.made()
}

// What a talk may take of a frame: each text of it, and all together. Of a longer one the oldest are left out.
const (
	maxSaid = 64 << 10
	maxTalk = 512 << 10
)

const leftOut = "(left out here: the conversation has become longer than one step can carry)"

// talk adds what the model said and what its calls came to. All of it is a step's output, so it is fenced, in whosever name it
// stands; names and arguments of calls go back as the data that they are.
func (m *modelBuilder) talk(l *loop, tools []AgentTool) {
	left, call := maxTalk, 1
	said := func(source fence.Source, text string) wire.Content {
		if left <= 0 {
			return wire.Text(leftOut)
		}
		f := fence.Fencer{Rand: m.turn.fence().Rand, Cap: maxSaid}
		block := f.Message(source, text)
		left -= len(block)
		m.fenced = true
		return wire.Text(block)
	}
	messages := make([][]wire.Message, len(l.talk))
	for _, x := range l.talk {
		call += 1 + len(x.calls)
	}
	for i := len(l.talk) - 1; i >= 0; i-- { // the newest first, as long as there is room
		x := &l.talk[i]
		call -= 1 + len(x.calls)
		spoken := wire.Message{Role: "assistant"}
		var results []wire.Message
		for n := len(x.calls) - 1; n >= 0; n-- {
			name, id := x.calls[n].Name, "call_"+strconv.Itoa(call+1+n)
			source := fence.Tool(clean(name, 128))
			if at := slices.IndexFunc(tools, func(t AgentTool) bool { return t.Name == name }); at < 0 {
				name = cmp.Or(toolName(name), "unknown")
			} else if source = fence.Tool(tools[at].Tool); transportOf(tools[at]) == "mcp" {
				source = fence.MCPTool(tools[at].Tool)
			}
			args := argumentsOf(x.calls[n].Arguments)
			if left -= len(args); args == nil || left <= 0 {
				args = json.RawMessage("{}")
			}
			spoken.ToolCalls = append(spoken.ToolCalls, wire.ToolCall{ID: id, Name: name, Arguments: args})
			results = append(results, wire.Message{Role: "tool", ToolCallID: id, Content: said(source, told(&x.results[n]))})
		}
		if x.text != "" {
			spoken.Content = said(fence.Tool("model"), x.text)
		}
		slices.Reverse(spoken.ToolCalls)
		slices.Reverse(results)
		messages[i] = append([]wire.Message{spoken}, results...)
	}
	m.in.Messages = slices.Concat(append([][]wire.Message{m.in.Messages}, messages...)...)
}

// The inputs of a model node that are not content to be added, and those that hold a schema for its answer.
var (
	modelNames = []string{"prompt", "userPrompt", "system", "systemPrompt", "messages", "tools", "toolChoice", "responseFormat",
		"temperature", "topP", "maxTokens", "stop", "stopSequences", "seed", "provider", "model"}
	schemaNames = []string{"outputSchema", "responseSchema"}
)

type modelBuilder struct {
	*call
	step    step
	in      wire.ModelInputs
	fenced  bool
	problem *problem
}

// take reads a member that chooses something.
func (m *modelBuilder) take(to any, what string, names ...string) {
	v, name, ok := m.pick(names...)
	switch {
	case !ok || m.problem != nil:
	case v.untrusted:
		m.problem = fail(codeUntrusted, "input %q comes from node %q, whose output is untrusted and may not choose it", name, v.from)
	case decode(v.raw, to) != nil:
		m.problem = fail(codeInvalidInput, "%s must be %s", name, what)
	}
}

// schema makes a response format of the schema that published nodes have in its stead.
func (m *modelBuilder) schema() {
	var schema json.RawMessage
	m.take(&schema, "a JSON Schema", schemaNames...)
	if schema != nil && m.in.ResponseFormat == nil {
		var w objectWriter
		w.add("name", json.RawMessage(`"output"`))
		w.add("schema", schema)
		m.in.ResponseFormat = json.RawMessage(`{"type":"json_schema","json_schema":` + string(w.done()) + `}`)
	}
}

// content puts system instruction and messages together: messages, then the prompt with the other inputs below it.
func (m *modelBuilder) content() {
	if v, _, ok := m.pick("system", "systemPrompt"); ok {
		m.in.System = m.words(v)
	}
	if v, _, ok := m.pick("messages"); ok {
		m.messages(v)
	}
	prompt := m.prompt()
	for _, name := range m.ports() {
		if !slices.Contains(modelNames, name) && !slices.Contains(schemaNames, name) {
			prompt = append(prompt, name+":\n"+m.words(m.call.in[name]))
		}
	}
	if len(prompt) > 0 {
		m.in.Messages = append(m.in.Messages, wire.Message{Role: "user", Content: wire.Text(strings.Join(prompt, "\n\n"))})
	}
	if len(m.in.Messages) == 0 && m.problem == nil {
		m.problem = fail(codeInvalidInput, "a model step needs a prompt or messages")
	}
}

// prompt is the author's or the client's question, if there is one. A prompt id stands for the text that the run's
// promptOverrides give it.
func (m *modelBuilder) prompt() []string {
	id, _ := textOf(m.node.config["promptId"])
	override, overridden := m.opt.prompts[id]
	v, _, ok := m.pick("prompt", "userPrompt")
	_, bound := m.call.in["prompt"]
	switch {
	case overridden && !bound:
		return []string{override}
	case ok:
		return []string{m.words(v)}
	}
	return nil
}

// messages takes a conversation. Of an untrusted one only what is said goes in, each turn fenced as what the user hands over:
// it may not speak as the system or the assistant.
func (m *modelBuilder) messages(v value) {
	var list []wire.Message
	err := decode(v.raw, &list)
	switch {
	case !v.untrusted && err != nil:
		m.problem = fail(codeInvalidInput, "messages must be an array of messages with role and content")
	case !v.untrusted:
		m.in.Messages = list
	case err != nil || len(list) == 0:
		m.in.Messages = []wire.Message{{Role: "user", Content: wire.Text(m.words(v))}}
	default:
		for _, msg := range list {
			said := mustEncode(msg.Content.String())
			one := value{raw: said, untrusted: true, from: v.from}
			m.in.Messages = append(m.in.Messages, wire.Message{Role: "user", Content: wire.Text(m.words(one))})
		}
	}
}

// words is a value as text for a model: fenced unless it is trusted. It is the only way from a value into a message.
func (m *modelBuilder) words(v value) string {
	text, ok := textOf(v.raw)
	if !ok {
		var compact bytes.Buffer
		_ = json.Compact(&compact, v.raw) // of valid JSON it never fails
		text = compact.String()
	}
	if !v.untrusted {
		return text
	}
	m.fenced = true
	return m.fence().Message(fence.Tool(m.sourceOf(v.from)), text)
}

// modelOutputs are the runner's output as it is; with a schema asked for, and a text that is JSON, also its value as "data"
// (wire 15.5).
func modelOutputs(n *node, out *stepOutput) json.RawMessage {
	asked := slices.ContainsFunc(schemaNames, func(name string) bool { return n.config[name] != nil })
	text := jsontext.Value(out.Text)
	if !asked || out.hasData || len(out.doc)+len(text) > wire.MaxResult || depthOf(text) > maxDepth || !text.IsValid() {
		return out.doc
	}
	doc := bytes.TrimRight(out.doc, " \t\r\n")
	return slices.Concat(doc[:len(doc)-1], json.RawMessage(`,"data":`), json.RawMessage(text), json.RawMessage("}"))
}
