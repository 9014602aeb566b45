package step_test

import (
	"context"
	"testing"

	"runnerd/internal/wire"
	"runnerd/runner/provider"
)

// A frame must name a model. Where nobody named one, the backend must not be asked for one of that name.
func TestTheDefaultModelIsTheBackendsOwn(t *testing.T) {
	for model, want := range map[string]string{wire.DefaultModel: "", "m": "m"} {
		asked := "not at all"
		x := executor(t, func(_ context.Context, s provider.Step, _ func(string)) wire.Output {
			asked = s.Model
			return wire.Output{Text: "x"}
		})
		plan, refused := x.Plan(frame("good", model, hello))
		if refused != nil {
			t.Fatal(refused)
		}
		x.Run(t.Context(), plan, func(string) {})
		if asked != want {
			t.Errorf("frame says %q, the backend is asked for %q, want %q", model, asked, want)
		}
	}
}
