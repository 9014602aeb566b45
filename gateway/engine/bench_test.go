package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"runnerd/gateway/engine"
)

func env() engine.Env { return engine.Env{Now: start, Clock: clock} }

// BenchmarkNoopRun is what a run without a step costs, from its creation to run.completed.
func BenchmarkNoopRun(b *testing.B) {
	wf := workflow(b, "", []string{"a core.noop"}, nil)
	b.ReportAllocs()
	for b.Loop() {
		d, err := engine.Decide(wf, nil, engine.Created{RunID: "run_1", Inputs: json.RawMessage(`{}`), Metadata: json.RawMessage(`{}`)}, env())
		if err != nil || !d.Next.Terminal() {
			b.Fatal(err)
		}
	}
}

// BenchmarkStep is what a run of one model step costs: created, accepted, ended.
func BenchmarkStep(b *testing.B) {
	wf := engine.Builtin()
	prompt, _ := json.Marshal(map[string]string{"prompt": strings.Repeat("x", 512)})
	output, _ := json.Marshal(map[string]any{"text": strings.Repeat("y", 512), "usage": map[string]int{"inputTokens": 1, "outputTokens": 2}})
	b.ReportAllocs()
	for b.Loop() {
		var s *engine.State
		for _, in := range []engine.Input{
			engine.Created{RunID: "run_1", Inputs: prompt, Metadata: json.RawMessage(`{}`)},
			engine.StepPhase{StepID: "chat:1:1", Accepted: true},
			engine.StepEnded{StepID: "chat:1:1", Output: output, UsedFor: engine.UsedFor{Provider: "echo", Model: "m"}},
		} {
			d, err := engine.Decide(wf, s, in, env())
			if err != nil {
				b.Fatal(err)
			}
			s = d.Next
		}
		if !s.Terminal() {
			b.Fatal(engine.Status(s))
		}
	}
}

// BenchmarkFold is what it costs to come back to a run with 100 events.
func BenchmarkFold(b *testing.B) {
	var nodes, edges []string
	for i := range 49 {
		nodes = append(nodes, fmt.Sprintf("n%d core.noop", i))
		if i > 0 {
			edges = append(edges, fmt.Sprintf("n%d>n%d", i-1, i))
		}
	}
	w := newWorld(b, workflow(b, "", nodes, edges))
	w.create()
	if len(w.log) != 100 {
		b.Fatalf("%d events, want 100", len(w.log))
	}
	b.Run("events", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := engine.Fold(w.wf, func(yield func(engine.Event, error) bool) {
				for _, e := range w.log {
					if !yield(e, nil) {
						return
					}
				}
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("documents", func(b *testing.B) {
		var docs [][]byte
		for _, e := range w.log {
			doc, _ := e.Encode()
			docs = append(docs, doc)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := engine.Fold(w.wf, func(yield func(engine.Event, error) bool) {
				for _, doc := range docs {
					if e, err := engine.DecodeEvent(doc); !yield(e, err) {
						return
					}
				}
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkProgress is what a piece of output costs.
func BenchmarkProgress(b *testing.B) {
	w := newWorld(b, engine.Builtin())
	w.created.Inputs = json.RawMessage(`{"prompt":"x"}`)
	w.create()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := engine.Decide(w.wf, w.s, engine.Progress{StepID: "chat:1:1", N: 1, Delta: "some words of output"}, env()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	doc := engine.Builtin().Doc()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := engine.Parse(doc); err != nil {
			b.Fatal(err)
		}
	}
}
