package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/engine"
)

const aDelay = `core.delay {"config":{"delayMs":30000}}`

// The duration of a run is what its caps are about; waiting in a queue is no part of it.
func TestRunDuration(t *testing.T) {
	model := `core.ai.callPrompt {"config":{"prompt":"hi"}}`
	for name, c := range map[string]struct {
		more, configurable string
		caps               engine.Caps
		nodes, edges       []string
		script             func(*world)
		want               string
	}{
		"past the run's timeout it fails": {
			configurable: `{"runTimeoutMs":1000}`, nodes: []string{"a " + aDelay},
			script: func(w *world) { w.pass(time.Minute) },
			want:   `run.started|node.started a|node.cancelled a|cap.breached run-duration limit 1000 observed 1001|run.failed run_timeout`,
		},
		"the workflow's timeout counts": {
			more: `{"settings":{"timeout":2000}}`, configurable: `{"runTimeoutMs":3000}`, nodes: []string{"a " + aDelay},
			script: func(w *world) { w.pass(time.Minute) },
			want:   `run.started|node.started a|node.cancelled a|cap.breached run-duration limit 2000 observed 2001|run.failed run_timeout`,
		},
		"the host's ceiling counts": {
			caps: engine.Caps{RunDuration: time.Second}, configurable: `{"runTimeoutMs":9007199254740991}`, nodes: []string{"a " + aDelay},
			script: func(w *world) { w.pass(time.Minute) },
			want:   `run.started|node.started a|node.cancelled a|cap.breached run-duration limit 1000 observed 1001|run.failed run_timeout`,
		},
		"a run within its timeout completes, and leaves no timer": {
			configurable: `{"runTimeoutMs":30001}`, nodes: []string{"a " + aDelay},
			script: func(w *world) { w.pass(time.Hour) },
			want:   `run.started|node.started a|node.completed a|run.completed {}`,
		},
		"waiting for a runner does not count": {
			configurable: `{"runTimeoutMs":1000}`, nodes: []string{"a " + model},
			script: func(w *world) {
				w.pass(time.Hour)
				w.accept("a:1:1")
				w.pass(999 * time.Millisecond)
				w.result("a:1:1", `{"text":"x"}`)
			},
			want: `run.started|node.started a|runnerd.step.accepted a|output.chunk a "x" last|node.completed a|run.completed {"text":"x"}`,
		},
		"the time of a step that a runner holds counts": {
			configurable: `{"runTimeoutMs":1000}`, nodes: []string{"a " + model},
			script: func(w *world) { w.pass(time.Hour); w.accept("a:1:1"); w.pass(time.Hour) },
			want:   `run.started|node.started a|runnerd.step.accepted a|node.cancelled a|cap.breached run-duration limit 1000 observed 1001|run.failed run_timeout`,
		},
		"what was spent before a wait counts after it": {
			configurable: `{"runTimeoutMs":1000}`, nodes: []string{"a " + model, "b " + model}, edges: []string{"a>b"},
			script: func(w *world) {
				w.accept("a:1:1")
				w.pass(700 * time.Millisecond)
				w.result("a:1:1", `{"text":"x"}`)
				w.pass(time.Hour)
				w.accept("b:1:1")
				w.pass(time.Hour)
			},
			want: `run.started|node.started a|runnerd.step.accepted a|output.chunk a "x" last|node.completed a|node.started b|` +
				`runnerd.step.accepted b|node.cancelled b|cap.breached run-duration limit 1000 observed 1001|run.failed run_timeout`,
		},
		"a step that went back into the queue waits again": {
			configurable: `{"runTimeoutMs":1000}`, nodes: []string{"a " + model},
			script: func(w *world) {
				w.accept("a:1:1")
				w.accept("a:1:1")
				w.pass(999 * time.Millisecond)
				w.mustDo(engine.StepPhase{StepID: "a:1:1"})
				w.mustDo(engine.StepPhase{StepID: "a:1:1"})
				w.pass(time.Hour)
				w.accept("a:1:1")
				w.pass(2 * time.Millisecond)
			},
			want: `run.started|node.started a|runnerd.step.accepted a|runnerd.step.queued a|runnerd.step.accepted a|node.cancelled a|` +
				`cap.breached run-duration limit 1000 observed 1001|run.failed run_timeout`,
		},
		"a branch that goes on counts while another waits": {
			configurable: `{"runTimeoutMs":1000}`, nodes: []string{"a " + model, "b " + aDelay},
			script: func(w *world) { w.pass(time.Hour) },
			want:   `run.started|node.started a|node.started b|node.cancelled a|node.cancelled b|cap.breached run-duration limit 1000 observed 1001|run.failed run_timeout`,
		},
		"one node start too many fails the run": {
			configurable: `{"recursionLimit":2}`, nodes: []string{"a core.noop", "b core.noop", "c core.noop"}, edges: []string{"a>b", "b>c"},
			want: `run.started|node.started a|node.completed a|node.started b|node.completed b|` +
				`cap.breached c node-executions limit 2 observed 3|run.failed recursion_limit_exceeded`,
		},
		"a larger limit than the host's is clamped to it": {
			configurable: `{"recursionLimit":5}`, caps: engine.Caps{NodeExecutions: 1}, nodes: []string{"a core.noop", "b core.noop"}, edges: []string{"a>b"},
			want: `run.started|node.started a|node.completed a|cap.breached b node-executions limit 1 observed 2|run.failed recursion_limit_exceeded`,
		},
		"an attempt is a node start": {
			configurable: `{"recursionLimit":1}`, more: `{"settings":{"maxRetries":1}}`, nodes: []string{"a " + model},
			script: func(w *world) { w.lose("a:1:1", engine.OutcomeNotStarted); w.pass(time.Second) },
			want: `run.started|node.started a|node.retried a attempt 2 after 1000ms|node.cancelled a|` +
				`cap.breached a node-executions limit 1 observed 2|run.failed recursion_limit_exceeded`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, workflow(t, c.more, c.nodes, c.edges))
			w.created.Configurable, w.caps = []byte(c.configurable), c.caps
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

// The wall clock may jump (faults.md C01): event times follow it, and what the run has spent does not.
func TestRunDurationDoesNotFollowTheWallClock(t *testing.T) {
	for name, jump := range map[string]time.Duration{"a year ahead": 365 * 24 * time.Hour, "a year back": -365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			wf := workflow(t, "", []string{`a core.ai.callPrompt {"config":{"prompt":"x"}}`, `b core.ai.callPrompt {"config":{"prompt":"x"}}`}, []string{"a>b"})
			at := engine.Env{Now: start, Clock: clock}
			s := engine.NewState(wf)
			step := func(in engine.Input) engine.Decision {
				d, err := engine.Decide(wf, s, in, at)
				if err != nil {
					t.Fatalf("%T: %v", in, err)
				}
				s = d.Next
				return d
			}
			step(engine.Created{RunID: "r", Configurable: []byte(`{"runTimeoutMs":10000}`)})
			step(engine.StepPhase{StepID: "a:1:1", Accepted: true})
			at = engine.Env{Now: start.Add(jump), Clock: clock.Add(4 * time.Second)}
			step(engine.StepEnded{StepID: "a:1:1", Output: []byte(`{"text":"x"}`)})
			d := step(engine.StepPhase{StepID: "b:1:1", Accepted: true})
			want := []engine.Effect{engine.SetTimer{ID: "run:2", After: 6*time.Second + time.Millisecond}}
			if diff := cmp.Diff(want, d.Effects); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
		})
	}
}

