package engine_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/engine"
	"runnerd/internal/wire"
)

// A tale is a run with a bit of everything, step by step.
func tale(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, workflow(t, `{"settings":{"maxRetries":2},"variables":[{"name":"pw","type":"string","sensitive":true}]}`, []string{
		`m core.ai.callPrompt {"config":{"prompt":"x"},"inputs":{"pw":{"type":"variable","variableName":"pw"}}}`,
		`d core.delay {"config":{"delayMs":1000}}`,
		`g core.approvalGate {"config":{"requiredApprovals":2,"actions":["accept","ask"],"timeoutMs":60000},"inputs":{"text":{"type":"connection","nodeId":"m","outputKey":"text"}}}`,
		callsChild,
		`f runnerd.tool {"config":{"tool":"t"}}`,
		`e core.identity {"inputs":{"x":{"type":"expression","expression":"nodes.m.text + nodes.g.action"}}}`,
	}, []string{"m>d", "d>g", "g>s", "s>f", "f>e any_failed"}))
	w.created.Inputs, w.created.Configurable = json.RawMessage(`{"pw":"hunter2"}`), json.RawMessage(`{"runner.id":"rnr_1","model":"m1"}`)
	w.created.Metadata = json.RawMessage(`{"k":1}`)
	w.create()
	w.lose("m:1:1", engine.OutcomeNotStarted)
	w.pass(time.Second)
	w.accept("m:1:1")
	w.mustDo(engine.Progress{StepID: "m:1:1", N: 1, Delta: "he"})
	w.passed += 123 * time.Millisecond
	w.result("m:1:1", `{"text":"hello","usage":{"inputTokens":1,"outputTokens":2}}`)
	w.passed += 3 * time.Millisecond // a timer is late
	w.pass(time.Second)
	w.mustAnswer("g", "ann", `{"action":"accept"}`)
	w.mustAnswer("g", "bob", `{"action":"ask","question":"why?"}`)
	w.mustAnswer("g", "ann", `{"q1":"because"}`)
	w.mustAnswer("g", "bob", `{"action":"accept","comment":"ok"}`)
	w.childEnds(engine.ChildEnded{Status: "completed", Outputs: json.RawMessage(`{"v":2}`), Spent: time.Second})
	w.result("f:1:1", `{"error":{"code":"tool_error","message":"no"}}`)
	w.is("completed")
	return w
}

// withoutRunner leaves out what a replay has no runner for.
func withoutRunner(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.HasPrefix(line, "runnerd.step.") })
}

// A replay comes to the same log whatever part of it is history, with no runner and nobody to ask.
func TestReplayFromAnywhereIsTheSourceAgain(t *testing.T) {
	src := tale(t)
	want := withoutRunner(src.list())
	for from := range len(src.log) + 1 {
		w := src.fork(engine.Fork{Mode: engine.ModeReplay, FromSeq: int64(from)})
		w.pass(time.Hour)
		w.is("completed")
		if diff := cmp.Diff(want, withoutRunner(w.list())); diff != "" {
			t.Errorf("from %d: log (-source +replay):\n%s", from, diff)
		}
		if diff := cmp.Diff(src.list()[:from], w.list()[:from]); diff != "" {
			t.Errorf("from %d: history (-source +replay):\n%s", from, diff)
		}
	}
}

// A branch from anywhere ends as well, live.
func TestBranchFromAnywhereGoesOn(t *testing.T) {
	src := tale(t)
	for from := range len(src.log) + 1 {
		w := src.fork(engine.Fork{Mode: engine.ModeBranch, FromSeq: int64(from)})
		if diff := cmp.Diff(src.list()[:from], w.list()[:from]); diff != "" {
			t.Errorf("from %d: history (-source +branch):\n%s", from, diff)
		}
		for left := 100; !w.s.Terminal(); left-- {
			if left == 0 {
				t.Fatalf("from %d: the branch does not end: %v", from, w.story())
			}
			switch status := engine.Status(w.s); {
			case status == "waiting-approval":
				if w.answer("g", "cid", `{"action":"accept"}`) != nil {
					w.mustAnswer("g", "dan", `{"action":"accept"}`)
				}
			case status == "waiting-input":
				w.mustAnswer("g", "ann", `{"q1":"so"}`)
			case len(w.kids) > 0:
				w.childEnds(engine.ChildEnded{Status: "completed", Outputs: json.RawMessage(`{"v":3}`)})
			case len(w.steps) > 0:
				for id, d := range w.steps {
					if d.RunnerID != "" {
						t.Errorf("from %d: step %s is pinned to runner %s", from, id, d.RunnerID)
					}
					out := `{"text":"bye"}`
					if strings.HasPrefix(id, "f:") {
						out = `{"error":{"code":"tool_error","message":"no"}}`
					}
					w.result(id, out)
					break
				}
			default:
				w.pass(time.Second)
			}
		}
		w.is("completed")
		if log, _ := json.Marshal(w.log); strings.Contains(string(log), "hunter2") {
			t.Errorf("from %d: the log tells a sensitive variable", from)
		}
	}
}

