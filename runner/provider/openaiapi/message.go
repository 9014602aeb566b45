package openaiapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"runnerd/internal/wire"
	"runnerd/runner/provider"
)

type object = map[string]any

// request is the body of a chat completion for a step.
func request(step provider.Step) object {
	in := step.Inputs
	messages := []object{}
	if in.System != "" {
		messages = append(messages, object{"role": "system", "content": in.System})
	}
	for _, m := range in.Messages {
		messages = append(messages, turn(m))
	}
	r := object{"messages": messages, "stream": true, "stream_options": object{"include_usage": true}}
	if step.Model != "" {
		r["model"] = step.Model
	}
	if len(in.Tools) > 0 {
		tools := []object{}
		for _, t := range in.Tools {
			params := t.Parameters
			if len(params) == 0 {
				params = json.RawMessage(`{"type":"object"}`)
			}
			tools = append(tools, object{"type": "function", "function": object{"name": t.Name, "description": t.Description, "parameters": params}})
		}
		r["tools"] = tools
	}
	for name, raw := range map[string]json.RawMessage{"tool_choice": in.ToolChoice, "response_format": in.ResponseFormat} {
		if len(raw) > 0 {
			r[name] = raw
		}
	}
	if in.Temperature != nil {
		r["temperature"] = *in.Temperature
	}
	if in.TopP != nil {
		r["top_p"] = *in.TopP
	}
	if in.MaxTokens > 0 {
		r["max_tokens"] = in.MaxTokens
	}
	if len(in.Stop) > 0 {
		r["stop"] = in.Stop
	}
	if in.Seed != nil {
		r["seed"] = *in.Seed
	}
	return r
}

func turn(m wire.Message) object {
	o := object{"role": m.Role, "content": content(m.Content)}
	if m.ToolCallID != "" {
		o["tool_call_id"] = m.ToolCallID
	}
	if len(m.ToolCalls) > 0 {
		calls := []object{}
		for _, c := range m.ToolCalls {
			calls = append(calls, object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": string(c.Arguments)}})
		}
		o["tool_calls"] = calls
	}
	return o
}

// content is a string where it can be: small servers know no parts.
func content(c wire.Content) any {
	parts := []object{}
	for _, p := range c {
		if p.Type == "image" {
			parts = append(parts, object{"type": "image_url", "image_url": object{"url": "data:" + p.MimeType + ";base64," + p.Data}})
			continue
		}
		parts = append(parts, object{"type": "text", "text": p.Text})
	}
	for _, p := range parts {
		if p["type"] != "text" {
			return parts
		}
	}
	return c.String()
}

type chunk struct {
	Model   string
	Error   json.RawMessage
	Choices []struct {
		Delta struct {
			Content   string
			ToolCalls []struct {
				Index    int
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Finish string `json:"finish_reason"`
	}
	Usage *struct {
		In  int64 `json:"prompt_tokens"`
		Out int64 `json:"completion_tokens"`
	}
}

// Probe lists the endpoint's models.
func (b Backend) Probe(ctx context.Context) provider.Status {
	s := provider.Status{AuthClass: b.class(), Models: b.Models}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var out wire.Output
	res, e := b.do(ctx, http.MethodGet, "/models", nil, &out)
	if out.AuthClass != "" {
		s.AuthClass = out.AuthClass
	}
	if e != nil {
		s.State, s.Remedy = provider.Unreachable, fmt.Sprintf("start the server at %s, or correct its address: %s", b.BaseURL, e.Message)
		return s
	}
	defer func() { _ = res.Body.Close() }() // only its beginning counts
	var list struct{ Data []struct{ ID string } }
	switch {
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		s.State, s.Remedy = provider.NeedsKey, "store its key with `runnerd credential set NAME`"
		return s
	case res.StatusCode == http.StatusNotFound && len(b.Models) > 0: // it lists none, and the owner named some
	case res.StatusCode != http.StatusOK:
		s.State, s.Remedy = provider.Broken, fmt.Sprintf("%s answers %d to the list of models", b.BaseURL, res.StatusCode)
		return s
	default:
		if err := json.NewDecoder(io.LimitReader(res.Body, 4<<20)).Decode(&list); err != nil {
			s.State, s.Remedy = provider.Broken, b.BaseURL+" does not answer as an OpenAI-compatible server: check that the address ends in /v1"
			return s
		}
	}
	if len(s.Models) == 0 {
		for _, m := range list.Data[:min(len(list.Data), wire.MaxProviders)] {
			s.Models = append(s.Models, m.ID)
		}
	}
	s.Ready, s.State = true, provider.Ready
	return s
}
