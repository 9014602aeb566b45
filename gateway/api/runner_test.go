package api

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

func (w *world) runners(who store.Subject) []runnerLine {
	w.t.Helper()
	var list runnerList
	w.as(who, "GET", host+"/runners", "").into(200, &list)
	return list.Runners
}

func (w *world) steps(id string) []stepLine {
	w.t.Helper()
	var list stepList
	w.as(alice, "GET", host+"/runs/"+id+"/steps", "").into(200, &list)
	return list.Steps
}

// stepsAre waits until the only step of a run is in a phase.
func (w *world) stepIs(id, phase string) stepLine {
	w.t.Helper()
	var got stepLine
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		if all := w.steps(id); len(all) == 1 {
			if got = all[0]; got.Phase == phase {
				return got
			}
		}
	}
	w.t.Fatalf("phase %q, want %q", got.Phase, phase)
	panic("unreachable")
}

func TestRunnerIsShownAsTheMatcherSeesIt(t *testing.T) { // UD-01
	w := newWorld(t)
	l := w.laptop(alice)
	got := w.runners(alice)
	if len(got) != 1 {
		t.Fatalf("runners %+v", got)
	}
	r := got[0]
	if r.Presence != "online" || !r.Dispatchable || r.State != "ready" || r.LastSeen == nil || r.Capacity != (capacity{4, 4}) || r.Name != "laptop" || len(r.Steps) != 0 {
		t.Errorf("runner %+v", r)
	}
	want := map[string]wire.Provider{"echo": {Models: []string{"echo-1"}, Backend: "echo", AuthClass: "none", State: "ready"}}
	if d := cmp.Diff(want, r.Providers); d != "" {
		t.Error(d)
	}
	id := w.create(alice, `{"workflowId":"chat","inputs":{"prompt":"x"}}`)
	l.take()
	r = w.runners(alice)[0]
	if d := cmp.Diff([]stepHeld{{id, "chat:1:1", "running"}}, r.Steps); d != "" || r.Capacity != (capacity{3, 4}) {
		t.Errorf("capacity %+v %s", r.Capacity, d)
	}
	l.report(func(r *wire.Report) { r.State = wire.StatePaused })
	if r = w.runners(alice)[0]; r.State != "paused" || r.Dispatchable {
		t.Errorf("paused: %+v", r)
	}
	if a := w.as(alice, "DELETE", host+"/runners/"+l.tokens.RunnerID, ""); a.status != 204 {
		t.Errorf("revoked: %d %s", a.status, a.body)
	}
	if got := w.runners(alice); len(got) != 0 {
		t.Errorf("after: %+v", got)
	}
	l.send("POST", "/reports", wire.Report{}).refused(401, "key_revoked")
	w.stepIs(id, "failed") // the phantom step ends with its runner (UD-29)
}

func TestStepsSayWhereTheyStand(t *testing.T) { // UD-88
	w := newWorld(t)
	id := w.create(alice, `{"workflowId":"chat","inputs":{"prompt":"x"},"configurable":{"runner.waitMs":60000}}`)
	s := w.stepIs(id, "queued")
	if s.NodeID != "chat" || s.RunnerID != "" || s.LastSign != nil || s.LeftMs == nil || *s.LeftMs > 60_000 || *s.LeftMs < 50_000 {
		t.Errorf("queued: %+v", s)
	}
	l := w.laptop(alice)
	d := <-l.frames
	if s = w.stepIs(id, "offered"); s.RunnerID != l.tokens.RunnerID || s.RunnerName != "laptop" || s.Provider != "echo" || s.Model != "echo-1" {
		t.Errorf("offered: %+v", s)
	}
	l.report(func(r *wire.Report) { r.Accept = []wire.StepRef{d.Ref()} })
	w.stepIs(id, "accepted")
	for phase, want := range map[string]string{wire.PhaseRunning: "running", wire.PhaseAsking: "asking", wire.PhaseFinished: "result_pending"} {
		l.held = []wire.Held{{StepRef: d.Ref(), Phase: phase}}
		l.report(nil)
		if s = w.stepIs(id, want); s.LastSign == nil || s.TotalMs < s.ElapsedMs {
			t.Errorf("%s: %+v", want, s)
		}
	}
	w.skip(time.Minute) // no report for so long
	if s = w.stepIs(id, "disconnected"); s.LastSign == nil {
		t.Errorf("disconnected: %+v", s)
	}
	l.finish(d.Ref(), "hello")
	if s = w.stepIs(id, "done"); s.LeftMs != nil || s.Code != "" {
		t.Errorf("done: %+v", s)
	}
}

