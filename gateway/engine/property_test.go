package engine_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"runnerd/gateway/engine"
	"runnerd/internal/schema/schematest"
)

// plan is what a random definition was made of, for the test's own judgement of the log.
type plan struct {
	disabled map[string]bool
	edges    []planEdge
	retries  int
}

type planEdge struct {
	from, to, rule string
	blocked        bool // its condition never holds
}

var ruleNames = []string{"all_success", "any_success", "all_complete", "none_failed", "any_failed"}

func drawPlan(t *rapid.T) (plan, string) {
	p := plan{disabled: map[string]bool{}, retries: rapid.IntRange(0, 2).Draw(t, "retries")}
	n := rapid.IntRange(1, 8).Draw(t, "nodes")
	var nodes, edges []string
	for i := range n {
		id, members := fmt.Sprintf("n%d", i), map[string]any{}
		typ := rapid.SampledFrom([]string{"core.noop", "core.identity", "core.fail", "core.delay", "core.ai.callPrompt", "core.ai.chatCompletion", "runnerd.tool",
			"core.approvalGate", "core.clarificationGate", "core.subWorkflow", "core.conformance.side-effect"}).Draw(t, "type")
		members["config"] = drawConfig(t, typ)
		if strings.HasPrefix(typ, "core.ai.") && rapid.Bool().Draw(t, "agent") {
			members["agent"] = map[string]any{"agentId": helperID}
		}
		if p.disabled[id] = rapid.IntRange(0, 9).Draw(t, "disabled") == 0; p.disabled[id] {
			members["disabled"] = true
		}
		for from := range i {
			if rapid.IntRange(0, 2).Draw(t, "edge") > 0 {
				continue
			}
			e := planEdge{from: fmt.Sprintf("n%d", from), to: id, rule: rapid.SampledFrom(ruleNames).Draw(t, "rule")}
			more := ""
			if e.blocked = rapid.IntRange(0, 9).Draw(t, "blocked") == 0; e.blocked {
				more = ` {"condition":{"type":"equals","left":"no.such","right":1}}`
			}
			p.edges = append(p.edges, e)
			edges = append(edges, e.from+">"+e.to+" "+e.rule+more)
			if rapid.Bool().Draw(t, "bind") {
				members["inputs"] = map[string]any{"in": map[string]any{"type": "connection", "nodeId": e.from, "outputKey": "output", "optional": rapid.Bool().Draw(t, "optional")}}
				if rapid.Bool().Draw(t, "expression") && typ != "core.subWorkflow" {
					members["inputs"] = map[string]any{"in": map[string]any{"type": "expression", "expression": "toJSON(nodes." + e.from + ")"}}
				}
			}
		}
		doc, _ := json.Marshal(members)
		nodes = append(nodes, id+" "+typ+" "+string(doc))
	}
	settings := fmt.Sprintf(`{"settings":{"maxRetries":%d,"timeout":%d}}`, p.retries, rapid.SampledFrom([]int{0, 1, 20_000, 100_000}).Draw(t, "timeout"))
	return p, definition(settings, nodes, edges)
}

func drawConfig(t *rapid.T, typ string) map[string]any {
	config := map[string]any{"prompt": "x", "tool": "t", "delayMs": rapid.IntRange(0, 60_000).Draw(t, "delay")}
	switch typ {
	case "core.approvalGate":
		config = map[string]any{
			"actions": []string{"accept", "reject", "refine", "edit-accept", "ask"}, "requiredApprovals": rapid.IntRange(1, 3).Draw(t, "required"),
			"rejectionPolicy": rapid.SampledFrom([]string{"single-veto", "majority"}).Draw(t, "policy"),
		}
	case "core.clarificationGate":
		config = map[string]any{"questions": []any{map[string]any{"id": "q", "question": "?"}}}
	case "core.subWorkflow":
		config = map[string]any{
			"workflowId": "c", "waitForCompletion": rapid.IntRange(0, 3).Draw(t, "waits") > 0, "outputMapping": map[string]any{"v": "v"},
			"onChildFailure": rapid.SampledFrom([]string{"fail-parent", "continue"}).Draw(t, "onFailure"),
		}
	}
	if rapid.Bool().Draw(t, "deadline") {
		config["timeoutMs"] = rapid.IntRange(1, 60_000).Draw(t, "timeout")
	}
	return config
}

