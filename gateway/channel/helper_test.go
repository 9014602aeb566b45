package channel_test

import (
	"encoding/json"
	"iter"
	"regexp"
	"testing"

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

func object(t testing.TB, name, value string) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]string{name: value})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
