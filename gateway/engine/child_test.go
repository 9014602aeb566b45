package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/engine"
)

const callsChild = `s core.subWorkflow {"config":{"workflowId":"c","outputMapping":{"got":"v"}}}`

func TestSubWorkflowGoesAsItsChildEnds(t *testing.T) {
	started := `run.started|node.started s|node.dispatched s c|`
	lost := engine.ChildEnded{Status: "failed", Error: &engine.SnapshotError{Code: "node_failed", Message: "sorry"}}
	for name, c := range map[string]struct {
		nodes, edges []string
		script       func(*world)
		want         string
	}{
		"its variables and outputs become the node's": {
			nodes: []string{callsChild, `n core.identity {"inputs":{"x":{"type":"variable","variableName":"got"}}}`}, edges: []string{"s>n"},
			script: func(w *world) {
				w.childEnds(engine.ChildEnded{Status: "completed", Outputs: json.RawMessage(`{"o":1}`), Variables: map[string]json.RawMessage{"v": json.RawMessage(`"yes"`)}})
			},
			want: `variable.changed s got="yes"|node.completed s|node.started n|node.completed n|run.completed {"x":"yes"}`,
		},
		"an output may be mapped like a variable": {
			nodes: []string{callsChild},
			script: func(w *world) {
				w.childEnds(engine.ChildEnded{Status: "completed", Outputs: json.RawMessage(`{"v":2}`)})
			},
			want: `variable.changed s got=2|node.completed s|` +
				`run.completed {"childRunId":"run_f0e2c1d3","childStatus":"completed","outputs":{"v":2},"got":2}`,
		},
		"what is mapped must be there": {
			nodes: []string{callsChild}, script: func(w *world) { w.childEnds(engine.ChildEnded{Status: "completed"}) },
			want: `node.failed s invalid_input|run.failed invalid_input`,
		},
		"its failure fails the parent": {
			nodes: []string{callsChild}, script: func(w *world) { w.childEnds(lost) },
			want: `node.failed s child_run_failed|run.failed child_run_failed`,
		},
		"its failure may be an output": {
			nodes: []string{`s core.subWorkflow {"config":{"workflowId":"c","onChildFailure":"continue"}}`}, script: func(w *world) { w.childEnds(lost) },
			want: `node.completed s|run.completed {"childRunId":"run_f0e2c1d3","childStatus":"failed","error":{"code":"node_failed","message":"sorry"}}`,
		},
		"its cancellation fails the parent": {
			nodes: []string{callsChild}, script: func(w *world) { w.childEnds(engine.ChildEnded{Status: "cancelled"}) },
			want: `node.failed s child_run_failed|run.failed child_run_failed`,
		},
		"a cancel reaches it": {
			nodes: []string{callsChild}, script: func(w *world) { w.mustDo(engine.Cancel{}) },
			want: `node.cancelled s|run.cancelled`,
		},
		"nobody waits for one that is let go": {
			nodes:  []string{`s core.subWorkflow {"config":{"workflowId":"c","waitForCompletion":false}}`},
			script: func(*world) {},
			want:   `node.completed s|run.completed {"childRunId":"run_f0e2c1d3","childStatus":"pending"}`,
		},
		"a pause holds it up too": {
			nodes: []string{callsChild},
			script: func(w *world) {
				w.mustDo(atOne)
				w.is("paused")
				w.mustDo(engine.Resume{})
				w.mustDo(atOne)
				w.childEnds(engine.ChildEnded{Status: "completed", Outputs: json.RawMessage(`{"v":2}`)})
				w.is("paused")
				w.mustDo(engine.Resume{})
			},
			want: `run.paused|run.resumed|run.paused|variable.changed s got=2|node.completed s|run.resumed|` +
				`run.completed {"childRunId":"run_f0e2c1d3","childStatus":"completed","outputs":{"v":2},"got":2}`,
		},
		"a drain waits for it": {
			nodes: []string{callsChild},
			script: func(w *world) {
				w.mustDo(drain)
				w.childEnds(engine.ChildEnded{Status: "completed", Outputs: json.RawMessage(`{"v":2}`)})
				w.is("paused")
			},
			want: `runnerd.run.pausing|variable.changed s got=2|node.completed s|run.paused`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, workflow(t, "", c.nodes, c.edges))
			w.create()
			id := engine.Snapshot(w.wf, w.s).NodeStates["s"].ChildRunID
			c.script(w)
			want := strings.ReplaceAll(started+c.want, "run_f0e2c1d3", id)
			if diff := cmp.Diff(strings.Split(want, "|"), w.story()); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

// A child gets what its node has, the parent's options and the parent's owner, and is somebody's child.
func TestChildStartsWithWhatItsParentGivesIt(t *testing.T) {
	w := newWorld(t, workflow(t, `{"variables":[{"name":"pw","type":"string","sensitive":true}]}`, []string{
		`m core.ai.callPrompt {"config":{"prompt":"x"}}`,
		`s core.subWorkflow {"config":{"workflowId":"c","inputMapping":{"secret":"pw"},"configurable":{"own":1,"model":"m2"}},"inputs":{"text":{"type":"connection","nodeId":"m","outputKey":"text"}}}`,
	}, []string{"m>s"}))
	w.created.Inputs, w.created.Tags = json.RawMessage(`{"pw":"hunter2"}`), []string{"t"}
	w.created.Configurable = json.RawMessage(`{"model":"m1","ai.provider":"p","runner.id":"rnr_1","recursionLimit":50,"runTimeoutMs":60000,"mine":1}`)
	w.created.Metadata = json.RawMessage(`{"k":1}`)
	w.create()
	w.accept("m:1:1")
	w.passed += 10 * time.Second
	w.result("m:1:1", `{"text":"hi"}`)
	got := w.child()
	want := engine.StartChild{NodeID: "s", WorkflowID: "c", Created: engine.Created{
		RunID: got.Created.RunID, Owner: w.created.Owner, Inputs: json.RawMessage(`{"secret":"hunter2","text":"hi"}`),
		Configurable: json.RawMessage(`{"ai.provider":"p","model":"m2","own":1,"runner.id":"rnr_1"}`), Tags: []string{"t"}, Metadata: json.RawMessage(`{"k":1}`),
		Parent: &engine.Parent{RunID: "run_1", NodeID: "s", Depth: 1, Children: 62, TimeoutMs: 50_000}, Untrusted: true, Sensitive: []string{"secret"},
	}}
	text := cmp.Transformer("text", func(m json.RawMessage) string { return string(m) })
	if diff := cmp.Diff(want, got, text); diff != "" {
		t.Errorf("child (-want +got):\n%s", diff)
	}
	if log, _ := json.Marshal(w.log); strings.Contains(string(log), "hunter2") {
		t.Errorf("the parent's log tells a sensitive variable: %s", log)
	}

	kid := newWorld(t, workflow(t, "", []string{`n core.ai.callPrompt {"inputs":{"prompt":{"type":"variable","variableName":"text"}}}`,
		`i core.identity {"inputs":{"s":{"type":"variable","variableName":"secret"}}}`}, nil))
	kid.created = got.Created
	kid.create()
	if in := modelInputs(t, kid.steps["n:1:1"]); !strings.Contains(in.Messages[0].Content.String(), "<UNTRUSTED") {
		t.Errorf("what a step gave the parent is not fenced in the child: %+v", in)
	}
	kid.pass(time.Second)
	kid.result("n:1:1", `{"text":"bye"}`)
	if log, _ := json.Marshal(kid.log); strings.Contains(string(log)+snapshot(kid.wf, kid.s), "hunter2") {
		t.Errorf("the child tells a sensitive variable: %s", log)
	}
	end, parent, ok := engine.ChildResult(kid.wf, kid.s)
	if diff := cmp.Diff(*want.Created.Parent, parent); !ok || diff != "" {
		t.Errorf("parent %v (-want +got):\n%s", ok, diff)
	}
	if end.Status != "completed" || !end.Untrusted || string(end.Variables["text"]) != `"hi"` || end.Variables["secret"] != nil {
		t.Errorf("result = %+v", end)
	}
	if got := engine.Snapshot(kid.wf, kid.s).Parent; got == nil || *got != (engine.ParentRef{RunID: "run_1", NodeID: "s"}) {
		t.Errorf("the child's snapshot names %+v as its parent", got)
	}
}

func TestChildResultIsForChildrenThatHaveEnded(t *testing.T) {
	wf := workflow(t, "", []string{"a " + aDelay}, nil)
	for _, parent := range []*engine.Parent{nil, {RunID: "p", NodeID: "n", Depth: 1}} {
		w := newWorld(t, wf)
		w.created.Parent = parent
		w.create()
		if _, _, ok := engine.ChildResult(wf, w.s); ok {
			t.Error("a run that goes on has a result")
		}
		w.mustDo(engine.Cancel{})
		if in, _, ok := engine.ChildResult(wf, w.s); ok != (parent != nil) || ok && in.Status != "cancelled" {
			t.Errorf("result of a child of %v: %+v, %v", parent, in, ok)
		}
	}
}

// A tree of runs is bounded in depth and in number.
func TestRunsStartOnlySoManyOthers(t *testing.T) {
	w := newWorld(t, workflow(t, "", []string{callsChild}, nil))
	w.created.Parent = &engine.Parent{RunID: "p", NodeID: "n", Depth: 5, Children: 10}
	w.create()
	endsWith(t, w, "recursion_limit_exceeded")

	w = newWorld(t, workflow(t, "", []string{callsChild}, nil))
	w.created.Parent = &engine.Parent{RunID: "p", NodeID: "n", Depth: 1}
	w.create()
	endsWith(t, w, "recursion_limit_exceeded")

	var nodes, edges []string
	for i := range 200 {
		nodes = append(nodes, fmt.Sprintf(`n%d core.subWorkflow {"config":{"workflowId":"c","waitForCompletion":false}}`, i))
		if i > 0 {
			edges = append(edges, fmt.Sprintf("n%d>n%d", i-1, i))
		}
	}
	w = newWorld(t, workflow(t, "", nodes, edges))
	w.create()
	endsWith(t, w, "recursion_limit_exceeded")
	total := 0
	for _, e := range w.last.Effects {
		if kid, ok := e.(engine.StartChild); ok {
			total += 1 + kid.Created.Parent.Children
		}
	}
	if total > 1000 || total < 900 {
		t.Errorf("the tree may have %d runs, want about 1000", total)
	}
}

// A child's time is the parent's too, but not the time in which it waits.
func TestChildsTimeCounts(t *testing.T) {
	w := newWorld(t, workflow(t, "", []string{callsChild, "d " + aDelay}, []string{"s>d"}))
	w.created.Configurable = json.RawMessage(`{"runTimeoutMs":60000}`)
	w.create()
	w.pass(100 * time.Hour)
	w.childEnds(engine.ChildEnded{Status: "completed", Outputs: json.RawMessage(`{"v":2}`), Spent: 40 * time.Second})
	w.pass(time.Hour)
	endsWith(t, w, "run_timeout")
	if got := w.story(); !slices.Contains(got, "cap.breached run-duration limit 60000 observed 60001") {
		t.Errorf("log = %v", got)
	}
}

func TestChildThatIsNotWaitedForIsStale(t *testing.T) {
	w := newWorld(t, workflow(t, "", []string{callsChild}, nil))
	w.create()
	for _, id := range []string{"", "run_2", "run_1"} {
		if err := w.do(engine.ChildEnded{RunID: id, Status: "completed"}); !errors.Is(err, engine.ErrStale) {
			t.Errorf("end of %q: %v, want ErrStale", id, err)
		}
	}
}

func TestSubWorkflowNeedsAHostThatStartsRuns(t *testing.T) {
	d, err := engine.Decide(workflow(t, "", []string{callsChild}, nil), nil, engine.Created{RunID: "r"}, env())
	if err != nil || len(d.Effects) > 0 {
		t.Fatalf("%s, %v", show(d), err)
	}
	if got := engine.Snapshot(workflow(t, "", []string{callsChild}, nil), d.Next).Error; got == nil || got.Code != "capability_not_provided" {
		t.Errorf("error = %+v, want capability_not_provided", got)
	}
}

func TestSubWorkflowThatCannotBeStartedFailsItsNode(t *testing.T) {
	for name, config := range map[string]string{
		"no workflow":              `{}`,
		"a mapping of no names":    `{"workflowId":"c","outputMapping":{"a":1}}`,
		"a policy of nobody":       `{"workflowId":"c","onChildFailure":"cry"}`,
		"a variable without value": `{"workflowId":"c","inputMapping":{"a":"nothing"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, workflow(t, "", []string{`s core.subWorkflow {"config":` + config + `}`}, nil))
			w.create()
			endsWith(t, w, "invalid_input")
		})
	}
}