// An event that is copied keeps everything but its identity; its cause is the copy of its cause.
func TestHistoryIsCopiedAsItWas(t *testing.T) {
	src := tale(t)
	src.log[3].CausationID, src.log[4].CausationID = "run_1.2", "evt_elsewhere"
	w := src.fork(engine.Fork{Mode: engine.ModeReplay, FromSeq: 6})
	for i, e := range w.log[:6] {
		was := src.log[i]
		if e.RunID != "run_2" || e.EventID == was.EventID || e.Clock != 0 || !e.Timestamp.Equal(was.Timestamp) || e.Type != was.Type || string(e.Payload) != string(was.Payload) {
			t.Errorf("event %d is %+v, was %+v", i, e, was)
		}
	}
	if w.log[3].CausationID != "run_2.2" || w.log[4].CausationID != "" {
		t.Errorf("causes are %q and %q", w.log[3].CausationID, w.log[4].CausationID)
	}
	got := engine.Snapshot(w.wf, w.s)
	if diff := cmp.Diff(&engine.ForkSnapshot{RunID: "run_1", FromSeq: 6, Mode: "replay"}, got.ForkedFrom); diff != "" || got.Owner.Principal != "ann" {
		t.Errorf("snapshot %+v, fork (-want +got):\n%s", got, diff)
	}
	if string(got.Configurable) != `{"model":"m1"}` || string(got.Variables["pw"]) != `"[redacted]"` {
		t.Errorf("configurable %s, variables %v: want neither the runner nor the secret", got.Configurable, got.Variables)
	}
}

func TestBranchTakesItsOverlay(t *testing.T) {
	src := tale(t)
	for _, from := range []int64{0, 1, 2, 9} {
		w := src.fork(engine.Fork{Mode: engine.ModeBranch, FromSeq: from, Overlay: engine.Overlay{
			Configurable: json.RawMessage(`{"model":"m2","runner.id":"rnr_2","runner.waitMs":77}`), Tags: []string{"again"}, Metadata: json.RawMessage(`{"k":2,"l":3}`),
		}})
		got := engine.Snapshot(w.wf, w.s)
		if string(got.Configurable) != `{"model":"m2","runner.id":"[redacted]","runner.waitMs":77}` || string(got.Metadata) != `{"k":2,"l":3}` || !slices.Equal(got.Tags, []string{"again"}) {
			t.Errorf("from %d: snapshot %s %s %v", from, got.Configurable, got.Metadata, got.Tags)
		}
		if d := w.steps["m:1:1"]; from < 6 && (d.RunnerID != "rnr_2" || d.Model != "m2" || d.Wait != 77*time.Millisecond || d.Attempt != 1) {
			t.Errorf("from %d: dispatch %+v", from, d)
		}
		if log, _ := json.Marshal(w.log); strings.Contains(string(log), "rnr_2") {
			t.Errorf("from %d: the log holds the runner's id", from)
		}
	}
}

