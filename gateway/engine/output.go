package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"runnerd/internal/wire"
)

// A stepOutput is what a runner returned: the document, and what of it the engine looks at.
type stepOutput struct {
	doc json.RawMessage
	wire.Output
	hasData bool
}

// readOutput tells a result from a failure. A runner that is not ours may send any members: those of another type than ours
// are as if they were absent. The output comes back also beside a problem, with what is known all the same.
func readOutput(doc json.RawMessage) (*stepOutput, *problem) {
	out := &stepOutput{doc: doc}
	if len(doc) > wire.MaxResult {
		return out, untrustedProblem(string(wire.CodeResultTooLarge), fmt.Sprintf("the result has %d bytes", len(doc)))
	}
	if depthOf(doc) > wire.MaxDepth {
		return out, untrustedProblem(string(wire.CodeProviderError), "the result is nested too deep")
	}
	var all map[string]json.RawMessage
	if jsontext.Value(doc).Kind() != '{' || decode(doc, &all) != nil {
		return out, untrustedProblem(string(wire.CodeProviderError), "the runner returned something that is not an object")
	}
	out.read(all)
	if _, ok := all["error"]; !ok {
		return out, nil
	}
	e := wire.Failure(doc)
	if e == nil {
		return out, nil
	}
	p := untrustedProblem(string(e.Code), clean(e.Message, 4000))
	p.Retryable = e.Retriable
	switch {
	case e.Code == wire.CodeOutcomeUnknown: // the runner's own word for a lost step (design, section 5)
		p.nodeError = unavailable(clean(e.Message, 4000), OutcomeUnknown)
	case !e.Code.Known():
		p.Code = string(wire.CodeProviderError)
	}
	if p.Details == nil {
		p.Details = failureDetails(e)
	}
	if delete(all, "error"); len(all) > 0 {
		p.outputs = mustEncode(all)
	}
	return out, p
}

// read takes the members that the engine uses, each on its own, so that one of a strange type does not hide the others.
func (o *stepOutput) read(all map[string]json.RawMessage) {
	for name, to := range map[string]any{
		"text": &o.Text, "finishReason": &o.FinishReason, "model": &o.Model, "result": &o.Result, "toolCalls": &o.ToolCalls,
	} {
		if raw, ok := all[name]; ok {
			_ = decode(raw, to)
		}
	}
	if u := all["usage"]; decode(u, &o.Usage) != nil {
		o.Usage = nil
	}
	_, o.hasData = all["data"]
}

func untrustedProblem(code, message string) *problem {
	p := fail(code, "%s", message)
	p.untrusted = true
	return p
}

// failureDetails keeps what else a runner said about a failure, as far as it is small.
func failureDetails(e *wire.StepError) json.RawMessage {
	const most = 16 << 10
	details := struct {
		RetryAfterMs int64           `json:"retryAfterMs,omitzero"`
		Detail       json.RawMessage `json:"detail,omitzero"`
	}{RetryAfterMs: max(e.RetryAfterMs, 0)}
	if len(e.Detail) <= most {
		details.Detail = e.Detail
	}
	if details.RetryAfterMs == 0 && details.Detail == nil {
		return nil
	}
	return mustEncode(details)
}

// clean makes a runner's words fit to be shown in one line of a log: valid, without control characters, at most n bytes.
func clean(s string, n int) string {
	s = strings.Map(func(c rune) rune {
		if c < 0x20 && c != '\n' && c != '\t' || c >= 0x7f && c < 0xa0 {
			return -1
		}
		return c
	}, strings.ToValidUTF8(s, "\uFFFD"))
	for len(s) > n || !utf8.ValidString(s) {
		s = s[:min(len(s)-1, n)]
	}
	if s == "" {
		return "no message"
	}
	return s
}

// hide masks outputs that no event may show, and says which.
func hide(doc json.RawMessage, hidden map[string]bool) (json.RawMessage, map[string]string) {
	if len(hidden) == 0 {
		return doc, nil
	}
	all, err := members(doc)
	var lost map[string]string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if hidden[name] && err == nil {
			if lost == nil {
				lost = map[string]string{}
			}
			all[name], lost[name] = json.RawMessage(masked), ""
		}
	}
	if lost != nil {
		doc = mustEncode(all)
	}
	return doc, lost
}

// lastChunk closes a step's stream: with what of the text has not gone out, when the text continues what has. A model step
// always has one, so that who follows only the messages sees its text, and its end, whatever the runner streamed.
func (t *turn) lastChunk(i int, out *stepOutput, failed bool) {
	n, s := &t.s.wf.nodes[i], &t.s.nodes[i].stream
	if n.hidden["text"] || s.chunks == 0 && (failed || !n.model()) {
		return
	}
	c := outputChunk{NodeID: n.id, RunID: t.s.runID, IsLast: true}
	if !failed {
		c.Chunk = s.rest(out.Text)
		meta := &chunkMeta{Model: nameOf(out.Model)}
		switch out.FinishReason {
		case "stop", "length", "tool_calls", "content_filter":
			meta.FinishReason = out.FinishReason
		}
		if u := out.Usage; counts(u) {
			meta.Usage = &chunkUsage{u.InputTokens, u.OutputTokens, u.InputTokens + u.OutputTokens}
		}
		if *meta != (chunkMeta{}) {
			c.Meta = meta
		}
	}
	t.emit(TypeOutputChunk, n.id, Untrusted, c)
}

// usage records what a model step used, also when it failed: it may have cost money all the same.
func (t *turn) usage(i int, out *stepOutput, used UsedFor) {
	n, u := &t.s.wf.nodes[i], out.Usage
	model := cmp.Or(used.Model, nameOf(out.Model))
	if !counts(u) || used.Provider == "" || model == "" {
		return
	}
	t.emit(TypeProviderUsage, n.id, Untrusted, providerUsage{
		Provider: used.Provider, Model: model, InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		TotalTokens: u.InputTokens + u.OutputTokens, CacheReadTokens: max(u.CachedTokens, 0), CostEstimateUSD: max(u.CostUSD, 0), NodeID: n.id,
	})
}

// counts reports whether a runner's usage can be one.
func counts(u *wire.Usage) bool {
	const most = 1 << 40
	return u != nil && u.InputTokens >= 0 && u.OutputTokens >= 0 && u.InputTokens < most && u.OutputTokens < most
}

// nameOf is a runner's name for a model, if it can be one.
func nameOf(s string) string {
	if utf8.RuneCountInString(s) > wire.MaxID || s != clean(s, len(s)) {
		return ""
	}
	return s
}
