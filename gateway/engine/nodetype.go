package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A nodeType is what a type id does. The functions are pure: they look at the call and say what should happen.
type nodeType struct {
	waits    phase                                    // what a node of this type waits for once it has started
	requires []string                                 // runtime capabilities (wire 11.2)
	where    func(*Env) bool                          // whether nodes of this type are there; nil: everywhere
	routes   bool                                     // an approval's decision chooses among the edges that leave a node of this type
	tool     func(*node) string                       // the tool that a node of this type calls; nil or empty: none
	start    func(*call) act                          // gives done, *problem, sleep, step, suspend or child
	wake     func(*call) act                          // after sleep
	resume   func(*call, *gate) act                   // after suspend
	outputs  func(*node, *stepOutput) json.RawMessage // of a step, as the node's
}

// An act is what a node type wants to happen. The types below are all there are.
type act interface{ act() }

// done ends the node with outputs.
type done []output

type output struct {
	name string
	value
}

// A problem fails the node. A fatal one fails the run whatever edges lead on.
type problem struct {
	nodeError
	untrusted bool
	fatal     bool
	outputs   json.RawMessage
}

// sleep waits for a timer.
type sleep time.Duration

// A step goes to a runner.
type step struct {
	kind, provider, model, tool string
	inputs                      json.RawMessage
}

func (done) act()     {}
func (*problem) act() {}
func (sleep) act()    {}
func (step) act()     {}

// hasEffect reports whether an act reaches beyond the run. A replay does none of these: it is told what came of them. To wait
// is no effect.
func hasEffect(a act) bool {
	switch a.(type) {
	case done, *problem, sleep:
		return false
	}
	return true
}

func fail(code, format string, args ...any) *problem {
	return &problem{nodeError: nodeError{Code: code, Message: fmt.Sprintf(format, args...)}}
}

// typeOf is the table of node types (wire 11.2). A type that is not in it fails its run.
func typeOf(id string) (nodeType, bool) {
	switch id {
	case "core.noop":
		return nodeType{start: noop}, true
	case "core.identity":
		return nodeType{start: identity}, true
	case "core.fail":
		return nodeType{start: failOn}, true
	case "core.delay":
		return nodeType{waits: phaseTimer, start: pause, wake: noop}, true
	case "runnerd.tool":
		return nodeType{waits: phaseQueued, tool: configuredTool, start: toolStep, outputs: wholeOutput}, true
	case typeMCP:
		return nodeType{waits: phaseQueued, tool: mcpTool, start: mcpStep, outputs: wholeOutput}, true
	case "core.openwop.http.fetch":
		return nodeType{waits: phaseQueued, tool: always(toolFetch), start: fetchStep, outputs: resultOutput}, true
	case "core.openwop.http.openapi-call":
		return nodeType{waits: phaseQueued, tool: always(toolOpenAPI), start: openapiStep, outputs: resultOutput}, true
	case "core.ai.callPrompt", "core.ai.generateFromPrompt", "core.ai.chatCompletion", "core.ai.structuredOutput", "core.ai.toolCalling":
		return modelType(), true
	case typeAgent:
		return nodeType{waits: phaseQueued, start: modelStep, resume: resumeAgent, outputs: modelOutputs}, true
	case "core.approvalGate":
		return nodeType{routes: true, start: approvalGate, resume: resumeGate}, true
	case "core.clarificationGate":
		return nodeType{start: clarificationGate, resume: resumeGate}, true
	case "core.interrupt":
		return nodeType{routes: true, start: interruptNode, resume: resumeGate}, true
	case typeSubWorkflow:
		return nodeType{waits: phaseChild, where: func(e *Env) bool { return e.Children }, start: subWorkflow}, true
	}
	if kind, ok := testType(id); ok {
		return kind, true
	}
	if strings.HasPrefix(id, "core.openwop.ai.") {
		return modelType(), true
	}
	return nodeType{}, false
}

func modelType() nodeType {
	return nodeType{waits: phaseQueued, tool: mcpTool, start: modelStep, resume: resumeAgent, outputs: modelOutputs}
}

const typeMCP = "core.openwop.mcp.invoke-tool"

func always(tool string) func(*node) string { return func(*node) string { return tool } }

// unmet names what a node needs and the host does not provide: its type, or a runtime capability that the type or the node's
// config requires (wire 11.2 and 4, capability_not_provided).
func (n *node) unmet(t *turn) *problem {
	env := &t.env

	kind, ok := typeOf(n.typeID)
	ok = ok && (kind.where == nil || kind.where(env))
	missing, what := n.typeID, "type"
	if ok {
		var asked []string
		_ = decode(n.config["requires"], &asked) // what is not a list of names requires nothing
		missing, what = "", "runtime capability"
		for _, id := range slices.Concat(kind.requires, asked) {
			if !slices.Contains(env.Provides, id) {
				missing = id
				break
			}
		}
	}
	if missing == "" && n.agentic() && t.s.recording == nil && t.agentOf(n) == nil {
		missing, what = n.agent.AgentID, "agent"
	}
	if missing == "" {
		return nil
	}
	p := fail(codeCapability, "node %q needs %s %q, which this host does not provide", n.id, what, missing)
	p.Details = mustEncode(map[string]string{"requiredCapability": missing, "offendingTypeId": n.typeID, "nodeId": n.id})
	p.fatal = true
	return p
}

func noop(*call) act { return done(nil) }

// identity puts its inputs out unchanged, trust included.
func identity(c *call) act {
	var out done
	for _, name := range c.ports() {
		out = append(out, output{name, c.in[name]})
	}
	return out
}

// failOn fails as its config says.
func failOn(c *call) act {
	code, _ := textOf(c.node.config["code"])
	message, _ := textOf(c.node.config["message"])
	if !snakeCase(code) {
		code = codeNodeFailed
	}
	if message == "" {
		message = "the workflow asked this node to fail"
	}
	return fail(code, "%s", message)
}

// maxDelay is the longest that core.delay waits.
const maxDelay = time.Minute

// pause waits inputs.delayMs, else config.delayMs. The protocol's table says 1 to 60000 and its fixture 0 to 30000, so 0 is
// taken too, and ends at once.
func pause(c *call) act {
	v, _, ok := c.pick("delayMs")
	ms, whole := wholeOf(v.raw)
	switch {
	case !ok:
		return fail(codeInvalidInput, "input %q is required", "delayMs")
	case !whole || ms < 0 || ms > maxDelay.Milliseconds():
		return fail(codeInvalidInput, "input %q must be an integer from 1 to %d", "delayMs", maxDelay.Milliseconds())
	case ms == 0:
		return done(nil)
	}
	return sleep(time.Duration(ms) * time.Millisecond)
}

func snakeCase(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && c != '_' && (c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}