// Whatever the workflow and whatever happens to its steps in whatever order: the run ends, once, and its log is one that the
// rules of the workflow allow. The world checks the rest at every decision: sequences, schemas, states folded from the log.
func TestAnyRunOfAnyWorkflowEndsByItsRules(t *testing.T) {
	schemas := schematest.Set(t)
	rapid.Check(t, func(t *rapid.T) {
		p, doc := drawPlan(t)
		wf, err := engine.Parse([]byte(doc))
		if err != nil {
			t.Fatalf("parse %s: %v", doc, err)
		}
		w := newWorldOf(t, schemas, wf)
		w.agents = map[string]*engine.Agent{helperID: helper()}
		if rapid.IntRange(0, 4).Draw(t, "mocked") == 0 {
			w.created.Configurable = json.RawMessage(fmt.Sprintf(`{"mockProvider":{"id":"stream-text","config":{"tokens":["a","b"],"delayMsPerToken":%d}}}`, rapid.IntRange(0, 5000).Draw(t, "token")))
		} else if rapid.IntRange(0, 4).Draw(t, "limited") == 0 {
			w.created.Configurable = json.RawMessage(fmt.Sprintf(`{"recursionLimit":%d,"runner.timeoutMs":1000}`, rapid.IntRange(1, 5).Draw(t, "limit")))
		}
		w.create()
		end(t, w)
		judgeLog(t, p, w)
		judgeSteps(t, w)
		from := int64(rapid.IntRange(0, len(w.log)).Draw(t, "from"))
		if rapid.Bool().Draw(t, "branch") {
			end(t, w.fork(engine.Fork{Mode: engine.ModeBranch, FromSeq: from}))
			return
		}
		var lists [][]string
		for _, late := range []time.Duration{0, 3 * time.Millisecond} {
			again := w.fork(engine.Fork{Mode: engine.ModeReplay, FromSeq: from})
			for left := 100; !again.s.Terminal(); left-- {
				if left == 0 || len(again.timers) == 0 {
					t.Fatalf("the replay from %d does not end: %v of %v", from, again.story(), w.story())
				}
				again.passed += late
				again.pass(time.Minute)
			}
			lists = append(lists, again.list())
		}
		if diff := cmp.Diff(lists[0], lists[1]); diff != "" {
			t.Fatalf("two replays from %d differ:\n%s", from, diff)
		}
	})
}

func end(t *rapid.T, w *world) {
	for left := 2000; !w.s.Terminal(); left-- {
		if left == 0 {
			t.Fatalf("the run does not end: %v", w.story())
		}
		act(t, w)
	}
}

// act lets one thing happen that moves the run on, and sometimes others that do not.
func act(t *rapid.T, w *world) {
	if rapid.IntRange(0, 40).Draw(t, "cancel") == 0 {
		w.mustDo(engine.Cancel{Reason: "because", By: "ann"})
		return
	}
	for _, in := range []engine.Input{engine.StepEnded{StepID: "n0:9:9"}, engine.TimerFired{ID: "run:99"}, engine.ChildEnded{RunID: "r"}, w.created} {
		if err := w.do(in); !errors.Is(err, engine.ErrStale) {
			t.Fatalf("%#v: %v, want ErrStale", in, err)
		}
	}
	if rapid.IntRange(0, 10).Draw(t, "pause") == 0 {
		policy := rapid.SampledFrom([]string{engine.DrainCurrentNode, engine.DrainImmediate}).Draw(t, "drain")
		if err := w.do(engine.Pause{Policy: policy}); err != nil && !engine.Refused(err) {
			t.Fatalf("pause: %v", err)
		}
	}
	if engine.Status(w.s) == engine.StatusPaused && rapid.Bool().Draw(t, "resume") {
		w.mustDo(engine.Resume{})
	}
	if w.s.Terminal() || somebodyActs(t, w) {
		return
	}
	steps := slices.Sorted(maps.Keys(w.steps))
	if len(steps) == 0 && len(w.timers) == 0 && (engine.Status(w.s) == engine.StatusPaused || len(w.kids)+len(engine.Interrupts(w.s)) > 0) {
		return
	}
	if len(steps) == 0 || len(w.timers) > 0 && rapid.Bool().Draw(t, "wait") {
		if len(w.timers) == 0 {
			t.Fatalf("nothing is outstanding, and the run has not ended: %v", w.story())
		}
		next := slices.MinFunc(slices.Collect(maps.Values(w.timers)), time.Time.Compare)
		w.pass(max(next.Sub(clock.Add(w.passed)), 0))
		return
	}
	id := rapid.SampledFrom(steps).Draw(t, "step")
	for n := range rapid.IntRange(0, 3).Draw(t, "progress") {
		w.mustDo(engine.Progress{StepID: id, N: int64(n + 1), Delta: "ab"})
	}
	if rapid.Bool().Draw(t, "accept") {
		w.accept(id)
		if rapid.IntRange(0, 3).Draw(t, "requeue") == 0 {
			w.mustDo(engine.StepPhase{StepID: id})
		}
	}
	w.passed += time.Duration(rapid.IntRange(0, 30_000).Draw(t, "took")) * time.Millisecond
	w.pass(0)
	if _, still := w.steps[id]; !still { // a timer ended the run first
		return
	}
	switch rapid.IntRange(0, 5).Draw(t, "outcome") {
	case 0:
		w.lose(id, engine.OutcomeNotStarted)
	case 1:
		w.lose(id, engine.OutcomeUnknown)
	case 3:
		tools := rapid.SliceOfN(rapid.SampledFrom([]string{`fs_list {}`, `fs_write {}`, `nothing {}`, `fs_list []`}), 1, 3).Draw(t, "tools")
		w.result(id, wants("ab", tools...))
	case 2:
		w.result(id, `{"error":{"code":"busy","message":"no"}}`)
	default:
		w.result(id, `{"text":"ababab","usage":{"inputTokens":1,"outputTokens":1}}`)
	}
}

