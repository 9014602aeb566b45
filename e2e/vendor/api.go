package vendor

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

type conversation struct {
	Model    string
	Stream   bool
	Messages []struct {
		Role    string
		Content json.RawMessage
	}
	Input json.RawMessage // of the responses API
}

func read(w http.ResponseWriter, r *http.Request) (conversation, []byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 32<<20))
	var c conversation
	if err != nil || json.Unmarshal(body, &c) != nil {
		http.Error(w, `{"error":{"type":"invalid_request_error","message":"unreadable body"}}`, http.StatusBadRequest)
		return c, nil, false
	}
	return c, body, true
}

func (c conversation) prompt() string {
	p := ""
	for _, m := range c.Messages {
		if m.Role == "user" {
			p = text(m.Content)
		}
	}
	return p
}

// failure is each vendor's own wording, which the runner's classes are read from.
func failure(w http.ResponseWriter, status int) {
	kind, message := "api_error", "Internal server error"
	switch status {
	case 401:
		kind, message = "authentication_error", "invalid x-api-key"
	case 403:
		kind, message = "permission_error", "Your API key does not have permission to use the specified resource."
	case 429:
		kind, message = "rate_limit_error", "This request would exceed your account's rate limit. Please try again later."
		w.Header().Set("Retry-After", "7")
	case 402:
		kind, message = "billing_error", "Your credit balance is too low to access the API. Please go to Plans & Billing to upgrade or purchase credits."
	case 529:
		kind, message = "overloaded_error", "Overloaded"
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Should-Retry", "false")
	w.WriteHeader(status)
	b, _ := json.Marshal(object{"type": "error", "error": object{"type": kind, "code": kind, "message": message}})
	_, _ = w.Write(b)
}

func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	c, body, ok := read(w, r)
	if !ok {
		return
	}
	sc := s.take(r, c.prompt(), body)
	if sc.fail != 0 {
		failure(w, sc.fail)
		return
	}
	usage := object{"input_tokens": 11, "output_tokens": 1}
	message := object{"id": "msg_1", "type": "message", "role": "assistant", "model": c.Model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage}
	if !c.Stream {
		message["content"] = []any{object{"type": "text", "text": strings.Join(sc.words, "")}}
		message["stop_reason"] = "end_turn"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(message)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	sse(w, "message_start", object{"type": "message_start", "message": message})
	sse(w, "content_block_start", object{"type": "content_block_start", "index": 0, "content_block": object{"type": "text", "text": ""}})
	whole := s.stream(w, r, sc, func(word string) {
		sse(w, "content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": object{"type": "text_delta", "text": word}})
	})
	if whole {
		sse(w, "content_block_stop", object{"type": "content_block_stop", "index": 0})
		sse(w, "message_delta", object{"type": "message_delta", "delta": object{"stop_reason": "end_turn", "stop_sequence": nil}, "usage": object{"output_tokens": len(sc.words)}})
		sse(w, "message_stop", object{"type": "message_stop"})
	}
}

func (s *Server) responses(w http.ResponseWriter, r *http.Request) {
	c, body, ok := read(w, r)
	if !ok {
		return
	}
	prompt := text(c.Input)
	var items []struct {
		Type, Role string
		Content    json.RawMessage
	}
	if json.Unmarshal(c.Input, &items) == nil {
		for _, it := range items {
			if it.Role == "user" {
				if t := text(it.Content); strings.TrimSpace(t) != "" {
					prompt = t
				}
			}
		}
	}
	sc := s.take(r, prompt, body)
	if sc.fail != 0 {
		failure(w, sc.fail)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	sse(w, "response.created", object{"type": "response.created", "response": object{"id": "resp_1"}})
	item := func(status, text string) object {
		return object{"type": "message", "id": "msg_1", "status": status, "role": "assistant", "content": []any{object{"type": "output_text", "text": text, "annotations": []any{}}}}
	}
	sse(w, "response.output_item.added", object{"type": "response.output_item.added", "output_index": 0, "item": item("in_progress", "")})
	whole := s.stream(w, r, sc, func(word string) {
		sse(w, "response.output_text.delta", object{"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": word})
	})
	if whole {
		sse(w, "response.output_item.done", object{"type": "response.output_item.done", "output_index": 0, "item": item("completed", strings.Join(sc.words, ""))})
		sse(w, "response.completed", object{"type": "response.completed", "response": object{"id": "resp_1", "usage": object{
			"input_tokens": 11, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": len(sc.words),
			"output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 11 + len(sc.words)}}})
	}
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	c, body, ok := read(w, r)
	if !ok {
		return
	}
	sc := s.take(r, c.prompt(), body)
	if sc.fail != 0 {
		failure(w, sc.fail)
		return
	}
	chunk := func(delta object, finish any) object {
		return object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": c.Model, "choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}}}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	whole := s.stream(w, r, sc, func(word string) { sse(w, "", chunk(object{"content": word}, nil)) })
	if whole {
		sse(w, "", chunk(object{}, "stop"))
		sse(w, "", object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": c.Model, "choices": []any{},
			"usage": object{"prompt_tokens": 11, "completion_tokens": len(sc.words), "total_tokens": 11 + len(sc.words)}})
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}
}
