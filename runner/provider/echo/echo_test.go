package echo_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"runnerd/internal/wire"
	"runnerd/runner/provider"
	"runnerd/runner/provider/echo"
)

func step(model string) provider.Step {
	return provider.Step{Model: model, Inputs: wire.ModelInputs{Messages: []wire.Message{
		{Role: "user", Content: wire.Text("first")}, {Role: "assistant", Content: wire.Text("ok")}, {Role: "user", Content: wire.Text("one two three")},
	}}}
}

func TestItRepeatsTheLastUserMessage(t *testing.T) {
	var deltas []string
	out := echo.Backend{}.Run(t.Context(), step(echo.Model), func(d string) { deltas = append(deltas, d) })
	if out.Text != "one two three" || !slices.Equal(deltas, []string{"one two three"}) || out.Error != nil {
		t.Errorf("%+v, %q", out, deltas)
	}
}

func TestTheSlowModelTakesItsTimeAndCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		out := echo.Backend{}.Run(t.Context(), step(echo.SlowModel), func(string) {})
		if out.Text != "one two three" || time.Since(begin) != 3*echo.Pace {
			t.Errorf("%+v after %v", out, time.Since(begin))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		out = echo.Backend{}.Run(ctx, step(echo.SlowModel), func(string) { cancel(provider.ErrCancelled) })
		if out.Error == nil || out.Error.Code != wire.CodeCancelled {
			t.Errorf("%+v", out)
		}
	})
}
