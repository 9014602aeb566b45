package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ModelInputs are the inputs of a model step (design, section 6).
type ModelInputs struct {
	System         string            `json:"system,omitempty"`
	Messages       []Message         `json:"messages"`
	Tools          []ToolSpec        `json:"tools,omitempty"`
	ToolChoice     json.RawMessage   `json:"toolChoice,omitempty"`
	ResponseFormat json.RawMessage   `json:"responseFormat,omitempty"`
	Temperature    *float64          `json:"temperature,omitempty"`
	TopP           *float64          `json:"topP,omitempty"`
	MaxTokens      int               `json:"maxTokens,omitempty"`
	Stop           []string          `json:"stop,omitempty"`
	Seed           *int64            `json:"seed,omitempty"`
	Metadata       map[string]string `json:"metadata,omitempty"`
}

// A Message is one turn. Role is "user", "assistant" or "tool".
type Message struct {
	Role       string     `json:"role"`
	Content    Content    `json:"content"`
	ToolCalls  []ToolCall `json:"toolCalls,omitempty"`  // of an assistant
	ToolCallID string     `json:"toolCallId,omitempty"` // of a tool
}

// Content is text, or parts. On the wire it is a string or an array.
type Content []Part

// A Part is a piece of content. Type is "text" or "image".
type Part struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
	Data     string `json:"data,omitempty"` // base64
}

// Text makes content of one text part.
func Text(s string) Content { return Content{{Type: "text", Text: s}} }

// String joins the text parts.
func (c Content) String() string {
	var s strings.Builder
	for _, p := range c {
		s.WriteString(p.Text)
	}
	return s.String()
}

// MarshalJSON writes a single text part, and no part at all, as a string.
func (c Content) MarshalJSON() ([]byte, error) {
	if len(c) == 0 {
		return []byte(`""`), nil
	}
	if len(c) == 1 && c[0].Type == "text" {
		return json.Marshal(c[0].Text)
	}
	return json.Marshal([]Part(c))
}

// UnmarshalJSON takes a string or an array of parts.
func (c *Content) UnmarshalJSON(b []byte) error {
	var s *string
	if json.Unmarshal(b, &s) == nil && s != nil {
		*c = Text(*s)
		return nil
	}
	var parts []Part
	if err := json.Unmarshal(b, &parts); err != nil || parts == nil {
		return &FieldError{"content", "must be a string or an array of parts"}
	}
	*c = parts
	return nil
}

// A ToolSpec describes a tool that the model may call. Parameters is a JSON Schema.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// A ToolCall is a model's wish. It is data: nothing happens unless the host makes a step of it.
type ToolCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Validate names the members of a model step's inputs that are missing or out of range.
func (m ModelInputs) Validate() error {
	var errs []error
	if len(m.Messages) == 0 {
		errs = append(errs, &FieldError{"messages", "must hold at least one message"})
	}
	for i, msg := range m.Messages {
		switch msg.Role {
		case "user", "assistant", "tool", "system":
		default:
			errs = append(errs, at("messages", i, &FieldError{"role", "must be user, assistant, tool or system"}))
		}
		for j, p := range msg.Content {
			if p.Type != "text" && p.Type != "image" {
				errs = append(errs, at("messages", i, &FieldError{fmt.Sprintf("content[%d].type", j), "must be text or image"}))
			}
		}
	}
	if m.MaxTokens < 0 {
		errs = append(errs, &FieldError{"maxTokens", "must be 0 or more"})
	}
	return errors.Join(errs...)
}

// An Output is what a model step gives back. With Error set the step failed and the rest is what is known all the same.
type Output struct {
	Text         string          `json:"text,omitempty"`
	Content      []Part          `json:"content,omitempty"`
	ToolCalls    []ToolCall      `json:"toolCalls,omitempty"`
	FinishReason string          `json:"finishReason,omitempty"` // stop, length, tool_calls, content_filter
	Usage        *Usage          `json:"usage,omitempty"`
	Model        string          `json:"model,omitempty"`
	Backend      string          `json:"backend,omitempty"`
	AuthClass    string          `json:"authClass,omitempty"` // subscription, apiKey, local, none
	Timing       *Timing         `json:"timing,omitempty"`
	Result       json.RawMessage `json:"result,omitempty"` // of a tool step
	Truncated    *Truncated      `json:"truncated,omitempty"`
	Exit         *Exit           `json:"exit,omitempty"` // of a child process (UD-48)
	Error        *StepError      `json:"error,omitempty"`
}

// The auth classes of an output and of an inventory.
const (
	AuthSubscription = "subscription"
	AuthAPIKey       = "apiKey"
	AuthLocal        = "local"
	AuthNone         = "none"
)

// Usage counts tokens.
type Usage struct {
	InputTokens  int64   `json:"inputTokens"`
	OutputTokens int64   `json:"outputTokens"`
	CachedTokens int64   `json:"cachedTokens,omitempty"`
	CostUSD      float64 `json:"costUsd,omitempty"`
}

// Timing is in milliseconds, counted by the runner.
type Timing struct {
	FirstOutputMs int64 `json:"firstOutputMs,omitempty"`
	TotalMs       int64 `json:"totalMs"`
}

// Truncated says how many bytes of output were cut (UD-92).
type Truncated struct {
	Bytes int64 `json:"bytes"`
}

// Exit is how a child process ended.
type Exit struct {
	Code   int    `json:"code"`
	Signal string `json:"signal,omitempty"`
}

// A StepError is the error of a failed step's output.
type StepError struct {
	Code         Code            `json:"code"`
	Message      string          `json:"message"`
	Retriable    bool            `json:"retriable"`
	RetryAfterMs int64           `json:"retryAfterMs,omitempty"`
	Detail       json.RawMessage `json:"detail,omitempty"`
}

func (e *StepError) Error() string { return string(e.Code) + ": " + e.Message }

// Failure reads the error of an output, without reading the rest; nil when the step succeeded. A runner that is not ours
// may send any shape: what cannot be read is a provider_error with the reason.
func Failure(output json.RawMessage) *StepError {
	var probe struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(output, &probe) != nil || len(probe.Error) == 0 || string(probe.Error) == "null" {
		return nil
	}
	var e StepError
	if err := json.Unmarshal(probe.Error, &e); err != nil || e.Code == "" {
		return &StepError{Code: CodeProviderError, Message: "the runner reported an error of unknown shape"}
	}
	if e.Message == "" {
		e.Message = string(e.Code)
	}
	return &e
}

// Failed makes the output of a failed step.
func Failed(code Code, format string, args ...any) Output {
	return Output{Error: &StepError{Code: code, Message: fmt.Sprintf(format, args...)}}
}
