package engine_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/engine"
)

func TestSnapshotFollowsTheLog(t *testing.T) {
	w := newWorld(t, workflow(t, `{"id":"two","variables":[{"name":"a","type":"string","defaultValue":"d"},{"name":"b","type":"number","defaultValue":1}]}`,
		[]string{`m core.ai.callPrompt {"config":{"prompt":"x"}}`, "n core.noop", "o core.noop"}, []string{"m>n", "m>o any_failed"}))
	if got := engine.Snapshot(w.wf, w.s); got.Status != "pending" || engine.Status(w.s) != "pending" || w.s.LastSequence() != -1 {
		t.Errorf("before the first event: %+v", got)
	}
	w.created.Inputs, w.created.Tags = json.RawMessage(`{"a":{"x":1},"free":[1.50]}`), []string{"nightly"}
	w.created.Configurable, w.created.Metadata = json.RawMessage(`{"model":"m"}`), json.RawMessage(`{"ticket":"T-12"}`)
	w.create()
	w.passed = time.Second
	w.accept("m:1:1")
	want := `{
 "runId": "run_1",
 "workflowId": "two",
 "status": "running",
 "currentNodeId": "m",
 "owner": {
  "tenant": "t1",
  "principal": "ann"
 },
 "startedAt": "2026-11-02T09:00:00Z",
 "variables": {
  "a": {
   "x": 1
  },
  "b": 1,
  "free": [
   1.50
  ]
 },
 "nodeStates": {
  "m": {
   "status": "running",
   "phase": "accepted",
   "attempts": 1,
   "stepId": "m:1:1",
   "startedAt": "2026-11-02T09:00:00Z"
  },
  "n": {
   "status": "pending"
  },
  "o": {
   "status": "pending"
  }
 },
 "tags": [
  "nightly"
 ],
 "metadata": {
  "ticket": "T-12"
 },
 "configurable": {
  "model": "m"
 },
 "engineVersion": "1",
 "eventLogSchemaVersion": 2
}`
	if diff := cmp.Diff(want, snapshot(w.wf, w.s)); diff != "" {
		t.Errorf("while it runs (-want +got):\n%s", diff)
	}
	w.passed = 3 * time.Second
	w.result("m:1:1", `{"text":"x","usage":{"inputTokens":2,"outputTokens":3,"costUsd":0.25}}`)
	got, at := engine.Snapshot(w.wf, w.s), start.Add(3*time.Second)
	done := got.NodeStates["m"]
	if got.Status != "completed" || got.CurrentNodeID != "" || !got.CompletedAt.Equal(at) || done.Status != "completed" || !done.CompletedAt.Equal(at) ||
		got.NodeStates["o"].Status != "skipped" {
		t.Errorf("at the end: %s", snapshot(w.wf, w.s))
	}
	cost := &engine.Metrics{Cost: engine.Cost{USD: 0.25, Tokens: engine.Tokens{Input: 2, Output: 3}, Model: "m1", Provider: "echo"}}
	if diff := cmp.Diff(cost, got.Metrics); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestLostStepIsARetriableErrorWithItsOutcome(t *testing.T) {
	for _, outcome := range []string{engine.OutcomeNotStarted, engine.OutcomeUnknown} {
		w := newWorld(t, engine.Builtin())
		w.created.Inputs = json.RawMessage(`{"prompt":"x"}`)
		w.create()
		w.lose("chat:1:1", outcome)
		want := `{"nodeId":"chat","error":{"code":"runner_unavailable","message":"no connected runner can serve this step",` +
			`"details":{"retriable":true,"outcome":"` + outcome + `"},"retryable":true},"attempts":1}`
		if got := string(w.log[2].Payload); got != want {
			t.Errorf("node.failed\n got %s\nwant %s", got, want)
		}
		if got := engine.Snapshot(w.wf, w.s).Error; got.Code != "runner_unavailable" || !bytes.Contains(got.Details, []byte(outcome)) {
			t.Errorf("snapshot's error = %+v", got)
		}
	}
}

func TestFailureOfARunnerKeepsWhatIsKnown(t *testing.T) {
	w := newWorld(t, engine.Builtin())
	w.created.Inputs = json.RawMessage(`{"prompt":"x"}`)
	w.create()
	w.result("chat:1:1", `{"error":{"code":"rate_limited","message":"wait\u001b[2J a while","retriable":true,"retryAfterMs":5000,"detail":{"plan":"pro"}},"exit":{"code":1},"text":"so far"}`)
	want := `{"nodeId":"chat","error":{"code":"rate_limited","message":"wait[2J a while","details":{"retryAfterMs":5000,"detail":{"plan":"pro"}},"retryable":true},` +
		`"attempts":1,"outputs":{"exit":{"code":1},"text":"so far"}}`
	if got := w.log[2]; string(got.Payload) != want || got.ContentTrust != engine.Untrusted {
		t.Errorf("node.failed\n got %s (%s)\nwant %s", got.Payload, got.ContentTrust, want)
	}
}

// A sensitive value stands in no event and no snapshot, and reaches the steps that it is bound to.
func TestSensitiveValuesStayOutOfTheLog(t *testing.T) {
	const secret = "hunter2-canary"
	w := newWorld(t, workflow(t, `{"variables":[{"name":"pw","type":"string","sensitive":true},{"name":"open","type":"string"}]}`, []string{
		`a core.identity {"inputs":{"p":{"type":"variable","variableName":"pw"},"o":{"type":"variable","variableName":"open"}}}`,
		`b runnerd.tool {"config":{"tool":"t"},"inputs":{"p":{"type":"connection","nodeId":"a","outputKey":"p"}},"outputSensitivity":{"token":true}}`,
		`c core.identity {"inputs":{"t":{"type":"connection","nodeId":"b","outputKey":"token"}}}`,
	}, []string{"a>b", "b>c"}))
	w.created.Inputs, w.created.Configurable = json.RawMessage(`{"pw":"`+secret+`","open":"x"}`), json.RawMessage(`{"runner.id":"rnr_canary","model":"m"}`)
	w.create()
	d := w.steps["b:1:1"]
	if string(d.Inputs) != `{"p":"`+secret+`"}` || d.RunnerID != "rnr_canary" {
		t.Errorf("dispatch = %+v with %s, want the secret for rnr_canary", d, d.Inputs)
	}
	bare, err := engine.Fold(w.wf, events(t, w.log))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(snapshot(w.wf, w.s), snapshot(w.wf, bare)); diff != "" {
		t.Errorf("the snapshot depends on what was revealed (-revealed +bare):\n%s", diff)
	}
	if _, err := engine.Decide(w.wf, bare, engine.Cancel{}, w.env()); !errors.Is(err, engine.ErrMasked) {
		t.Errorf("Decide without Reveal: %v, want ErrMasked", err)
	}
	w.result("b:1:1", `{"token":"token-canary","text":"ok"}`)
	log, _ := json.Marshal(w.log)
	for _, canary := range []string{secret, "rnr_canary", "token-canary", "rnr_secret"} {
		if bytes.Contains(log, []byte(canary)) || bytes.Contains([]byte(snapshot(w.wf, w.s)), []byte(canary)) {
			t.Errorf("%s stands in the log or the snapshot:\n%s", canary, log)
		}
	}
	if got := engine.Snapshot(w.wf, w.s).Error; got == nil || got.Code != "invalid_input" {
		t.Errorf("error = %+v, want that a sensitive output is not kept", got)
	}
}

func TestApplyRefusesALogThatCannotBe(t *testing.T) {
	w := newWorld(t, workflow(t, "", []string{"a core.noop", `b core.delay {"config":{"delayMs":9}}`}, nil))
	w.create()
	at := func(i int, change func(*engine.Event)) []engine.Event {
		log := append([]engine.Event(nil), w.log...)
		change(&log[i])
		return log
	}
	for name, log := range map[string][]engine.Event{
		"a gap":                      at(1, func(e *engine.Event) { e.Sequence++ }),
		"an event of another run":    at(1, func(e *engine.Event) { e.RunID = "run_2" }),
		"no beginning":               at(0, func(e *engine.Event) { e.Type = engine.TypeNodeStarted; e.NodeID = "a" }),
		"two beginnings":             at(1, func(e *engine.Event) { *e = w.log[0]; e.Sequence = 1 }),
		"an unknown node":            at(1, func(e *engine.Event) { e.NodeID = "z" }),
		"an end before the start":    at(1, func(e *engine.Event) { e.Type = engine.TypeNodeCompleted }),
		"two starts":                 at(2, func(e *engine.Event) { e.Type = engine.TypeNodeStarted }),
		"something after the end":    at(2, func(e *engine.Event) { e.Type = engine.TypeRunCancelled }),
		"a payload of another shape": at(0, func(e *engine.Event) { e.Payload = json.RawMessage(`[]`) }),
		"options of a wrong type":    at(0, func(e *engine.Event) { e.Payload = json.RawMessage(`{"configurable":{"model":1}}`) }),
	} {
		if _, err := engine.Fold(w.wf, events(t, log)); err == nil {
			t.Errorf("%s: folded without an error", name)
		}
	}
}
