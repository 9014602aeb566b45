package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"runnerd/gateway/engine"
	"runnerd/internal/wire"
)

// Nodes that put their input out twice would fill a store within a few lines of a definition.
func TestOutputsThatGrowEndTheRun(t *testing.T) {
	nodes, edges := []string{`n0 core.identity {"inputs":{"x":{"type":"static","value":"` + strings.Repeat("x", 100) + `"}}}`}, []string{}
	for i := 1; i < 40; i++ {
		from := fmt.Sprintf(`{"type":"connection","nodeId":"n%d","outputKey":"output"}`, i-1)
		nodes = append(nodes, fmt.Sprintf(`n%d core.identity {"inputs":{"a":%s,"b":%s}}`, i, from, from))
		edges = append(edges, fmt.Sprintf("n%d>n%d", i-1, i))
	}
	fails(t, workflow(t, "", nodes, edges), nil, wire.CodeResultTooLarge)
}

func TestOneRunDoesNotCopyWithoutEnd(t *testing.T) {
	nodes, edges := []string{`n0 core.identity {"inputs":{"x":{"type":"variable","variableName":"x"}}}`}, []string{}
	for i := 1; i < 40; i++ {
		nodes = append(nodes, fmt.Sprintf(`n%d core.identity {"inputs":{"x":{"type":"connection","nodeId":"n%d","outputKey":"x"}}}`, i, i-1))
		edges = append(edges, fmt.Sprintf("n%d>n%d", i-1, i))
	}
	fails(t, workflow(t, "", nodes, edges), large(), wire.CodeResultTooLarge)
}

func TestOneDecisionDoesNotAskForMoreThanMemoryHolds(t *testing.T) {
	var nodes []string
	for i := range 60 {
		nodes = append(nodes, fmt.Sprintf(`n%d core.ai.callPrompt {"inputs":{"prompt":{"type":"variable","variableName":"x"}}}`, i))
	}
	if effects := fails(t, workflow(t, "", nodes, nil), large(), wire.CodeFrameTooLarge); len(effects) > 0 {
		t.Errorf("%d effects of a run that failed", len(effects))
	}
}

func large() json.RawMessage { return json.RawMessage(`{"x":"` + strings.Repeat("x", 900<<10) + `"}`) }

// fails creates a run that ends at once, without what a world looks at besides.
func fails(t *testing.T, wf *engine.Workflow, inputs json.RawMessage, code wire.Code) []engine.Effect {
	t.Helper()
	d, err := engine.Decide(wf, nil, engine.Created{RunID: "r", Inputs: inputs}, env())
	if err != nil {
		t.Fatal(err)
	}
	if got := engine.Snapshot(wf, d.Next).Error; got == nil || got.Code != string(code) {
		t.Errorf("error = %+v, want %s", got, code)
	}
	return d.Effects
}

func endsWith(t *testing.T, w *world, code string) {
	t.Helper()
	if got := engine.Snapshot(w.wf, w.s).Error; got == nil || got.Code != code {
		t.Errorf("error = %+v, want %s", got, code)
	}
}

// Outputs of several last nodes that would not fit one event are left to the events of the nodes.
func TestRunLeavesOutOutputsThatDoNotFit(t *testing.T) {
	w := newWorld(t, workflow(t, "", []string{`a runnerd.tool {"config":{"tool":"t"}}`, `b runnerd.tool {"config":{"tool":"t"}}`}, nil))
	w.quick = true
	w.create()
	big := `{"x":"` + strings.Repeat("x", wire.MaxResult-100) + `"}`
	w.result("a:1:1", big)
	w.result("b:1:1", big)
	if last := w.log[len(w.log)-1]; last.Type != engine.TypeRunCompleted || len(last.Payload) > 100 {
		t.Errorf("last event is %s with %d bytes", last.Type, len(last.Payload))
	}
}

func TestResultBeyondTheLimitsFailsItsNode(t *testing.T) {
	for output, code := range map[string]wire.Code{
		`{"x":"` + strings.Repeat("x", wire.MaxResult) + `"}`:                        wire.CodeResultTooLarge,
		`{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`:          wire.CodeProviderError,
		`{"error":{"code":"no_such","message":"` + strings.Repeat("é", 9000) + `"}}`: wire.CodeProviderError,
		`{"a":1,"a":2}`: wire.CodeProviderError,
		``:              wire.CodeProviderError,
	} {
		w := newWorld(t, workflow(t, "", []string{`a runnerd.tool {"config":{"tool":"t"}}`}, nil))
		w.quick = len(output) > wire.MaxResult
		w.create()
		w.result("a:1:1", output)
		endsWith(t, w, string(code))
		if n := len(w.log[len(w.log)-1].Payload); n > 10_000 {
			t.Errorf("run.failed has %d bytes", n)
		}
	}
}

// A stream that goes past its bounds stops, and the last chunk brings the rest: the chunks together are the text.
func TestStreamIsBounded(t *testing.T) {
	w := newWorld(t, engine.Builtin())
	w.created.Inputs, w.quick = json.RawMessage(`{"prompt":"x"}`), true
	w.create()
	piece := strings.Repeat("y", wire.MaxDelta)
	for n := range 30 {
		w.mustDo(engine.Progress{StepID: "chat:1:1", N: int64(n + 1), Delta: piece})
	}
	text := strings.Repeat("y", wire.MaxResult-1000)
	w.result("chat:1:1", `{"text":"`+text+`"}`)
	var all strings.Builder
	for _, e := range w.log {
		var p struct{ Chunk string }
		if e.Type == engine.TypeOutputChunk && json.Unmarshal(e.Payload, &p) == nil {
			all.WriteString(p.Chunk)
		}
	}
	if got := all.Len(); got != 16*wire.MaxDelta {
		t.Errorf("%d bytes went out, want no more than %d of them", got, 16*wire.MaxDelta)
	}
}

func TestDataOfAStructuredAnswerIsAnOutput(t *testing.T) {
	node := `a core.ai.structuredOutput {"config":{"prompt":"x","outputSchema":{"type":"object"}}}`
	for output, want := range map[string]string{
		`{"text":"{\"ok\":true}"}`:         `run.completed {"text":"{\"ok\":true}","data":{"ok":true}}`,
		`{"text":"{\"ok\":"}`:              `run.completed {"text":"{\"ok\":"}`,
		`{"text":"1","data":{"ok":false}}`: `run.completed {"text":"1","data":{"ok":false}}`,
		`{"text":"{\"a\":1,\"a\":2}"}`:     `run.completed {"text":"{\"a\":1,\"a\":2}"}`,
	} {
		w := newWorld(t, workflow(t, "", []string{node}, nil))
		w.create()
		w.result("a:1:1", output)
		if got := w.story(); got[len(got)-1] != want {
			t.Errorf("output %s\n got %s\nwant %s", output, got[len(got)-1], want)
		}
	}
}

func TestResultOfAPublishedToolNodeIsItsOutputs(t *testing.T) {
	w := newWorld(t, workflow(t, "", []string{`a core.openwop.http.fetch {"config":{"url":"https://x.test/"}}`}, nil))
	w.create()
	w.result("a:1:1", `{"result":{"status":200,"body":"hi"},"timing":{"totalMs":3}}`)
	if got, want := w.story(), `run.completed {"status":200,"body":"hi"}`; got[len(got)-1] != want {
		t.Errorf("log ends with %s, want %s", got[len(got)-1], want)
	}
}
