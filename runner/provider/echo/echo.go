// Package echo is the backend that needs nothing: it repeats what it was asked. It is there so that the first start on a new
// machine shows a whole run, and says of itself that it is no model.
package echo

import (
	"context"
	"strings"
	"time"

	"runnerd/internal/wire"
	"runnerd/runner/provider"
)

// The models of the echo provider: one that answers at once, and one that takes its time, a word every Pace.
const (
	Model     = "echo"
	SlowModel = "echo-slow"
	Pace      = 200 * time.Millisecond
)

// Backend repeats the last user message.
type Backend struct{}

var _ provider.Backend = Backend{}

// Run gives the words of the last user message back, as progress and as the output.
func (Backend) Run(ctx context.Context, step provider.Step, progress func(string)) wire.Output {
	text := ""
	for _, m := range step.Inputs.Messages {
		if m.Role == "user" {
			text = m.Content.String()
		}
	}
	deltas, pace := []string{text}, time.Duration(0)
	if step.Model == SlowModel {
		deltas, pace = strings.SplitAfter(text, " "), Pace
	}
	for _, d := range deltas {
		if pace > 0 {
			select {
			case <-ctx.Done():
				return provider.Ended(ctx)
			case <-time.After(pace):
			}
		}
		progress(d)
	}
	words := int64(len(strings.Fields(text)))
	return wire.Output{Text: text, FinishReason: "stop", Usage: &wire.Usage{InputTokens: words, OutputTokens: words}}
}

// Probe always finds itself.
func (Backend) Probe(context.Context) provider.Status {
	return provider.Status{Ready: true, State: provider.Ready, Models: []string{Model, SlowModel}, AuthClass: wire.AuthNone}
}