// A timer that could never fire is a row written for nothing.
func TestRunWithinItsStepsTimeoutsNeedsNoTimer(t *testing.T) {
	w := newWorld(t, engine.Builtin())
	w.created.Inputs = []byte(`{"prompt":"hi"}`)
	w.create()
	w.accept("chat:1:1")
	if len(w.timers) != 0 {
		t.Errorf("timers = %v, want none: the step ends long before the run's default duration", w.timers)
	}
	w.result("chat:1:1", `{"text":"x"}`)
	if len(w.last.Effects) != 0 {
		t.Errorf("effects = %v, want none", described(w.last.Effects))
	}
}

func TestDecideIgnoresWhatIsNotOutstanding(t *testing.T) {
	w := newWorld(t, workflow(t, "", []string{`a core.ai.callPrompt {"config":{"prompt":"x"}}`, "b " + aDelay}, nil))
	stale := func(when string, inputs ...engine.Input) {
		t.Helper()
		for _, in := range inputs {
			if d, err := engine.Decide(w.wf, w.s, in, w.env()); !errors.Is(err, engine.ErrStale) {
				t.Errorf("%s: Decide(%#v) = %s, %v; want ErrStale", when, in, show(d), err)
			}
		}
	}
	others := []engine.Input{
		engine.StepEnded{StepID: "b:1:1"}, engine.StepEnded{StepID: "a:1:2"}, engine.StepEnded{StepID: "a:2:1"}, engine.StepEnded{StepID: "a"},
		engine.StepEnded{}, engine.StepEnded{StepID: "::"}, engine.Progress{StepID: "c:1:1", N: 1, Delta: "x"}, engine.StepPhase{StepID: "b:1:1", Accepted: true},
		engine.TimerFired{ID: "delay:b:2"}, engine.TimerFired{ID: "retry:b:1"}, engine.TimerFired{ID: "run:0"}, engine.TimerFired{ID: "run:2"}, engine.TimerFired{},
	}
	all := append([]engine.Input{
		engine.StepEnded{StepID: "a:1:1", Output: []byte(`{}`)}, engine.Progress{StepID: "a:1:1", N: 1, Delta: "x"},
		engine.StepPhase{StepID: "a:1:1", Accepted: true}, engine.TimerFired{ID: "delay:b:1"}, engine.TimerFired{ID: "run:1"}, engine.Cancel{},
	}, others...)
	stale("before the start", all...)
	w.create()
	stale("while it runs", append(others, w.created)...)
	w.mustDo(engine.Cancel{})
	stale("after the end", append(all, w.created)...)
}

