package channel_test

import (
	"iter"
	"regexp"

	"runnerd/gateway/engine"
	"runnerd/gateway/run"
	"runnerd/gateway/store"
)

func request(s store.Subject, workflow string) run.CreateRequest {
	return run.CreateRequest{Subject: s, Workflow: workflow}
}

func types(events []engine.Event) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, e := range events {
			if !yield(e.Type) {
				return
			}
		}
	}
}

// durations differ between any two runs.
var durations = regexp.MustCompile(`"durationMs":\d+`)
