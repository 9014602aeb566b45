package engine

import (
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// A perform is an act of our own that is an effect all the same: a replay does not do it again.
type perform func(t *turn, i int)

func (perform) act() {}

// The protocol's types for tests (wire 11.2). They are there only where Env.TestTypes says so.
const (
	typeHold       = "core.conformance.hold"
	typeSideEffect = "core.conformance.side-effect"
	typeMockAgent  = "core.conformance.mock-agent"
	typeMissing    = "conformance.requiresMissing"
)

func testType(id string) (nodeType, bool) {
	kind := nodeType{where: func(e *Env) bool { return e.TestTypes }}
	switch id {
	case typeHold:
		kind.waits, kind.start, kind.wake = phaseTimer, pause, noop
	case typeSideEffect:
		kind.start = sideEffect
	case typeMockAgent:
		kind.start = mockAgent
	case typeMissing:
		kind.requires, kind.start = []string{"conformance.never-provided"}, noop
	default:
		return nodeType{}, false
	}
	return kind, true
}

// sideEffect records that it ran, and does nothing else that anybody could notice.
func sideEffect(*call) act {
	return perform(func(t *turn, i int) {
		t.completeWith(i, done{{"ran", value{raw: json.RawMessage("true")}}})
	})
}

// mockAgent writes the events of an agent that its config describes.
func mockAgent(c *call) act {
	var config struct {
		Reasoning struct {
			Summary string `json:"summary"`
		} `json:"mockReasoning"`
		Tools []struct {
			ToolID     string          `json:"toolId"`
			Arguments  json.RawMessage `json:"arguments"`
			Result     json.RawMessage `json:"result"`
			DurationMs int64           `json:"durationMs"`
		} `json:"mockToolCalls"`
		Handoff struct {
			To     string `json:"toAgentId"`
			Reason string `json:"reason"`
		} `json:"mockHandoff"`
		Decision struct {
			Decision   json.RawMessage `json:"decision"`
			Confidence *float64        `json:"confidence"`
		} `json:"mockDecision"`
	}
	if err := decode(mustEncode(c.node.config), &config); err != nil {
		return fail(codeInvalidInput, "the config of a mock agent cannot be read: %v", err)
	}
	agent := typeMockAgent
	if c.node.agent != nil {
		agent = c.node.agent.AgentID
	}
	if f := config.Decision.Confidence; f != nil && (*f < 0 || *f > 1) || config.Handoff.To != "" && len(config.Handoff.To) < minAgentID {
		return fail(codeInvalidInput, "the config of a mock agent is out of range")
	}
	return perform(func(t *turn, i int) {
		id := t.s.wf.nodes[i].id
		tell := func(typ string, payload any) { t.emit(typ, id, Trusted, payload) }
		if config.Reasoning.Summary != "" {
			tell(TypeAgentReasoned, agentReasoned{agent, config.Reasoning.Summary, "summary"})
		}
		for n, call := range config.Tools {
			if call.ToolID == "" {
				continue
			}
			callID := id + ":" + strconv.Itoa(n+1)
			tell(TypeToolCalled, toolCalled{AgentID: agent, ToolName: call.ToolID, CallID: callID, ArgsHash: argsHash(call.Arguments), Principal: agent, Transport: "native"})
			took := max(call.DurationMs, 0)
			t.emitCaused(TypeToolReturned, id, Trusted, eventID(t.s.runID, t.s.seq), toolReturned{AgentID: agent, ToolName: call.ToolID, CallID: callID, Status: toolOK, DurationMs: &took})
		}
		if config.Handoff.To != "" {
			tell(TypeAgentHandoff, agentHandoff{agent, config.Handoff.To, config.Handoff.Reason})
		}
		if jsontext.Value(config.Decision.Decision).IsValid() {
			tell(TypeAgentDecided, agentDecided{agent, config.Decision.Decision, config.Decision.Confidence})
		}
		t.completeWith(i, nil)
	})
}