// somebodyActs answers an interrupt or ends a child, perhaps.
func somebodyActs(t *rapid.T, w *world) bool {
	if open := engine.Interrupts(w.s); len(open) > 0 && rapid.IntRange(0, 2).Draw(t, "answer") == 0 {
		in := rapid.SampledFrom(open).Draw(t, "interrupt")
		value := `{"q":"x","q1":"y"}`
		if in.Kind == engine.KindApproval {
			value = fmt.Sprintf(`{"action":%q,"voter":"v%d","comment":"c","question":"?","editedArtifactData":1}`,
				rapid.SampledFrom([]string{"accept", "accept", "accept", "reject", "refine", "edit-accept", "ask", "applaud"}).Draw(t, "action"), rapid.IntRange(0, 5).Draw(t, "voter"))
		} else if bytes.Contains(in.Data, []byte(`"q1"`)) {
			value = `{"q1":"y"}`
		} else {
			value = `{"q":"x"}`
		}
		err := w.do(engine.Resolve{InterruptID: in.InterruptID, Value: json.RawMessage(value), By: "ann", Authorized: rapid.Bool().Draw(t, "authorized")})
		if err != nil && !engine.Refused(err) {
			t.Fatalf("answer %s to %s: %v", value, in.InterruptID, err)
		}
		return true
	}
	if ids := slices.Sorted(maps.Keys(w.kids)); len(ids) > 0 && rapid.Bool().Draw(t, "child") {
		in := engine.ChildEnded{RunID: rapid.SampledFrom(ids).Draw(t, "which"), Status: rapid.SampledFrom([]string{"completed", "completed", "failed", "cancelled"}).Draw(t, "ended")}
		if rapid.Bool().Draw(t, "told") {
			in.Variables = map[string]json.RawMessage{"v": json.RawMessage(`1`)}
		}
		delete(w.kids, in.RunID)
		delete(w.held, in.RunID)
		w.mustDo(in)
		return true
	}
	return false
}

