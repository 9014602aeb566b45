package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/engine"
)

// Each row is a workflow, what happens to its run, and the whole log.
func TestRunGoesAsItsWorkflowSays(t *testing.T) {
	model := `core.ai.callPrompt {"config":{"prompt":"hi"}}`
	for name, c := range map[string]struct {
		more         string
		nodes, edges []string
		script       func(*world)
		want         string
	}{
		"one node": {
			nodes: []string{"a core.noop"},
			want:  `run.started|node.started a|node.completed a|run.completed {}`,
		},
		"nodes in a row run in their order, not in that of the definition": {
			nodes: []string{"c core.noop", "b core.noop", "a core.noop"}, edges: []string{"a>b", "b>c"},
			want: `run.started|node.started a|node.completed a|node.started b|node.completed b|node.started c|node.completed c|run.completed {}`,
		},
		"a delay ends by its timer": {
			nodes:  []string{`a core.delay {"inputs":{"delayMs":{"type":"static","value":1500}}}`},
			script: func(w *world) { w.pass(1499 * time.Millisecond); w.pass(time.Millisecond) },
			want:   `run.started|node.started a|node.completed a|run.completed {}`,
		},
		"a delay of nothing ends at once": {
			nodes: []string{`a core.delay {"config":{"delayMs":0}}`},
			want:  `run.started|node.started a|node.completed a|run.completed {}`,
		},
		"a delay out of range fails": {
			nodes: []string{`a core.delay {"config":{"delayMs":60001}}`},
			want:  `run.started|node.started a|node.failed a invalid_input|run.failed invalid_input`,
		},
		"a failing node fails the run": {
			nodes: []string{"a core.fail", "b core.noop"}, edges: []string{"a>b"},
			want: `run.started|node.started a|node.failed a node_failed|run.failed node_failed`,
		},
		"a node fails with the code it is given": {
			nodes: []string{`a core.fail {"config":{"code":"no_luck","message":"sorry"}}`},
			want:  `run.started|node.started a|node.failed a no_luck|run.failed no_luck`,
		},
		"a failure that an edge takes care of does not fail the run": {
			nodes: []string{"a core.fail", "b core.noop"}, edges: []string{"a>b any_failed"},
			want: `run.started|node.started a|node.failed a node_failed|node.started b|node.completed b|run.completed {}`,
		},
		"a failure whose only handler is skipped fails the run": {
			nodes: []string{"a core.fail", "b core.noop", "c core.noop"}, edges: []string{"a>b any_failed", "c>b any_failed", "c>b none_failed", "a>b none_failed"},
			want: `run.started|node.started a|node.failed a node_failed|node.started c|node.completed c|` +
				`node.skipped b (the trigger rule none_failed cannot be met)|run.failed node_failed`,
		},
		"a node whose rule cannot be met is skipped, and what needs it too": {
			nodes: []string{"a core.noop", "b core.noop", "c core.noop", "d core.noop"}, edges: []string{"a>b any_failed", "b>c", "b>d none_failed"},
			want: `run.started|node.started a|node.completed a|node.skipped b (the trigger rule any_failed cannot be met)|` +
				`node.skipped c (the trigger rule all_success cannot be met)|node.started d|node.completed d|run.completed {"d":{}}`,
		},
		"a disabled node is skipped": {
			nodes: []string{`a core.noop {"disabled":true}`, "b core.noop", "c core.noop"}, edges: []string{"a>b", "a>c all_complete"},
			want: `run.started|node.skipped a (disabled)|node.skipped b (the trigger rule all_success cannot be met)|` +
				`node.started c|node.completed c|run.completed {"c":{}}`,
		},
		"any_success does not wait for the slower branch": {
			nodes: []string{"a " + model, "b " + model, "c core.noop"}, edges: []string{"a>c any_success", "b>c any_success"},
			script: func(w *world) { w.result("b:1:1", `{"text":"B"}`); w.result("a:1:1", `{"text":"A"}`) },
			want: `run.started|node.started a|node.started b|output.chunk b "B" last|node.completed b|node.started c|node.completed c|` +
				`output.chunk a "A" last|node.completed a|run.completed {}`,
		},
		"all_success waits for every branch": {
			nodes: []string{"a " + model, "b " + model, "c core.noop"}, edges: []string{"a>c", "b>c"},
			script: func(w *world) { w.result("b:1:1", `{"text":"B"}`); w.result("a:1:1", `{"text":"A"}`) },
			want: `run.started|node.started a|node.started b|output.chunk b "B" last|node.completed b|` +
				`output.chunk a "A" last|node.completed a|node.started c|node.completed c|run.completed {}`,
		},
		"an edge's condition chooses the branch": {
			nodes: []string{"a " + model, "yes core.noop", "no core.noop", "rest core.noop"},
			edges: []string{`a>yes {"condition":{"type":"equals","left":"text","right":"go"}}`, `a>no {"condition":{"type":"notEquals","left":"output.text","right":"go"}}`,
				`a>rest {"condition":{"type":"equals","left":"status","right":"completed"}}`},
			script: func(w *world) { w.result("a:1:1", `{"text":"go"}`) },
			want: `run.started|node.started a|output.chunk a "go" last|node.completed a|node.started yes|node.completed yes|` +
				`node.skipped no (the trigger rule all_success cannot be met)|node.started rest|node.completed rest|run.completed {"yes":{},"rest":{}}`,
		},
		"an expression that has no value fails its node": {
			nodes: []string{"a core.noop", `b core.identity {"inputs":{"x":{"type":"expression","expression":"nodes.a.list[3]"}}}`}, edges: []string{"a>b"},
			want: `run.started|node.started a|node.completed a|node.started b|node.failed b expression_failed|run.failed expression_failed`,
		},
		"a condition that is neither true nor false fails the node behind it": {
			nodes: []string{"a core.noop", `b core.noop`}, edges: []string{`a>b {"condition":{"type":"expression","expression":"1"}}`},
			want: `run.started|node.started a|node.completed a|node.started b|node.failed b expression_failed|run.failed expression_failed`,
		},
		"an expression chooses the branch": {
			nodes: []string{"a " + model, "yes core.noop", "no core.noop"},
			edges: []string{`a>yes {"condition":{"type":"expression","expression":"len(output.text) > 3 and status == 'completed'"}}`,
				`a>no {"condition":{"type":"expression","expression":"nodes.a.text matches '^.{0,3}$'"}}`},
			script: func(w *world) { w.result("a:1:1", `{"text":"hello"}`) },
			want: `run.started|node.started a|output.chunk a "hello" last|node.completed a|node.started yes|node.completed yes|` +
				`node.skipped no (the trigger rule all_success cannot be met)|run.completed {"yes":{}}`,
		},
		"what the host cannot do fails the run before anything costs money": {
			nodes: []string{"a " + model, "b vendor.acme.magic"}, edges: []string{"a>b"},
			want: `run.started|run.failed capability_not_provided`,
		},
		"a runtime capability that is not there fails the run": {
			nodes: []string{"a conformance.requiresMissing"},
			want:  `run.started|run.failed capability_not_provided`,
		},
		"a node may require a capability in its config": {
			nodes: []string{`a core.noop {"config":{"requires":["x.y"]}}`},
			want:  `run.started|run.failed capability_not_provided`,
		},
		"a disabled node's needs do not matter": {
			nodes: []string{`a vendor.acme.magic {"disabled":true}`},
			want:  `run.started|node.skipped a (disabled)|run.completed {}`,
		},
		"progress streams, repeats are dropped, and the last chunk brings the rest": {
			nodes: []string{"a " + model},
			script: func(w *world) {
				w.accept("a:1:1")
				for _, p := range []engine.Progress{{N: 1, Delta: "he"}, {N: 2, Delta: "l"}, {N: 2, Delta: "l"}, {N: 1, Delta: "he"}, {N: 3}} {
					p.StepID = "a:1:1"
					w.mustDo(p)
				}
				w.result("a:1:1", `{"text":"hello"}`)
			},
			want: `run.started|node.started a|runnerd.step.accepted a|output.chunk a "he"|output.chunk a "l"|output.chunk a "lo" last|` +
				`node.completed a|run.completed {"text":"hello"}`,
		},
		"a text that does not continue what was streamed ends with an empty chunk": {
			nodes: []string{"a " + model},
			script: func(w *world) {
				w.mustDo(engine.Progress{StepID: "a:1:1", N: 1, Delta: "Thinking"})
				w.result("a:1:1", `{"text":"hello"}`)
			},
			want: `run.started|node.started a|output.chunk a "Thinking"|output.chunk a "" last|node.completed a|run.completed {"text":"hello"}`,
		},
		"usage is recorded": {
			nodes:  []string{"a " + model},
			script: func(w *world) { w.result("a:1:1", `{"text":"x","usage":{"inputTokens":3,"outputTokens":4}}`) },
			want: `run.started|node.started a|output.chunk a "x" last|provider.usage a|node.completed a|` +
				`run.completed {"text":"x","usage":{"inputTokens":3,"outputTokens":4}}`,
		},
		"a runner's error fails the node, and the stream is closed": {
			nodes: []string{"a " + model},
			script: func(w *world) {
				w.mustDo(engine.Progress{StepID: "a:1:1", N: 1, Delta: "so far"})
				w.result("a:1:1", `{"error":{"code":"rate_limited","message":"later","retriable":true},"text":"so far"}`)
			},
			want: `run.started|node.started a|output.chunk a "so far"|output.chunk a "" last|node.failed a rate_limited|run.failed rate_limited`,
		},
		"a code that no runner may send is a provider error": {
			nodes:  []string{"a " + model},
			script: func(w *world) { w.result("a:1:1", `{"error":{"code":"run_timeout","message":"x"}}`) },
			want:   `run.started|node.started a|node.failed a provider_error|run.failed provider_error`,
		},
		"an output that is no object is a provider error": {
			nodes:  []string{"a " + model},
			script: func(w *world) { w.result("a:1:1", `[1]`) },
			want:   `run.started|node.started a|node.failed a provider_error|run.failed provider_error`,
		},
		"a step that nobody started fails without a policy": {
			nodes:  []string{"a " + model},
			script: func(w *world) { w.lose("a:1:1", engine.OutcomeNotStarted) },
			want:   `run.started|node.started a|node.failed a runner_unavailable|run.failed runner_unavailable`,
		},
		"a step that nobody started is tried again by the policy, under the same id": {
			more: `{"settings":{"maxRetries":2}}`, nodes: []string{"a " + model},
			script: func(w *world) {
				w.lose("a:1:1", engine.OutcomeNotStarted)
				w.pass(time.Second)
				w.lose("a:1:1", engine.OutcomeNotStarted)
				w.pass(2 * time.Second)
				w.result("a:1:1", `{"text":"x"}`)
			},
			want: `run.started|node.started a|node.retried a attempt 2 after 1000ms|node.started a attempt 2|` +
				`node.retried a attempt 3 after 2000ms|node.started a attempt 3|output.chunk a "x" last|node.completed a|run.completed {"text":"x"}`,
		},
		"a policy ends": {
			nodes: []string{`a core.ai.callPrompt {"config":{"prompt":"hi","retry":{"maxAttempts":2,"initialDelayMs":50}}}`},
			script: func(w *world) {
				w.lose("a:1:1", engine.OutcomeNotStarted)
				w.pass(50 * time.Millisecond)
				w.lose("a:1:1", engine.OutcomeNotStarted)
			},
			want: `run.started|node.started a|node.retried a attempt 2 after 50ms|node.started a attempt 2|node.failed a runner_unavailable|run.failed runner_unavailable`,
		},
		"a step that may have been done is never tried again": {
			more: `{"settings":{"maxRetries":5}}`, nodes: []string{"a " + model},
			script: func(w *world) { w.accept("a:1:1"); w.lose("a:1:1", engine.OutcomeUnknown) },
			want:   `run.started|node.started a|runnerd.step.accepted a|node.failed a runner_unavailable|run.failed runner_unavailable`,
		},
		"a runner that says it lost the outcome has lost the step": {
			more: `{"settings":{"maxRetries":5}}`, nodes: []string{"a " + model},
			script: func(w *world) { w.result("a:1:1", `{"error":{"code":"outcome_unknown","message":"crashed"}}`) },
			want:   `run.started|node.started a|node.failed a runner_unavailable|run.failed runner_unavailable`,
		},
		"a failure stops what runs beside it": {
			nodes: []string{"a " + model, "b " + model, `c core.delay {"config":{"delayMs":500}}`},
			script: func(w *world) {
				w.lose("b:1:1", engine.OutcomeUnknown)
				if len(w.stops) != 1 || w.stops[0].StepID != "a:1:1" {
					w.tb.Errorf("stops = %v, want one of a:1:1", w.stops)
				}
			},
			want: `run.started|node.started a|node.started b|node.started c|node.failed b runner_unavailable|node.cancelled a|node.cancelled c|run.failed runner_unavailable`,
		},
		"a step that was asked for in the decision that fails the run is not asked for": {
			nodes: []string{"a " + model, "b core.fail"},
			script: func(w *world) {
				if len(w.given) != 0 || len(w.stops) != 0 {
					w.tb.Errorf("dispatched %v and stopped %v, want neither", w.given, w.stops)
				}
			},
			want: `run.started|node.started a|node.started b|node.failed b node_failed|node.cancelled a|run.failed node_failed`,
		},
		"a cancel is decided at once": {
			nodes:  []string{"a " + model, `b core.delay {"config":{"delayMs":500}}`},
			script: func(w *world) { w.accept("a:1:1"); w.mustDo(engine.Cancel{Reason: "enough", By: "ann"}) },
			want:   `run.started|node.started a|node.started b|runnerd.step.accepted a|node.cancelled a|node.cancelled b|run.cancelled`,
		},
		"a cancel while a node waits for its next attempt": {
			more: `{"settings":{"maxRetries":2}}`, nodes: []string{"a " + model},
			script: func(w *world) { w.lose("a:1:1", engine.OutcomeNotStarted); w.mustDo(engine.Cancel{}) },
			want:   `run.started|node.started a|node.retried a attempt 2 after 1000ms|node.cancelled a|run.cancelled`,
		},
		"values flow along connections, edges and variables": {
			more: `{"variables":[{"name":"who","type":"string","defaultValue":"world"}]}`,
			nodes: []string{`a core.identity {"inputs":{"greeting":{"type":"static","value":{"deep":[1,2.50,10000000000000000000001]}},"who":{"type":"variable","variableName":"who"}}}`,
				`b core.identity {"inputs":{"g":{"type":"connection","nodeId":"a","outputKey":"greeting"},"all":{"type":"connection","nodeId":"a","outputKey":"output"},
				  "none":{"type":"connection","nodeId":"a","outputKey":"nothing","optional":true}}}`},
			edges: []string{`a>b {"sourceOutput":"who","targetInput":"w"}`},
			want: `run.started|node.started a|node.completed a|node.started b|node.completed b|` +
				`run.completed {"all":{"greeting":{"deep":[1,2.50,10000000000000000000001]},"who":"world"},"g":{"deep":[1,2.50,10000000000000000000001]},"w":"world"}`,
		},
		"a value that is not there fails the node that needs it": {
			nodes: []string{"a core.noop", `b core.identity {"inputs":{"x":{"type":"connection","nodeId":"a","outputKey":"text"}}}`}, edges: []string{"a>b"},
			want: `run.started|node.started a|node.completed a|node.started b|node.failed b invalid_input|run.failed invalid_input`,
		},
		"a failed node's error can be bound": {
			nodes: []string{"a core.fail", `b core.identity {"inputs":{"x":{"type":"connection","nodeId":"a","outputKey":"error"}}}`}, edges: []string{"a>b any_failed"},
			want: `run.started|node.started a|node.failed a node_failed|node.started b|node.completed b|` +
				`run.completed {"x":{"code":"node_failed","message":"the workflow asked this node to fail","retryable":false}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, workflow(t, c.more, c.nodes, c.edges))
			w.create()
			if c.script != nil {
				c.script(w)
			}
			if diff := cmp.Diff(strings.Split(c.want, "|"), w.story()); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}