func TestForkIsRefused(t *testing.T) {
	src := tale(t)
	last := int64(len(src.log))
	for name, c := range map[string]struct {
		f     engine.Fork
		field string // or the error itself
		err   error
	}{
		"no mode":              {engine.Fork{}, "mode", nil},
		"another mode":         {engine.Fork{Mode: "rewind"}, "mode", nil},
		"before the beginning": {engine.Fork{Mode: "branch", FromSeq: -1}, "fromSeq", nil},
		"beyond the log":       {engine.Fork{Mode: "branch", FromSeq: last + 1}, "", engine.ErrInvalidFromSeq},
		"a replay with another model": {engine.Fork{Mode: "replay", Overlay: engine.Overlay{Configurable: json.RawMessage(`{"model":"x"}`)}},
			"runOptionsOverlay", nil},
		"a replay with tags":    {engine.Fork{Mode: "replay", Overlay: engine.Overlay{Tags: []string{"x"}}}, "runOptionsOverlay", nil},
		"options of no object":  {engine.Fork{Mode: "branch", Overlay: engine.Overlay{Configurable: json.RawMessage(`7`)}}, "runOptionsOverlay.configurable", nil},
		"options of no JSON":    {engine.Fork{Mode: "branch", Overlay: engine.Overlay{Configurable: json.RawMessage(`{`)}}, "runOptionsOverlay.configurable", nil},
		"metadata of no object": {engine.Fork{Mode: "branch", Overlay: engine.Overlay{Metadata: json.RawMessage(`[]`)}}, "runOptionsOverlay.metadata", nil},
		"an option out of range": {engine.Fork{Mode: "branch", Overlay: engine.Overlay{Configurable: json.RawMessage(`{"temperature":9}`)}},
			"runOptionsOverlay.configurable.temperature", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c.f.RunID, c.f.Inputs, c.f.Configurable = "run_2", src.created.Inputs, src.created.Configurable
			_, err := engine.ForkRun(src.wf, events(t, src.log), c.f, src.env())
			e, ok := errors.AsType[*wire.FieldError](err)
			if c.err != nil && !errors.Is(err, c.err) || c.err == nil && (!ok || e.Field != c.field) {
				t.Errorf("error = %v, want one about %q, or %v", err, c.field, c.err)
			}
		})
	}
	if _, err := engine.ForkRun(src.wf, events(t, nil), engine.Fork{RunID: "run_2", Mode: "replay"}, src.env()); !errors.Is(err, engine.ErrInvalidFromSeq) {
		t.Errorf("of an empty log: %v", err)
	}
}

// What has an effect and no recorded outcome fails in a replay (wire 10); a wait is no effect.
func TestReplayWithoutAnOutcomeFails(t *testing.T) {
	for name, c := range map[string]struct {
		node   string
		script func(*world)
	}{
		"a step that was cut":        {`core.ai.callPrompt {"config":{"prompt":"x"}}`, func(w *world) { w.accept("b:1:1"); w.mustDo(engine.Cancel{}) }},
		"a step that goes on":        {`core.ai.callPrompt {"config":{"prompt":"x"}}`, func(w *world) { w.accept("b:1:1") }},
		"a tool that was cut":        {`runnerd.tool {"config":{"tool":"t"}}`, func(w *world) { w.mustDo(engine.Cancel{}) }},
		"a gate that nobody answers": {`core.approvalGate`, func(*world) {}},
		"a gate with half its votes": {`core.approvalGate {"config":{"requiredApprovals":2}}`, func(w *world) { w.mustAnswer("b", "ann", `{"action":"accept"}`) }},
		"a child that was stopped":   {`core.subWorkflow {"config":{"workflowId":"c"}}`, func(w *world) { w.mustDo(engine.Cancel{}) }},
	} {
		t.Run(name, func(t *testing.T) {
			src := newWorld(t, workflow(t, "", []string{`a core.delay {"config":{"delayMs":1000}}`, "b " + c.node}, []string{"a>b"}))
			src.create()
			src.pass(1007 * time.Millisecond)
			c.script(src)
			var lists [][]string
			for _, late := range []time.Duration{0, 5 * time.Millisecond} {
				w := src.fork(engine.Fork{Mode: engine.ModeReplay})
				w.passed += late
				w.pass(time.Hour)
				endsWith(t, w, "replay_source_missing")
				lists = append(lists, w.list())
			}
			if diff := cmp.Diff(lists[0], lists[1]); diff != "" {
				t.Errorf("two replays differ:\n%s", diff)
			}
		})
	}
}