// judgeLog goes through the log with rules of its own.
func judgeLog(t *rapid.T, p plan, w *world) {
	status, paused := map[string]string{}, false
	for i, e := range w.log {
		terminal := slices.Contains([]string{"run.completed", "run.failed", "run.cancelled"}, e.Type)
		if terminal != (i == len(w.log)-1) {
			t.Fatalf("event %d of %d is %s", i, len(w.log), e.Type)
		}
		switch e.Type {
		case "node.started":
			if s := status[e.NodeID]; s != "" && s != "retried" && s != "cut" {
				t.Fatalf("node %s is %s and starts", e.NodeID, s)
			}
			if why := p.forbids(e.NodeID, status); why != "" && status[e.NodeID] == "" {
				t.Fatalf("node %s starts although %s: %v", e.NodeID, why, w.story())
			}
			if paused {
				t.Fatalf("node %s starts while the run is paused: %v", e.NodeID, w.story())
			}
			status[e.NodeID] = "started"
		case "node.suspended":
			status[e.NodeID] = "suspended"
		case "node.resumed":
			status[e.NodeID] = "started"
		case "node.dispatched":
			status[e.NodeID] = "child"
		case "run.paused":
			paused = true
			for id, s := range status {
				if s == "started" || s == "retried" {
					status[id] = "cut"
				}
			}
		case "run.resumed":
			paused = false
		case "node.skipped":
			if status[e.NodeID] != "" {
				t.Fatalf("node %s is %s and is skipped", e.NodeID, status[e.NodeID])
			}
			status[e.NodeID] = "skipped"
		case "node.completed", "node.failed", "node.cancelled", "node.retried":
			switch s := status[e.NodeID]; {
			case s == "started" || s == "suspended" || s == "child":
			case (s == "retried" || s == "cut") && e.Type == "node.cancelled":
			default:
				t.Fatalf("node %s is %q and has %s", e.NodeID, s, e.Type)
			}
			status[e.NodeID] = e.Type[len("node."):]
		case "run.completed":
			for id, s := range status {
				if s == "failed" && !p.absorbed(id, status) {
					t.Fatalf("the run completes although node %s failed and nothing took care of it: %v", id, w.story())
				}
			}
			if len(status) != len(p.disabled) {
				t.Fatalf("the run completes with nodes left: %v", status)
			}
		}
	}
	for id, s := range status {
		if s == "started" || s == "retried" || s == "cut" || s == "suspended" || s == "child" {
			t.Fatalf("the run has ended and node %s is %s", id, s)
		}
	}
}

// forbids says why a node may not start while the others are as they are; empty: it may.
func (p plan) forbids(id string, status map[string]string) string {
	if p.disabled[id] {
		return "it is disabled"
	}
	rules := map[string]map[string]int{}
	for _, e := range p.edges {
		if e.to != id {
			continue
		}
		came := status[e.from]
		switch {
		case came == "completed" && e.blocked:
			came = "skipped"
		case slices.Contains([]string{"", "started", "retried", "cut", "suspended", "child"}, came):
			came = "pending"
		}
		if rules[e.rule] == nil {
			rules[e.rule] = map[string]int{}
		}
		rules[e.rule][came]++
		rules[e.rule]["all"]++
	}
	for rule, n := range rules {
		ok := map[string]bool{
			"all_success":  n["completed"] == n["all"],
			"any_success":  n["completed"] > 0,
			"all_complete": n["pending"] == 0,
			"none_failed":  n["pending"] == 0 && n["failed"] == 0,
			"any_failed":   n["failed"] > 0,
		}[rule]
		if !ok {
			return fmt.Sprintf("%s is not met by %v", rule, n)
		}
	}
	return ""
}

func (p plan) absorbed(id string, status map[string]string) bool {
	return slices.ContainsFunc(p.edges, func(e planEdge) bool {
		return e.from == id && status[e.to] != "skipped" && (e.rule == "any_success" || e.rule == "all_complete" || e.rule == "any_failed")
	})
}

// judgeSteps checks that a step was given out more often than once only after somebody said that it was not started.
func judgeSteps(t *rapid.T, w *world) {
	retried := map[string]int{}
	for _, e := range w.log {
		if e.Type == engine.TypeNodeRetried {
			retried[e.NodeID]++
		}
	}
	for id, n := range w.given {
		node, _, _ := strings.Cut(id, ":")
		if n > retried[node]+1 {
			t.Fatalf("step %s was dispatched %d times and found not started %d times", id, n, retried[id])
		}
	}
}