func TestQuestionIsAnsweredOnceByItsOwner(t *testing.T) { // UD-83
	w := newWorld(t)
	l := w.laptop(alice)
	id := w.create(alice, `{"workflowId":"chat","inputs":{"prompt":"x"}}`)
	ref := l.take()
	l.report(func(r *wire.Report) {
		r.Asks = []wire.Ask{{StepRef: ref, ID: "ask_1", Tool: "shell.run", Title: "run ls?", Detail: json.RawMessage(`{"argv":["ls"]}`), ExpiresMs: 60_000},
			{StepRef: ref, ID: "ask_2", Title: "too late?", ExpiresMs: 1}}
	})
	var list askList
	for list.Asks = make([]askLine, 2); len(list.Asks) > 1; time.Sleep(time.Millisecond) { // until the second has expired
		list = askList{}
		w.as(alice, "GET", host+"/asks", "").into(200, &list)
	}
	if len(list.Asks) != 1 || list.Asks[0].ID != "ask_1" || list.Asks[0].RunID != id || list.Asks[0].Tool != "shell.run" || list.Asks[0].LeftMs > 60_000 {
		t.Errorf("asks %+v", list)
	}
	w.as(alice, "POST", host+"/asks/ask_1", `{"answer":"perhaps"}`).refused(400, "validation_error")
	w.as(alice, "POST", host+"/asks/ask_2", `{"answer":"allow"}`).refused(410, "ask_expired")
	var got askLine
	for range 2 {
		w.as(alice, "POST", host+"/asks/ask_1", `{"answer":"deny"}`).into(200, &got)
		if got.Answer != "deny" {
			t.Errorf("answered %+v", got)
		}
	}
	w.as(alice, "POST", host+"/asks/ask_1", `{"answer":"allow"}`).refused(409, "already_answered")
	w.as(alice, "GET", host+"/asks", "").into(200, &list)
	if len(list.Asks) != 0 {
		t.Errorf("still open: %+v", list)
	}
	if rep := l.report(nil); len(rep.Answers) != 1 || rep.Answers[0] != (wire.Answer{ID: "ask_1", Answer: "deny"}) {
		t.Errorf("the runner hears %+v", rep.Answers)
	}
	var audit auditList
	w.as(alice, "GET", host+"/audit?after=1&limit=1000", "").into(200, &audit)
	var kinds []string
	for _, e := range audit.Entries {
		kinds = append(kinds, e.Kind)
	}
	if d := cmp.Diff([]string{store.AuditOffer, store.AuditPermit, store.AuditAnswer}, kinds); d != "" {
		t.Error(d)
	}
}

func TestLateResultIsKeptForItsOwner(t *testing.T) { // faults.md I4
	w := newWorld(t)
	l := w.laptop(alice)
	id := w.create(alice, `{"workflowId":"chat","inputs":{"prompt":"x"}}`)
	ref := l.take()
	w.as(alice, "POST", "/v1/runs/"+id+"/cancel", "").into(200, new(cancelReply))
	l.finish(ref, "too late")
	var late lateList
	w.as(alice, "GET", host+"/runs/"+id+"/late", "").into(200, &late)
	if len(late.Results) != 1 || late.Results[0].StepID != ref.StepID || late.Results[0].RunnerID != l.tokens.RunnerID {
		t.Errorf("late %+v", late)
	}
}