// A source that was cancelled before its delay ended is replayed past it (wire 10).
func TestReplayRunsOnPastTheCancel(t *testing.T) {
	src := newWorld(t, workflow(t, "", []string{`a core.delay {"config":{"delayMs":1000}}`, "b core.noop"}, []string{"a>b"}))
	src.create()
	src.pass(300 * time.Millisecond)
	src.mustDo(engine.Cancel{})
	for from := range len(src.log) {
		var lists [][]string
		for _, late := range []time.Duration{0, 5 * time.Millisecond} {
			w := src.fork(engine.Fork{Mode: engine.ModeReplay, FromSeq: int64(from)})
			w.passed += late
			w.pass(time.Hour)
			w.is("completed")
			lists = append(lists, w.list())
		}
		if diff := cmp.Diff(lists[0], lists[1]); diff != "" {
			t.Errorf("from %d: two replays differ:\n%s", from, diff)
		}
	}
	if w := src.fork(engine.Fork{Mode: engine.ModeReplay, FromSeq: int64(len(src.log))}); !w.s.Terminal() || len(w.last.Effects) > 0 {
		t.Errorf("a copy of the whole log goes on: %v", w.story())
	}
}

// Runs that ended by a ceiling come to it again, and say the same of it.
func TestReplayOfABreachIsTheSame(t *testing.T) {
	for name, c := range map[string]struct {
		configurable string
		nodes, edges []string
	}{
		"duration": {`{"runTimeoutMs":1000}`, []string{"a " + aDelay}, nil},
		"starts":   {`{"recursionLimit":2}`, []string{"a core.noop", "b core.noop", "c core.noop"}, []string{"a>b", "b>c"}},
	} {
		t.Run(name, func(t *testing.T) {
			src := newWorld(t, workflow(t, "", c.nodes, c.edges))
			src.created.Configurable = json.RawMessage(c.configurable)
			src.create()
			for id := range src.timers { // it fires a little late
				if strings.HasPrefix(id, "run:") {
					src.timers[id] = src.timers[id].Add(17 * time.Millisecond)
				}
			}
			src.pass(time.Hour)
			for from := range 3 {
				w := src.fork(engine.Fork{Mode: engine.ModeReplay, FromSeq: int64(from)})
				w.pass(time.Hour)
				if diff := cmp.Diff(src.list(), w.list()); diff != "" {
					t.Errorf("from %d: log (-source +replay):\n%s", from, diff)
				}
			}
			w := src.fork(engine.Fork{Mode: engine.ModeReplay, FromSeq: int64(len(src.log) - 1)})
			if diff := cmp.Diff(src.list(), w.list()); diff != "" {
				t.Errorf("from the last event (-source +replay):\n%s", diff)
			}
		})
	}
}

