package step

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"runnerd/internal/fault"
	"runnerd/internal/wire"
)

// A wayOut is where partial output leaves the step: cleaned, then masked, in order.
type wayOut struct {
	mask     Mask
	progress func(delta string)
	begun    time.Time

	mu     sync.Mutex
	clean  cleaner
	stream Stream
	first  time.Duration
	closed bool
}

func (w *wayOut) write(delta string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || delta == "" {
		return
	}
	fault.Point("R08")
	if w.first == 0 {
		w.first = max(time.Since(w.begun), time.Millisecond)
	}
	w.send(w.stream.Write(w.clean.write(delta)))
}

// close lets out what was kept back. A backend that calls progress after it returned is not heard.
func (w *wayOut) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.send(w.stream.Write(w.clean.flush()))
	w.send(w.stream.Flush())
}

func (w *wayOut) send(delta string) {
	if delta != "" {
		w.progress(delta)
	}
}

// sanitize makes every string of an output fit to leave the machine.
func sanitize(out wire.Output, mask Mask) wire.Output {
	text := func(s string) string { return mask.Text(clean(s)) }
	out.Text, out.FinishReason, out.Model = text(out.Text), text(out.FinishReason), text(out.Model)
	content := make([]wire.Part, 0, len(out.Content))
	for _, p := range out.Content {
		content = append(content, wire.Part{Type: text(p.Type), Text: text(p.Text), MimeType: text(p.MimeType), Data: mask.Text(p.Data)})
	}
	calls := make([]wire.ToolCall, 0, len(out.ToolCalls))
	for _, c := range out.ToolCalls {
		calls = append(calls, wire.ToolCall{ID: text(c.ID), Name: text(c.Name), Arguments: document(c.Arguments, text)})
	}
	out.Content, out.ToolCalls = content, calls
	if out.Result != nil {
		out.Result = document(out.Result, text)
	}
	if out.Exit != nil {
		out.Exit = &wire.Exit{Code: out.Exit.Code, Signal: text(out.Exit.Signal)}
	}
	if e := out.Error; e != nil {
		clean := *e
		clean.Message = text(e.Message)
		if e.Detail != nil {
			clean.Detail = document(e.Detail, text)
		}
		out.Error = &clean
	}
	return out
}

// document applies text to every string of a JSON document, names of members included. What is no JSON, as a model's
// arguments may be, becomes a string.
func document(raw json.RawMessage, text func(string) string) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.More() {
		v = string(raw)
	}
	b, err := encode(walk(v, text))
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}

func walk(v any, text func(string) string) any {
	switch v := v.(type) {
	case string:
		return text(v)
	case []any:
		for i := range v {
			v[i] = walk(v[i], text)
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for name, member := range v {
			clean[text(name)] = walk(member, text)
		}
		return clean
	}
	return v
}