// A log that is not ours is refused or folded, and what is folded can be decided on and written down.
func FuzzFold(f *testing.F) {
	wf := workflow(f, `{"settings":{"maxRetries":1}}`, []string{`a core.ai.callPrompt {"config":{"prompt":"x"}}`, `b core.delay {"config":{"delayMs":9}}`,
		`c core.identity {"inputs":{"x":{"type":"connection","nodeId":"a","outputKey":"output","optional":true}}}`,
		`g core.approvalGate {"config":{"requiredApprovals":2,"timeoutMs":999999}}`, callsChild,
		`h runnerd.agent {"agent":{"agentId":"` + helperID + `"},"config":{"prompt":"x"}}`}, []string{"a>c all_complete"})
	w := newWorld(f, wf)
	w.agents = map[string]*engine.Agent{helperID: helper()}
	w.created.Inputs = json.RawMessage(`{"x":1}`)
	w.create()
	w.lose("a:1:1", engine.OutcomeNotStarted)
	w.pass(time.Minute)
	w.mustAnswer("g", "ann", `{"action":"accept"}`)
	w.mustDo(engine.Pause{Policy: engine.DrainImmediate})
	w.mustDo(engine.Resume{})
	w.childEnds(engine.ChildEnded{Status: "completed", Outputs: json.RawMessage(`{"v":2}`)})
	w.accept("a:1:2")
	w.mustDo(engine.Progress{StepID: "a:1:2", N: 1, Delta: "h"})
	w.result("a:1:2", `{"text":"hi","usage":{"inputTokens":1,"outputTokens":1}}`)
	w.result("h:1:2", wants("", `fs_list {}`, `fs_write {}`))
	w.result("h:2:1", `{"result":1}`)
	open := slices.Clone(w.log)
	w.mustAnswer("h", "ann", `{"action":"accept"}`)
	w.result("h:3:1", `{"result":1}`)
	w.result("h:4:1", `{"text":"x"}`)
	w.pass(time.Minute)
	w.mustAnswer("g", "bob", `{"action":"accept"}`)
	w.is("completed")
	branch := w.fork(engine.Fork{Mode: engine.ModeBranch, FromSeq: 5})
	for _, log := range [][]engine.Event{w.log, open, branch.log, w.log[:3], w.log[:5]} {
		doc, err := json.Marshal(log)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(doc)
	}
	schemas := schematest.Set(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		var log []engine.Event
		unwritten := func(e engine.Event) bool { _, err := e.Encode(); return err != nil }
		if json.Unmarshal(doc, &log) != nil || slices.ContainsFunc(log, unwritten) { // no store holds such a log
			return
		}
		s, err := engine.Fold(wf, events(t, log))
		if err != nil || s.LastSequence() < 0 {
			return
		}
		_ = engine.Snapshot(wf, s, engine.ShowInterrupt)
		for _, f := range []engine.Fork{{RunID: "r", Mode: engine.ModeBranch, FromSeq: int64(len(log) / 2)}, {RunID: "r", Mode: engine.ModeReplay, FromSeq: int64(len(log) - 1)}} {
			_, _ = engine.ForkRun(wf, events(t, log), f, w.env())
		}
		for _, in := range []engine.Input{
			engine.StepEnded{StepID: "a:1:1", Output: []byte(`{"text":"x"}`)}, engine.Progress{StepID: "a:1:1", N: 9, Delta: "x"}, engine.Cancel{},
			engine.Resolve{NodeID: "g", Value: []byte(`{"action":"accept"}`)}, engine.Pause{}, engine.Pause{Policy: engine.DrainImmediate}, engine.Resume{},
			engine.ChildEnded{RunID: "r", Status: "completed", Outputs: []byte(`{"v":1}`)}, engine.TimerFired{ID: "gate:g:i1"},
			engine.StepEnded{StepID: "h:1:1", Output: []byte(wants("", `fs_list {}`, `fs_write {}`))}, engine.StepEnded{StepID: "h:2:1", Output: []byte(`{"result":1}`)},
			engine.TimerFired{ID: "gate:h:i1"}, engine.Resolve{NodeID: "h", Value: []byte(`{"action":"reject"}`), Authorized: true},
			engine.TimerFired{ID: "delay:b:1"}, engine.TimerFired{ID: "run:1"}, engine.StepPhase{StepID: "a:1:1", Accepted: true},
		} {
			d, err := engine.Decide(wf, s, in, w.env())
			if err != nil {
				continue
			}
			for _, e := range d.Events {
				doc, err := json.Marshal(e)
				if err == nil && e.RunID != "" && log[0].RunID == w.created.RunID {
					err = schemas.Event(doc)
				}
				if err != nil {
					t.Errorf("%T gives %s: %v", in, doc, err)
				}
			}
		}
	})
}
