package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/engine"
	"runnerd/internal/fence"
	"runnerd/internal/schema"
	"runnerd/internal/schema/schematest"
)

// start is when the runs of the tests begin, in wall time and in store time.
var (
	start = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	clock = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// A world plays the gateway: it keeps a run's log, its outstanding steps and its timers, and holds every decision to what
// must be true of all of them.
type world struct {
	tb      failer
	wf      *engine.Workflow
	created engine.Created
	s       *engine.State
	log     []engine.Event
	steps   map[string]engine.Dispatch
	given   map[string]int // how often a step was dispatched
	timers  map[string]time.Time
	stops   []engine.Stop
	kids    map[string]engine.StartChild // that were asked for and have not ended
	held    map[string]bool              // those of them that are to pause
	passed  time.Duration
	caps    engine.Caps
	schemas *schema.Set
	quick   bool // documents are large, and not what the test is about: they are not looked at one by one
	last    engine.Decision
	source  *world // that a replay is answered from
	agents  map[string]*engine.Agent
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

func newWorld(tb testing.TB, wf *engine.Workflow) *world {
	return newWorldOf(tb, schematest.Set(tb), wf)
}

func newWorldOf(tb failer, schemas *schema.Set, wf *engine.Workflow) *world {
	return &world{
		schemas: schemas,
		tb:      tb, wf: wf, s: engine.NewState(wf), steps: map[string]engine.Dispatch{}, given: map[string]int{}, timers: map[string]time.Time{},
		kids: map[string]engine.StartChild{}, held: map[string]bool{},
		created: engine.Created{RunID: "run_1", Owner: engine.Owner{Tenant: "t1", Principal: "ann"}},
	}
}

func (w *world) agent(id string) *engine.Agent { return w.agents[id] }

// env has marks that depend on nothing but the question, so that two decisions can be compared.
func (w *world) env() engine.Env {
	return engine.Env{Now: start.Add(w.passed), Clock: clock.Add(w.passed), Fence: &fence.Fencer{Rand: zeros{}}, Caps: w.caps, Children: true, TestTypes: true, Mock: true, Agents: w.agent}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// do decides an input, keeps what follows, and fails the test on anything but ErrStale.
func (w *world) do(in engine.Input) error {
	w.tb.Helper()
	before := snapshot(w.wf, w.s)
	d, err := engine.Decide(w.wf, w.s, in, w.env())
	if errors.Is(err, engine.ErrStale) || engine.Refused(err) {
		if diff := cmp.Diff(before, snapshot(w.wf, w.s)); diff != "" {
			w.tb.Fatalf("%T was refused and changed the state:\n%s", in, diff)
		}
		return err
	}
	if err != nil {
		w.tb.Fatalf("%T: %v", in, err)
	}
	if !w.quick {
		if diff := cmp.Diff(before, snapshot(w.wf, w.s)); diff != "" {
			w.tb.Fatalf("%T changed the state it was asked about:\n%s", in, diff)
		}
		w.refolded(in, d)
		w.allowed(d)
	}
	w.last = d
	w.log = append(w.log, d.Events...)
	w.s = d.Next
	for _, e := range d.Effects {
		w.carryOut(e)
	}
	if w.s.Terminal() && (len(w.steps) > 0 || len(w.timers) > 0 || len(w.kids) > 0) {
		w.tb.Fatalf("%T: the run has ended with steps %v, timers %v and children %v", in, w.steps, w.timers, w.kids)
	}
	return nil
}

// allowed holds the documents to the protocol's schemas, and the log to its order (wire 6.1 and 12).
func (w *world) allowed(d engine.Decision) {
	w.tb.Helper()
	for i, e := range d.Events {
		doc, err := e.Encode()
		if err == nil {
			err = w.schemas.Event(doc)
		}
		if err != nil {
			w.tb.Fatalf("event %s: %v", doc, err)
		}
		if want := int64(len(w.log) + i); e.Sequence != want {
			w.tb.Fatalf("event %s has sequence %d, want %d", e.Type, e.Sequence, want)
		}
		if terminal := e.Type == engine.TypeRunCompleted || e.Type == engine.TypeRunFailed || e.Type == engine.TypeRunCancelled; terminal != (i == len(d.Events)-1 && d.Next.Terminal()) {
			w.tb.Fatalf("the terminal event must be the last and only one: %s", show(d))
		}
	}
	for _, doc := range []string{snapshot(w.wf, d.Next), whole(w.wf, d.Next)} {
		if err := w.schemas.Document("run-snapshot", []byte(doc)); err != nil {
			w.tb.Fatalf("snapshot %s: %v", doc, err)
		}
	}
}

// refolded decides the input again with a state made from the log alone.
func (w *world) refolded(in engine.Input, d engine.Decision) {
	w.tb.Helper()
	s := w.fold(w.log)
	again, err := engine.Decide(w.wf, s, in, w.env())
	if err != nil {
		w.tb.Fatalf("%T, state folded from the log: %v", in, err)
	}
	if diff := cmp.Diff(show(d), show(again)); diff != "" {
		w.tb.Fatalf("%T: the state folded from the log decides otherwise (-kept +folded):\n%s", in, diff)
	}
	if diff := cmp.Diff(whole(w.wf, d.Next), whole(w.wf, w.fold(slices.Concat(w.log, d.Events)))); diff != "" {
		w.tb.Fatalf("%T: the next state is not the fold of the log (-next +folded):\n%s", in, diff)
	}
}

func (w *world) fold(log []engine.Event) *engine.State {
	w.tb.Helper()
	s, err := engine.Fold(w.wf, events(w.tb, log))
	if err == nil {
		err = s.Reveal(w.created.Inputs, w.created.Configurable)
	}
	if err != nil {
		w.tb.Fatalf("fold: %v", err)
	}
	if from, ok := s.Source(); ok {
		rec, err := engine.Record(from, events(w.tb, w.source.log))
		if err != nil {
			w.tb.Fatalf("record: %v", err)
		}
		s.Attach(rec)
	}
	return s
}

// events gives a log as it comes out of a store.
func events(tb failer, log []engine.Event) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		for _, e := range log {
			doc, err := e.Encode()
			if err != nil {
				tb.Fatalf("encode event: %v", err)
			}
			if e, err = engine.DecodeEvent(doc); !yield(e, err) {
				return
			}
		}
	}
}

func show(d engine.Decision) string {
	doc, _ := json.MarshalIndent(struct{ Events, Effects any }{d.Events, described(d.Effects)}, "", " ")
	return string(doc)
}

func described(effects []engine.Effect) (lines []string) {
	for _, e := range effects {
		doc, _ := json.Marshal(e)
		lines = append(lines, fmt.Sprintf("%T %s", e, doc))
	}
	return lines
}

func snapshot(wf *engine.Workflow, s *engine.State) string {
	doc, _ := json.MarshalIndent(engine.Snapshot(wf, s), "", " ")
	return string(doc)
}

// whole is the snapshot for somebody who may answer.
func whole(wf *engine.Workflow, s *engine.State) string {
	doc, _ := json.MarshalIndent(engine.Snapshot(wf, s, engine.ShowInterrupt), "", " ")
	return string(doc)
}

func (w *world) carryOut(e engine.Effect) {
	w.tb.Helper()
	switch e := e.(type) {
	case engine.Dispatch:
		if _, replay := w.s.Source(); replay {
			w.tb.Fatalf("a replay dispatches step %s", e.StepID)
		}
		if _, twice := w.steps[e.StepID]; twice {
			w.tb.Fatalf("step %s is dispatched while it is outstanding", e.StepID)
		}
		if w.given[e.StepID]++; e.Attempt != w.given[e.StepID] {
			w.tb.Fatalf("step %s is dispatched for the %d. time as attempt %d", e.StepID, w.given[e.StepID], e.Attempt)
		}
		w.steps[e.StepID] = e
	case engine.Stop:
		if _, ok := w.steps[e.StepID]; !ok {
			w.tb.Fatalf("stop of step %s, which is not outstanding", e.StepID)
		}
		delete(w.steps, e.StepID)
		w.stops = append(w.stops, e)
	case engine.SetTimer:
		if e.After <= 0 {
			w.tb.Fatalf("timer %s after %s", e.ID, e.After)
		}
		w.timers[e.ID] = clock.Add(w.passed + e.After)
	case engine.ClearTimer:
		delete(w.timers, e.ID)
	case engine.StartChild:
		if _, replay := w.s.Source(); replay {
			w.tb.Fatalf("a replay starts child %s", e.Created.RunID)
		}
		if _, twice := w.kids[e.Created.RunID]; twice {
			w.tb.Fatalf("child %s is started while it runs", e.Created.RunID)
		}
		if w.waitsFor(e.Created.RunID) {
			w.kids[e.Created.RunID] = e
		}
	case engine.StopChild:
		if _, ok := w.kids[e.RunID]; !ok {
			w.tb.Fatalf("stop of child %s, which does not run", e.RunID)
		}
		delete(w.kids, e.RunID)
		delete(w.held, e.RunID)
	case engine.PauseChild:
		if _, ok := w.kids[e.RunID]; !ok || w.held[e.RunID] {
			w.tb.Fatalf("pause of child %s, which does not run", e.RunID)
		}
		w.held[e.RunID] = true
	case engine.ResumeChild:
		if _, ok := w.kids[e.RunID]; !ok || !w.held[e.RunID] {
			w.tb.Fatalf("resume of child %s, which is not paused", e.RunID)
		}
		delete(w.held, e.RunID)
	}
}

// waitsFor reports whether a node waits for a child.
func (w *world) waitsFor(child string) bool {
	for _, n := range engine.Snapshot(w.wf, w.s).NodeStates {
		if n.ChildRunID == child && n.Status == "running" {
			return true
		}
	}
	return false
}

// fork makes a run of the history of this one.
func (w *world) fork(f engine.Fork) *world {
	w.tb.Helper()
	n := newWorldOf(w.tb, w.schemas, w.wf)
	n.source, n.created, n.passed, n.caps, n.agents = w, w.created, w.passed, w.caps, w.agents
	if f.RunID == "" {
		f.RunID = "run_2"
	}
	n.created.RunID, f.Inputs, f.Configurable = f.RunID, w.created.Inputs, w.created.Configurable
	var err error
	if n.created.Configurable, err = f.Request(); err != nil {
		w.tb.Fatalf("request: %v", err)
	}
	d, err := engine.ForkRun(w.wf, events(w.tb, w.log), f, n.env())
	if err != nil {
		w.tb.Fatalf("%s from %d: %v", f.Mode, f.FromSeq, err)
	}
	n.allowed(d)
	n.log, n.s, n.last = d.Events, d.Next, d
	if diff := cmp.Diff(whole(n.wf, d.Next), whole(n.wf, n.fold(d.Events))); diff != "" {
		w.tb.Fatalf("the fork's state is not the fold of its log (-next +folded):\n%s", diff)
	}
	for _, e := range d.Effects {
		n.carryOut(e)
	}
	return n
}

// list is what two replays of one source have in common (wire section 10).
func (w *world) list() []string {
	var lines []string
	for _, e := range w.log {
		lines = append(lines, e.Type+" "+e.NodeID+" "+string(e.Payload))
	}
	return lines
}

// child is the only child that runs.
func (w *world) child() engine.StartChild {
	w.tb.Helper()
	if len(w.kids) != 1 {
		w.tb.Fatalf("%d children run, want one: %v", len(w.kids), w.story())
	}
	for _, kid := range w.kids {
		return kid
	}
	panic("unreachable")
}

// childEnds brings the end of the only child.
func (w *world) childEnds(in engine.ChildEnded) {
	w.tb.Helper()
	in.RunID = w.child().Created.RunID
	delete(w.kids, in.RunID)
	delete(w.held, in.RunID)
	w.mustDo(in)
}

// ---- what a script may say

func (w *world) create() { w.tb.Helper(); w.mustDo(w.created) }

func (w *world) mustDo(in engine.Input) {
	w.tb.Helper()
	if err := w.do(in); err != nil {
		w.tb.Fatalf("%T: %v", in, err)
	}
}

func (w *world) accept(step string) {
	w.tb.Helper()
	w.mustDo(engine.StepPhase{StepID: step, Accepted: true})
}

// result ends a step with an output.
func (w *world) result(step, output string) {
	w.tb.Helper()
	delete(w.steps, step)
	w.mustDo(engine.StepEnded{StepID: step, Output: json.RawMessage(output), Runner: "rnr_secret", UsedFor: engine.UsedFor{Provider: "echo", Model: "m1"}})
}

// answer resolves a node's interrupt as somebody with the scope for it.
func (w *world) answer(node, by, value string) error {
	w.tb.Helper()
	return w.do(engine.Resolve{NodeID: node, Value: json.RawMessage(value), By: by, Authorized: true})
}

func (w *world) mustAnswer(node, by, value string) {
	w.tb.Helper()
	if err := w.answer(node, by, value); err != nil {
		w.tb.Fatalf("answer of %s to %s: %v", by, node, err)
	}
}

func (w *world) is(status string) {
	w.tb.Helper()
	if got := engine.Status(w.s); got != status {
		w.tb.Errorf("status %s, want %s: %v", got, status, w.story())
	}
}

func (w *world) lose(step, outcome string) {
	w.tb.Helper()
	delete(w.steps, step)
	w.mustDo(engine.StepEnded{StepID: step, Lost: &engine.Lost{Outcome: outcome}})
}

// pass lets time go by; due timers fire in order.
func (w *world) pass(d time.Duration) {
	w.tb.Helper()
	for until := w.passed + d; ; {
		id, due := "", clock.Add(until)
		for timer, at := range w.timers {
			if !at.After(due) && (id == "" || at.Before(due) || timer < id) {
				id, due = timer, at
			}
		}
		w.passed = max(w.passed, due.Sub(clock))
		if id == "" {
			return
		}
		delete(w.timers, id)
		if err := w.do(engine.TimerFired{ID: id}); err != nil {
			w.tb.Fatalf("timer %s: %v", id, err)
		}
	}
}

// story tells the log in one line an event.
func (w *world) story() []string {
	var lines []string
	for _, e := range w.log {
		var p struct {
			Error                    struct{ Code string }
			Kind, Reason, Chunk      string
			Action, InterruptID      string
			ResumeValue, Answers     json.RawMessage
			IsLast                   bool
			Attempt                  int
			Outputs                  json.RawMessage
			DelayMs, Limit, Observed int64
			Name, ChildWorkflowID    string
			ToolName, CallID, Status string
			Outcome                  string
			Next                     json.RawMessage
		}
		_ = json.Unmarshal(e.Payload, &p)
		line := strings.TrimSpace(e.Type + " " + e.NodeID)
		switch e.Type {
		case engine.TypeNodeFailed, engine.TypeRunFailed:
			line += " " + p.Error.Code
		case engine.TypeNodeSkipped:
			line += " (" + p.Reason + ")"
		case engine.TypeOutputChunk:
			line += fmt.Sprintf(" %q", p.Chunk)
			if p.IsLast {
				line += " last"
			}
		case engine.TypeNodeStarted:
			if p.Attempt > 1 {
				line += fmt.Sprintf(" attempt %d", p.Attempt)
			}
		case engine.TypeNodeRetried:
			line += fmt.Sprintf(" attempt %d after %dms", p.Attempt, p.DelayMs)
		case engine.TypeRunCompleted:
			line += " " + string(p.Outputs)
		case engine.TypeToolCalled:
			line += " " + p.ToolName + " " + p.CallID
		case engine.TypeToolReturned:
			line += " " + p.CallID + " " + p.Status
		case engine.TypeAgentCompleted:
			line += " " + p.Outcome
		case engine.TypeNodeDispatched:
			line += " " + p.ChildWorkflowID
		case engine.TypeVariableChanged:
			line += " " + p.Name + "=" + string(p.Next)
		case engine.TypeNodeSuspended:
			line += " " + p.Kind + " " + p.InterruptID
		case engine.TypeApprovalReceived:
			line += " " + p.Action
		case engine.TypeClarificationResolved:
			line += " " + string(p.Answers)
		case engine.TypeInterruptResolved:
			line += " " + string(p.ResumeValue)
		case engine.TypeCapBreached:
			line += fmt.Sprintf(" %s limit %d observed %d", p.Kind, p.Limit, p.Observed)
		}
		lines = append(lines, line)
	}
	return lines
}