// A duration breach is past the limit, not at it (wire 19.5), also when store time is only known to the millisecond.
func TestBreachIsObservedPastTheLimit(t *testing.T) {
	w := newWorld(t, workflow(t, "", []string{"a " + aDelay}, nil))
	w.created.Configurable = []byte(`{"runTimeoutMs":1000}`)
	w.create()
	w.passed = time.Second
	clear(w.timers)
	w.mustDo(engine.TimerFired{ID: "run:1"})
	if got, want := w.story()[3], "cap.breached run-duration limit 1000 observed 1001"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A capability that went away while the run was under way ends it, whatever edges lead on from the node.
func TestCapabilityThatWentAwayFailsTheRun(t *testing.T) {
	wf := workflow(t, "", []string{`a core.delay {"config":{"delayMs":5}}`, `b core.noop {"config":{"requires":["x.y"]}}`, "c core.noop"}, []string{"a>b", "b>c any_failed"})
	at := env()
	at.Provides = []string{"x.y"}
	d, err := engine.Decide(wf, nil, engine.Created{RunID: "r"}, at)
	if err != nil || d.Next.Terminal() {
		t.Fatalf("created: %s, %v", show(d), err)
	}
	d, err = engine.Decide(wf, d.Next, engine.TimerFired{ID: "delay:a:1"}, env())
	if got := engine.Snapshot(wf, d.Next); err != nil || got.Error == nil || got.Error.Code != "capability_not_provided" || got.NodeStates["c"].Status != "pending" {
		t.Errorf("snapshot = %+v, %v", got, err)
	}
}