// A pause is no part of what is replayed: the attempt that it cut is left out.
func TestReplayOfAPausedRunIsNotPaused(t *testing.T) {
	src := newWorld(t, workflow(t, "", []string{`a core.ai.callPrompt {"config":{"prompt":"x"}}`}, nil))
	src.create()
	src.mustDo(atOne)
	paused := len(src.log)
	src.mustDo(engine.Resume{})
	src.result("a:1:2", `{"text":"x"}`)
	w := src.fork(engine.Fork{Mode: engine.ModeReplay})
	if diff := cmp.Diff([]string{"run.started", "node.started a", `output.chunk a "x" last`, "node.completed a", `run.completed {"text":"x"}`}, w.story()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	w = src.fork(engine.Fork{Mode: engine.ModeReplay, FromSeq: int64(paused)})
	w.is("completed")
	w = src.fork(engine.Fork{Mode: engine.ModeBranch, FromSeq: int64(paused)})
	w.is("running")
	if _, ok := w.steps["a:1:2"]; !ok {
		t.Errorf("steps = %v, want the one after the pause", w.steps)
	}
}

// A branch from a gate asks again, with the votes that were given, and a deadline of its own.
func TestBranchKeepsWhatIsOpen(t *testing.T) {
	src := tale(t)
	votes := slices.IndexFunc(src.log, func(e engine.Event) bool { return e.Type == engine.TypeApprovalReceived })
	w := src.fork(engine.Fork{Mode: engine.ModeBranch, FromSeq: int64(votes + 1)})
	w.is("waiting-approval")
	if err := w.answer("g", "ann", `{"action":"accept"}`); !engine.Refused(err) {
		t.Errorf("a second vote of ann: %v", err)
	}
	w.pass(59 * time.Second)
	w.is("waiting-approval")
	w.mustAnswer("g", "cid", `{"action":"accept"}`)
	w.is("running")
	if kid := w.child(); kid.Created.RunID == engine.Snapshot(src.wf, src.s).NodeStates["s"].ChildRunID {
		t.Errorf("the branch's child is the source's")
	}
}

// What a replay computes otherwise than its source is said, and no more than that.
func TestReplaySaysWhereItDiverges(t *testing.T) {
	src := newWorld(t, workflow(t, "", []string{`a core.identity {"inputs":{"x":{"type":"static","value":1}}}`, "b core.noop"}, []string{"a>b"}))
	src.create()
	src.log[2].Payload = json.RawMessage(strings.Replace(string(src.log[2].Payload), `"x":1`, `"x":2`, 1))
	w := src.fork(engine.Fork{Mode: engine.ModeReplay})
	w.is("completed")
	var got []string
	for _, e := range w.log {
		if e.Type == engine.TypeReplayDiverged {
			got = append(got, string(e.Payload))
		}
	}
	want := []string{`{"sourceRunId":"run_1","atSequence":2,"originalEventId":"run_1.2","replayEventId":"run_2.2","divergenceKind":"output","divergencePoint":"node.completed"}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("divergence (-want +got):\n%s", diff)
	}
}

// The state of a replay is the fold of its log and the recording; without the second nothing is decided.
func TestReplayNeedsItsRecording(t *testing.T) {
	src := newWorld(t, workflow(t, "", []string{`a core.delay {"config":{"delayMs":1000}}`}, nil))
	src.create()
	src.pass(time.Hour)
	w := src.fork(engine.Fork{Mode: engine.ModeReplay})
	s, err := engine.Fold(w.wf, events(t, w.log))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Decide(w.wf, s, engine.TimerFired{ID: "delay:a:1"}, w.env()); !errors.Is(err, engine.ErrNoRecording) {
		t.Errorf("without a recording: %v, want ErrNoRecording", err)
	}
	from, ok := s.Source()
	if want := (engine.Source{RunID: "run_1", UpTo: 3}); !ok || from != want {
		t.Errorf("source = %+v, %v, want %+v", from, ok, want)
	}
	rec, err := engine.Record(from, events(t, src.log))
	if err != nil || rec.Size() == 0 {
		t.Fatalf("record: %v, size %d", err, rec.Size())
	}
	s.Attach(rec)
	if d, err := engine.Decide(w.wf, s, engine.TimerFired{ID: "delay:a:1"}, w.env()); err != nil || engine.Status(d.Next) != "completed" {
		t.Errorf("with it: %v", err)
	}
	if _, ok := src.s.Source(); ok {
		t.Error("the source says that it is a replay")
	}
}

// A replay of a replay is answered by what the first was answered.
func TestReplayOfAReplay(t *testing.T) {
	src := tale(t)
	first := src.fork(engine.Fork{Mode: engine.ModeReplay})
	first.pass(time.Hour)
	second := first.fork(engine.Fork{Mode: engine.ModeReplay, RunID: "run_3", FromSeq: 4})
	second.pass(time.Hour)
	if diff := cmp.Diff(first.list(), second.list()); diff != "" {
		t.Errorf("log (-first +second):\n%s", diff)
	}
	branch := first.fork(engine.Fork{Mode: engine.ModeBranch, RunID: "run_4"})
	if len(branch.steps) != 1 {
		t.Errorf("a branch of a replay dispatches %v", branch.steps)
	}
}

// A replay that is cancelled is cancelled, and its parent's fork is nobody's child.
func TestForkOfAChildHasNoParent(t *testing.T) {
	src := newWorld(t, workflow(t, "", []string{"a " + aDelay}, nil))
	src.created.Parent = &engine.Parent{RunID: "p", NodeID: "n", Depth: 1, Children: 3}
	src.create()
	w := src.fork(engine.Fork{Mode: engine.ModeReplay})
	w.mustDo(engine.Cancel{})
	w.is("cancelled")
	if _, _, ok := engine.ChildResult(w.wf, w.s); ok {
		t.Error("the fork of a child tells a parent")
	}
}
