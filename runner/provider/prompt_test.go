package provider_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"runnerd/internal/wire"
	"runnerd/runner/provider"
)

func TestTranscript(t *testing.T) {
	user := wire.Message{Role: "user", Content: wire.Text("hi")}
	for name, c := range map[string]struct {
		in             wire.ModelInputs
		system, prompt string
	}{
		"one message is passed as it is": {wire.ModelInputs{System: "s", Messages: []wire.Message{user}}, "s", "hi"},
		"system messages are joined":     {wire.ModelInputs{System: "s", Messages: []wire.Message{{Role: "system", Content: wire.Text("t")}, user}}, "s\n\nt", "hi"},
		"turns are named": {
			wire.ModelInputs{Messages: []wire.Message{user, {Role: "assistant", Content: wire.Text("yes?")}, {Role: "tool", Content: wire.Text("42")}, {Role: "user", Content: wire.Text("go")}}},
			"", "User:\nhi\n\nAssistant:\nyes?\n\nTool result:\n42\n\nUser:\ngo\n\nGive the assistant's next message, and nothing else.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			system, prompt := provider.Transcript(c.in)
			if diff := cmp.Diff([]string{c.system, c.prompt}, []string{system, prompt}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatACommandLineCannotCarryIsRefusedByName(t *testing.T) {
	for field, in := range map[string]wire.ModelInputs{
		"":               {Messages: []wire.Message{{Role: "user", Content: wire.Text("hi")}}},
		"tools":          {Tools: []wire.ToolSpec{{Name: "x"}}},
		"responseFormat": {ResponseFormat: json.RawMessage(`{"type":"json_object"}`)},
		"messages":       {Messages: []wire.Message{{Role: "user", Content: wire.Content{{Type: "image"}}}}},
	} {
		e := provider.OnlyText(in)
		if (e == nil) != (field == "") || e != nil && (e.Code != wire.CodeInvalidInput || !cmp.Equal(e.Message[:len("inputs."+field)], "inputs."+field)) {
			t.Errorf("%s: %v", field, e)
		}
	}
}
