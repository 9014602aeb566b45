package provider

import (
	"strings"

	"runnerd/internal/wire"
)

// Transcript writes a conversation for a program that takes one text. A single user message is passed as it is; a longer one
// is written turn by turn, with a line that asks for the next. The system text is apart, because programs take it apart.
func Transcript(in wire.ModelInputs) (system, prompt string) {
	parts := []string{}
	if in.System != "" {
		parts = append(parts, in.System)
	}
	var turns []wire.Message
	for _, m := range in.Messages {
		if m.Role == "system" {
			parts = append(parts, m.Content.String())
			continue
		}
		turns = append(turns, m)
	}
	system = strings.Join(parts, "\n\n")
	if len(turns) == 1 && turns[0].Role == "user" {
		return system, turns[0].Content.String()
	}
	names := map[string]string{"user": "User", "assistant": "Assistant", "tool": "Tool result"}
	var b strings.Builder
	for _, m := range turns {
		b.WriteString(names[m.Role] + ":\n" + m.Content.String() + "\n\n")
	}
	b.WriteString("Give the assistant's next message, and nothing else.")
	return system, b.String()
}

// OnlyText refuses what a command line cannot carry, naming the member (wire.CodeInvalidInput).
func OnlyText(in wire.ModelInputs) *wire.StepError {
	field := ""
	switch {
	case len(in.Tools) > 0:
		field = "tools"
	case len(in.ResponseFormat) > 0 && string(in.ResponseFormat) != "null":
		field = "responseFormat"
	default:
		for _, m := range in.Messages {
			for _, p := range m.Content {
				if p.Type != "text" {
					field = "messages"
				}
			}
		}
	}
	if field == "" {
		return nil
	}
	return &wire.StepError{Code: wire.CodeInvalidInput, Message: "inputs." + field + " cannot be carried by this backend: use an API or an OpenAI-compatible one"}
}
