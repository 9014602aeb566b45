package engine

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"runnerd/internal/wire"
)

// The bounds of a mock provider's stream (wire 5.5).
const (
	maxMockTokens = 2000
	maxMockDelay  = 5000 // ms
	maxMockText   = 256 << 10
)

const mockStreamText = "stream-text"

// MockProviders are the ids that configurable mockProvider.id may have (wire 2.1 testing).
func MockProviders() []string { return []string{mockStreamText} }

// MockProvider is the mockProvider.id of a configurable, empty if it asks for none: who may ask, and for which, is for the
// caller to say before CheckCreate.
func MockProvider(configurable json.RawMessage) string {
	var c struct {
		Mock struct {
			ID string `json:"id"`
		} `json:"mockProvider"`
	}
	if decode(configurable, &c) != nil {
		return ""
	}
	return c.Mock.ID
}

// A mock is a model that says what it is told.
type mock struct {
	tokens []string
	delay  time.Duration
	finish string
	model  string
	usage  json.RawMessage
}

// readMock takes mockProvider; nil when there is none.
func readMock(c object) *mock {
	if !c.has(keyMock) {
		return nil
	}
	o := c.child(keyMock)
	o.required("id")
	o.closed("id", "config")
	if id := o.text("id", 1, wire.MaxID); id != "" && !slices.Contains(MockProviders(), id) {
		o.fail(o.at("id"), "must be one of %s", strings.Join(MockProviders(), ", "))
	}
	config := o.child("config")
	config.closed("tokens", "delayMsPerToken", "finishReason", "usage", "model")
	m := mock{tokens: []string{"ok"}, delay: time.Duration(config.whole("delayMsPerToken", 0, maxMockDelay)) * time.Millisecond}
	m.finish = config.choice("finishReason", "stop", "length", "tool_calls", "content_filter")
	m.model = config.text("model", 1, wire.MaxID)
	if config.has("tokens") {
		m.tokens = []string{}
		size := 0
		for i, raw := range config.list("tokens") {
			token, ok := textOf(raw)
			if !ok {
				config.fail(config.at("tokens")+"["+strconv.Itoa(i)+"]", "must be a string")
			}
			size += len(token)
			m.tokens = append(m.tokens, token)
		}
		if len(m.tokens) > maxMockTokens || size > maxMockText {
			config.fail(config.at("tokens"), "must hold at most %d tokens with %d bytes", maxMockTokens, maxMockText)
		}
	}
	usage := config.child("usage")
	for _, name := range []string{"promptTokens", "completionTokens", "totalTokens"} {
		usage.whole(name, 0, 1<<40)
	}
	if m.usage = json.RawMessage(config.members["usage"]); m.usage == nil {
		n := int64(len(m.tokens))
		m.usage = mustEncode(chunkUsage{0, n, n})
	}
	return &m
}

// mockStep answers a model's turn by the run's mock provider.
func mockStep(c *call) act {
	if !c.env.Mock {
		return fail(codeMock, "this host has no mock providers")
	}
	return perform(func(t *turn, i int) {
		if t.s.begun.options.mock.delay > 0 {
			t.effect(SetTimer{t.nodeTimer(delayTimer, i), t.s.begun.options.mock.delay})
			return
		}
		for t.err == nil && t.s.nodes[i].status == nodeActive {
			t.mockToken(i)
		}
	})
}

// mocked reports whether the node's turn is a mock's.
func (s *State) mocked(i int) bool { return s.begun.options.mock != nil && s.wf.nodes[i].model() }

// waits is what a node waits for once it has started.
func (s *State) waits(i int) phase {
	if s.mocked(i) {
		return phaseTimer
	}
	kind, _ := typeOf(s.wf.nodes[i].typeID)
	return kind.waits
}

// mockToken says the next token: one chunk each, and the node's end with the last. How many there were is in the log.
func (t *turn) mockToken(i int) {
	n, m := &t.s.wf.nodes[i], t.s.begun.options.mock
	next := t.s.nodes[i].stream.chunks
	last := next >= len(m.tokens)-1
	if !n.hidden["text"] {
		c := outputChunk{NodeID: n.id, RunID: t.s.runID, IsLast: last}
		if next < len(m.tokens) {
			c.Chunk = m.tokens[next]
		}
		if last {
			c.Meta = &mockMeta{m.finish, m.model, m.usage}
		}
		t.emit(TypeOutputChunk, n.id, Untrusted, c)
	}
	t.began = true
	if !last && !n.hidden["text"] {
		if m.delay > 0 {
			t.effect(SetTimer{t.nodeTimer(delayTimer, i), m.delay})
		}
		return
	}
	doc := mustEncode(struct {
		Text         string          `json:"text"`
		FinishReason string          `json:"finishReason"`
		Model        string          `json:"model,omitzero"`
		Usage        json.RawMessage `json:"usage"`
		Backend      string          `json:"backend"`
	}{strings.Join(m.tokens, ""), m.finish, m.model, m.usage, "mock"})
	out, p := readOutput(doc)
	if p != nil {
		t.failNode(i, p)
		return
	}
	t.completeStep(i, out)
}
