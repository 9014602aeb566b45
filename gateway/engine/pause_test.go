package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/engine"
	"runnerd/internal/wire"
)

var (
	drain = engine.Pause{Reason: "lunch", By: "ann"}
	atOne = engine.Pause{Policy: engine.DrainImmediate}
)

func TestPauseHoldsTheRunByItsPolicy(t *testing.T) {
	model := `core.ai.callPrompt {"config":{"prompt":"hi"}}`
	delay := `core.delay {"config":{"delayMs":1000}}`
	for name, c := range map[string]struct {
		more         string
		nodes, edges []string
		script       func(*world)
		want         string
	}{
		"the active node ends first, and no other starts": {
			nodes: []string{"a " + delay, "b core.noop"}, edges: []string{"a>b"},
			script: func(w *world) {
				w.mustDo(drain)
				w.is("running")
				w.pass(time.Hour)
				w.is("paused")
				w.mustDo(engine.Resume{})
			},
			want: `run.started|node.started a|runnerd.run.pausing|node.completed a|run.paused|run.resumed|node.started b|node.completed b|run.completed {}`,
		},
		"a run whose last node ended is paused all the same": {
			nodes: []string{"a " + delay},
			script: func(w *world) {
				w.mustDo(drain)
				w.pass(time.Hour)
				w.is("paused")
				w.mustDo(engine.Resume{})
			},
			want: `run.started|node.started a|runnerd.run.pausing|node.completed a|run.paused|run.resumed|run.completed {}`,
		},
		"every active node ends first": {
			nodes: []string{"a " + delay, "b " + model},
			script: func(w *world) {
				w.mustDo(drain)
				w.pass(time.Second)
				w.is("running")
				w.result("b:1:1", `{"text":"x"}`)
				w.is("paused")
			},
			want: `run.started|node.started a|node.started b|runnerd.run.pausing|node.completed a|output.chunk b "x" last|node.completed b|run.paused`,
		},
		"a pause that was not reached is taken back": {
			nodes: []string{"a " + delay, "b core.noop"}, edges: []string{"a>b"},
			script: func(w *world) { w.mustDo(drain); w.mustDo(engine.Resume{}); w.pass(time.Second) },
			want:   `run.started|node.started a|runnerd.run.pausing|run.resumed|node.completed a|node.started b|node.completed b|run.completed {}`,
		},
		"a failure while the active node ends fails the run": {
			nodes:  []string{"a " + model},
			script: func(w *world) { w.mustDo(drain); w.lose("a:1:1", engine.OutcomeUnknown) },
			want:   `run.started|node.started a|runnerd.run.pausing|node.failed a runner_unavailable|run.failed runner_unavailable`,
		},
		"a pause at once cuts the attempt, which starts again": {
			nodes: []string{"a " + delay},
			script: func(w *world) {
				w.pass(500 * time.Millisecond)
				w.mustDo(atOne)
				w.is("paused")
				w.pass(time.Hour)
				w.mustDo(engine.Resume{})
				w.pass(999 * time.Millisecond)
				w.is("running")
				w.pass(time.Millisecond)
			},
			want: `run.started|node.started a|run.paused|run.resumed|node.started a attempt 2|node.completed a|run.completed {}`,
		},
		"a step that was cut is another step afterwards": {
			nodes: []string{"a " + model},
			script: func(w *world) {
				w.accept("a:1:1")
				w.mustDo(engine.Progress{StepID: "a:1:1", N: 1, Delta: "so"})
				w.mustDo(atOne)
				if err := w.do(engine.StepEnded{StepID: "a:1:1", Output: []byte(`{"text":"late"}`)}); !errors.Is(err, engine.ErrStale) {
					w.tb.Errorf("late result: %v, want ErrStale", err)
				}
				w.mustDo(engine.Resume{})
				w.mustDo(engine.Progress{StepID: "a:1:2", N: 1, Delta: "he"})
				w.result("a:1:2", `{"text":"hello"}`)
			},
			want: `run.started|node.started a|runnerd.step.accepted a|output.chunk a "so"|run.paused|run.resumed|node.started a attempt 2|` +
				`output.chunk a "he"|output.chunk a "llo" last|node.completed a|run.completed {"text":"hello"}`,
		},
		"what waits for another attempt is cut too": {
			more: `{"settings":{"maxRetries":1}}`, nodes: []string{"a " + model},
			script: func(w *world) {
				w.lose("a:1:1", engine.OutcomeNotStarted)
				w.mustDo(atOne)
				w.pass(time.Hour)
				w.mustDo(engine.Resume{})
				w.lose("a:1:2", engine.OutcomeNotStarted)
				w.pass(time.Minute)
				w.lose("a:1:2", engine.OutcomeNotStarted)
			},
			want: `run.started|node.started a|node.retried a attempt 2 after 1000ms|run.paused|run.resumed|node.started a attempt 2|` +
				`node.retried a attempt 3 after 1000ms|node.started a attempt 3|node.failed a runner_unavailable|run.failed runner_unavailable`,
		},
		"a drain may be cut short": {
			nodes:  []string{"a " + delay},
			script: func(w *world) { w.mustDo(drain); w.mustDo(atOne); w.is("paused") },
			want:   `run.started|node.started a|runnerd.run.pausing|run.paused`,
		},
		"an interrupt beside stays open, and its answer waits for the run": {
			nodes: []string{"a " + delay, "g core.approvalGate", "b core.noop"}, edges: []string{"g>b"},
			script: func(w *world) {
				w.mustDo(atOne)
				w.is("paused")
				w.mustAnswer("g", "ann", `{"action":"accept"}`)
				w.is("paused")
				w.mustDo(engine.Resume{})
				w.pass(time.Second)
			},
			want: `run.started|node.started a|node.started g|node.suspended g approval g:i1|interrupt.requested g|run.paused|approval.received g accept|` +
				`interrupt.resolved g {"action":"accept"}|run.resumed|node.started a attempt 2|node.resumed g|node.completed g|node.started b|node.completed b|` +
				`node.completed a|run.completed {"a":{},"b":{}}`,
		},
		"an interrupt that nobody answered is still there after the pause": {
			nodes: []string{"a " + delay, "g core.approvalGate"},
			script: func(w *world) {
				w.mustDo(drain)
				w.pass(time.Second)
				w.is("paused")
				w.mustDo(engine.Resume{})
				w.is("waiting-approval")
			},
			want: `run.started|node.started a|node.started g|node.suspended g approval g:i1|interrupt.requested g|runnerd.run.pausing|node.completed a|run.paused|run.resumed`,
		},
		"a paused run can be cancelled": {
			nodes: []string{"a " + delay, "b core.noop"}, edges: []string{"a>b"},
			script: func(w *world) { w.mustDo(atOne); w.mustDo(engine.Cancel{}) },
			want:   `run.started|node.started a|run.paused|node.cancelled a|run.cancelled`,
		},
		"an attempt after a pause is a node start": {
			more: `{}`, nodes: []string{"a " + delay},
			script: func(w *world) {
				w.caps.NodeExecutions = 1
				w.mustDo(atOne)
				w.mustDo(engine.Resume{})
			},
			want: `run.started|node.started a|run.paused|run.resumed|node.cancelled a|cap.breached a node-executions limit 1 observed 2|run.failed recursion_limit_exceeded`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, workflow(t, c.more, c.nodes, c.edges))
			w.create()
			c.script(w)
			if diff := cmp.Diff(strings.Split(c.want, "|"), w.story()); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPausedTimeDoesNotCount(t *testing.T) {
	w := newWorld(t, workflow(t, "", []string{"a " + aDelay, "b " + aDelay}, []string{"a>b"}))
	w.created.Configurable = []byte(`{"runTimeoutMs":61000}`)
	w.create()
	w.mustDo(drain)
	w.pass(time.Minute)
	w.is("paused")
	w.pass(1000 * time.Hour)
	w.mustDo(engine.Resume{})
	w.pass(time.Minute)
	w.is("completed")
}

// Each refusal carries the status that the run is in (wire section 8).
func TestPauseAndResumeAreRefusedWithTheStatus(t *testing.T) {
	wait := "core.delay {\"config\":{\"delayMs\":1000}}"
	for name, c := range map[string]struct {
		node   string
		script func(*world)
		in     engine.Input
		status string
		at     bool
	}{
		"a run that runs is not resumed":           {wait, func(*world) {}, engine.Resume{}, "running", false},
		"a run that is paused is not paused again": {wait, func(w *world) { w.mustDo(atOne) }, atOne, "paused", true},
		"nor while it drains":                      {wait, func(w *world) { w.mustDo(drain) }, drain, "paused", true},
		"a completed run":                          {"core.noop", func(*world) {}, drain, "completed", false},
		"a cancelled run":                          {wait, func(w *world) { w.mustDo(engine.Cancel{}) }, engine.Resume{}, "cancelled", false},
		"a run that waits for somebody":            {"core.approvalGate", func(*world) {}, drain, "waiting-approval", false},
		"a run that waits for an answer":           {"core.approvalGate", func(*world) {}, engine.Resume{}, "waiting-approval", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, workflow(t, "", []string{"a " + c.node}, nil))
			w.create()
			c.script(w)
			err := w.do(c.in)
			e, ok := errors.AsType[*engine.StateError](err)
			if !ok || e.Status != c.status || (e.PausedAt != nil) != c.at || !engine.Refused(err) {
				t.Errorf("error = %#v, want one with status %s", err, c.status)
			}
		})
	}
	w := newWorld(t, workflow(t, "", []string{"a " + wait}, nil))
	w.create()
	err := w.do(engine.Pause{Policy: "soon"})
	if e, ok := errors.AsType[*wire.FieldError](err); !ok || e.Field != "drainPolicy" {
		t.Errorf("another policy: %v, want an error about drainPolicy", err)
	}
}

func TestSnapshotShowsWhatWasCut(t *testing.T) {
	w := newWorld(t, workflow(t, "", []string{"a " + aDelay}, nil))
	w.create()
	w.mustDo(engine.Pause{Policy: engine.DrainImmediate, Reason: "lunch", By: "ann"})
	if got := engine.Snapshot(w.wf, w.s); got.Status != "paused" || got.NodeStates["a"].Status != "paused" || got.CurrentNodeID != "a" {
		t.Errorf("snapshot = %+v", got)
	}
	if got, want := string(w.log[len(w.log)-1].Payload), `{"reason":"lunch","drainPolicy":"immediate","pausedBy":"ann"}`; got != want {
		t.Errorf("run.paused = %s, want %s", got, want)
	}
}
