package step

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"runnerd/internal/fault"
	"runnerd/internal/redact"
	"runnerd/internal/wire"
)

// A wayOut is where partial output leaves the step: cleaned, then masked, in order.
type wayOut struct {
	progress func(delta string)
	begun    time.Time

	mu     sync.Mutex
	clean  cleaner
	stream *redact.Stream
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
	w.send(w.stream.Push(w.clean.write(delta)))
}

// close lets out what was kept back; what may be the beginning of a credential only if the text is complete. A backend that
// calls progress after it returned is not heard.
func (w *wayOut) close(complete bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.send(w.stream.Push(w.clean.flush()))
	if complete {
		w.send(w.stream.Finish())
	} else {
		w.send(w.stream.Cut())
	}
}

func (w *wayOut) send(delta string) {
	if delta != "" {
		w.progress(delta)
	}
}

// sanitize makes every string of an output fit to leave the machine.
func (x *Executor) sanitize(out wire.Output) wire.Output {
	text := func(s string) string { return x.Mask.String(clean(s)) }
	out.Text, out.FinishReason, out.Model = text(out.Text), text(out.FinishReason), text(out.Model)
	content := make([]wire.Part, 0, len(out.Content))
	for _, p := range out.Content {
		content = append(content, wire.Part{Type: text(p.Type), Text: text(p.Text), MimeType: text(p.MimeType), Data: x.Mask.String(p.Data)})
	}
	calls := make([]wire.ToolCall, 0, len(out.ToolCalls))
	for _, c := range out.ToolCalls {
		calls = append(calls, wire.ToolCall{ID: text(c.ID), Name: text(c.Name), Arguments: x.document(c.Arguments)})
	}
	out.Content, out.ToolCalls = content, calls
	if out.Result != nil {
		out.Result = x.document(out.Result)
	}
	if out.Exit != nil {
		out.Exit = &wire.Exit{Code: out.Exit.Code, Signal: text(out.Exit.Signal)}
	}
	if e := out.Error; e != nil {
		clean := *e
		clean.Message = text(e.Message)
		if e.Detail != nil {
			clean.Detail = x.document(e.Detail)
		}
		out.Error = &clean
	}
	return out
}

// document cleans and masks every string of a JSON document, names of members included. What is no JSON, as a model's
// arguments may be, becomes a string.
func (x *Executor) document(raw json.RawMessage) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.More() {
		v = string(raw)
	}
	b, err := encode(walk(v))
	if err == nil {
		b, err = x.Mask.JSON(b)
	}
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}

func walk(v any) any {
	switch v := v.(type) {
	case string:
		return clean(v)
	case []any:
		for i := range v {
			v[i] = walk(v[i])
		}
	case map[string]any:
		plain := make(map[string]any, len(v))
		for name, member := range v {
			plain[clean(name)] = walk(member)
		}
		return plain
	}
	return v
}
