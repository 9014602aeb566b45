package channel_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/dispatch"
	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// T01, T03: only a stranger's runner fits, or nobody's does. The stranger's stream has no byte about it.
func TestAnothersRunnerIsNoFallback_T01_T03(t *testing.T) {
	for name, prepare := range map[string]func(*world, store.Subject){
		"T01: the subject has no runner": func(*world, store.Subject) {},
		"T01: its runner is gone": func(w *world, ann store.Subject) {
			r, st := w.online(ann)
			st.close()
			w.until("disconnected", func() bool { return !w.dispatch.Presence(r.row()).Dispatchable })
		},
		"T03: its runner cannot do it": func(w *world, ann store.Subject) {
			r := w.runner(ann)
			r.can = wire.Capabilities{Providers: []string{"other"}}
			r.connect()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ann := w.subject("acme", "ann")
			prepare(w, ann)
			var strangers []*stream
			for _, s := range []store.Subject{w.subject("acme", "bob"), w.subject("rival", "ann")} {
				r, st := w.online(s)
				defer r.report()
				strangers = append(strangers, st)
			}
			row := w.ask(ann, `{"ai.provider":"echo"}`)
			w.pass(wire.QueueWait + time.Second)
			if code, outcome := w.failure(row); code != "runner_unavailable" || outcome != dispatch.OutcomeNotStarted {
				t.Errorf("failed as %s %s", code, outcome)
			}
			for _, st := range strangers {
				st.silent()
			}
		})
	}
}

// T02: two people with the same runners, many steps at random.
func TestStepsStayWithTheirSubject_T02(t *testing.T) {
	w := newWorld(t)
	w.quiet = true
	people := []store.Subject{w.subject("acme", "ann"), w.subject("acme", "bob"), w.subject("rival", "ann")}
	owner := map[string]store.Subject{}
	type worker struct {
		*runner
		*stream
	}
	var all []worker
	for _, s := range people {
		for range 2 {
			r, st := w.online(s)
			all = append(all, worker{r, st})
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	for range 60 {
		s := people[dice.IntN(len(people))]
		owner[string(w.ask(s, "").ID)] = s
	}
	for served := 0; served < 60; {
		for _, k := range all {
			select {
			case ev := <-k.events:
				var d wire.Dispatch
				if err := json.Unmarshal(ev.Data, &d); err != nil || ev.Type != wire.EventDispatch {
					continue
				}
				if owner[d.RunID] != k.subject {
					t.Fatalf("a step of %s was sent to %s", owner[d.RunID], k.subject)
				}
				k.finish(d)
				served++
			default:
			}
		}
	}
}

// T04: naming a runner that is another's is like naming none that exists.
func TestNamingAnothersRunnerIsNamingNobody_T04(t *testing.T) {
	w := newWorld(t)
	ann := w.subject("acme", "ann")
	_, own := w.online(ann)
	bobs, st := w.online(w.subject("acme", "bob"))
	var got [2]string
	for i, id := range []string{bobs.id, "rnr_nobody"} {
		row := w.ask(ann, fmt.Sprintf(`{"runner.id":%q,"runner.waitMs":1000}`, id))
		w.pass(2 * time.Second)
		events := w.events(row)
		for j := range events { // apart from what differs between any two runs
			events[j].RunID, events[j].EventID, events[j].Timestamp, events[j].Clock = "", "", time.Time{}, 0
		}
		b, err := json.Marshal(events)
		if err != nil {
			t.Fatal(err)
		}
		got[i] = durations.ReplaceAllString(string(b), `"durationMs":0`)
	}
	if d := cmp.Diff(got[0], got[1]); d != "" {
		t.Error(d)
	}
	st.silent()
	own.silent() // the named one or none
}

func TestANamedRunnerIsTheOnlyOne(t *testing.T) {
	w := newWorld(t)
	ann := w.subject("acme", "ann")
	_, idle := w.online(ann)
	named, st := w.online(ann)
	row := w.ask(ann, fmt.Sprintf(`{"runner.id":%q}`, named.id))
	if got := st.frame().RunID; got != string(row.ID) {
		t.Errorf("frame of %s", got)
	}
	idle.silent()
}

// T05, T06: a record must be of the bearer's runner and subject, and is refused in the same words whatever else it names.
func TestARecordOfAnotherIsRefused_T05_T06(t *testing.T) {
	w := newWorld(t)
	ann, _ := w.online(w.subject("acme", "ann"))
	bob, _ := w.online(w.subject("acme", "bob"))
	before := ann.row()
	var bodies []string
	for _, edit := range []func(*wire.Registration){
		func(r *wire.Registration) { r.RunnerID = ann.id },
		func(r *wire.Registration) { r.RunnerID = "rnr_unknown" },
		func(r *wire.Registration) { r.Subject = string(ann.subject) },
		func(r *wire.Registration) { r.Subject = "acme/nobody" },
		func(r *wire.Registration) { r.RunnerID, r.Subject = ann.id, string(ann.subject) },
	} {
		rec := bob.record()
		edit(&rec)
		status, body := bob.call("PUT", "/runner", rec)
		if status != http.StatusForbidden {
			t.Errorf("%d %s", status, body)
		}
		bodies = append(bodies, string(body))
	}
	for _, b := range bodies[1:] {
		if b != bodies[0] {
			t.Errorf("told apart: %s and %s", bodies[0], b)
		}
	}
	if d := cmp.Diff(before, ann.row()); d != "" {
		t.Errorf("ann's runner was touched: %s", d)
	}
}

// T10: one token, two connections. The newest wins, the old one hears why.
func TestTheNewestConnectionWins_T10(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, "")
	d := st.frame()
	r.accept(d)
	old := *r
	r.register()
	if got := st.control(); got != wire.ControlSuperseded {
		t.Errorf("control %s", got)
	}
	st.ended()
	if got := old.refused("POST", "/reports", old.next()); got != "409 superseded" {
		t.Errorf("old report: %s", got)
	}
	if got := old.refused("GET", fmt.Sprintf("/dispatches?epoch=%d", old.epoch), nil); got != "409 superseded" {
		t.Errorf("old stream: %s", got)
	}
	r.open("")
	r.report() // holds the step
	if got := w.status(row); got != "running" {
		t.Errorf("run is %s", got)
	}
	if v := old.post(output(d, "")); v != wire.VerdictAccepted { // judged by (runner, seq), not by epoch
		t.Errorf("verdict %s", v)
	}
}

func TestAnOlderReportIsSuperseded_T10(t *testing.T) {
	w := newWorld(t)
	r, _ := w.online(w.subject("acme", "ann"))
	r.report()
	stale := r.next()
	stale.N = 1
	if got := r.refused("POST", "/reports", stale); got != "409 superseded" {
		t.Error(got)
	}
	future := r.next()
	future.Epoch++
	if got := r.refused("POST", "/reports", future); got != "409 superseded" {
		t.Error(got)
	}
}

// T13: results that are not the runner's to give. All are answered alike and change nothing.
func TestForeignResultsAreAllRefusedAlike_T13_T15(t *testing.T) {
	w := newWorld(t)
	ann := w.subject("acme", "ann")
	r, st := w.online(ann)
	second, _ := w.online(ann)
	bob, bobs := w.online(w.subject("acme", "bob"))
	rival, _ := w.online(w.subject("rival", "ann"))
	mine := w.ask(ann, fmt.Sprintf(`{"runner.id":%q}`, r.id))
	d := st.frame()
	r.accept(d)
	theirs := w.ask(bob.subject, "")
	bd := bobs.frame()
	bob.accept(bd)
	guessed := w.ask(ann, `{"runner.id":"rnr_nobody"}`) // T15: never sent to anybody

	for name, tt := range map[string]struct {
		by  *runner
		res wire.Result
	}{
		"unknown run":             {r, wire.Result{RunID: "run_unknown", StepID: d.StepID, Seq: d.Seq}},
		"other subject's run":     {r, wire.Result{RunID: bd.RunID, StepID: bd.StepID, Seq: bd.Seq}},
		"other tenant":            {rival, wire.Result{RunID: d.RunID, StepID: d.StepID, Seq: d.Seq}},
		"right run, wrong step":   {r, wire.Result{RunID: d.RunID, StepID: "chat:1:2", Seq: d.Seq}},
		"right step, no seq":      {r, wire.Result{RunID: d.RunID, StepID: d.StepID, Seq: 0}},
		"right step, future seq":  {r, wire.Result{RunID: d.RunID, StepID: d.StepID, Seq: d.Seq + 1}},
		"another runner's seq":    {second, wire.Result{RunID: d.RunID, StepID: d.StepID, Seq: d.Seq}},
		"T15: before any offer":   {r, wire.Result{RunID: string(guessed.ID), StepID: "chat:1:1", Seq: 0}},
		"T15: with a guessed seq": {r, wire.Result{RunID: string(guessed.ID), StepID: "chat:1:1", Seq: 1}},
	} {
		tt.res.Output = []byte(`{"text":"not mine to give"}`)
		if got := tt.by.post(tt.res); got != "refused not_found" {
			t.Errorf("%s: %s", name, got)
		}
		tt.res.Output = []byte(`{"error":{"code":"busy","message":"no"}}`)
		if got := tt.by.post(tt.res); got != "refused not_found" {
			t.Errorf("%s, as an error: %s", name, got)
		}
	}
	for _, row := range []store.Run{mine, theirs} {
		if s := w.step(row); s.State != store.StepAccepted || s.Output != nil {
			t.Errorf("step of %s is %s", row.ID, s.State)
		}
	}
	if s := w.step(guessed); s.State != store.StepQueued {
		t.Errorf("guessed step is %s", s.State)
	}
	for _, e := range w.audit(ann) {
		if e.Kind == store.AuditReject && (e.Run != "" || e.Step != "") {
			t.Errorf("the audit log repeats what a refused frame said: %+v", e)
		}
	}
}

// T14: a second result with another output. The first stays, and the audit log has a note.
func TestASecondResultChangesNothing_T14(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, "")
	d := st.frame()
	r.finish(d)
	before, events := w.step(row), w.events(row)
	if got := r.post(output(d, "another")); got != wire.VerdictDeduplicated {
		t.Errorf("verdict %s", got)
	}
	if diff := cmp.Diff(before, w.step(row)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(events, w.events(row)); diff != "" {
		t.Error(diff)
	}
	want := []string{store.AuditOffer, store.AuditPermit, store.AuditResult, store.AuditReject}
	if diff := cmp.Diff(want, w.kinds(row)); diff != "" {
		t.Error(diff)
	}
}

// T16: what a runner can do is looked at when the step is offered, not when it was created.
func TestCapabilitiesAreLookedAtWhenOffering_T16(t *testing.T) {
	w := newWorld(t)
	ann := w.subject("acme", "ann")
	row := w.ask(ann, `{"ai.provider":"late"}`)
	r, st := w.online(ann)
	st.silent()
	r.can.Providers = append(r.can.Providers, "late")
	st = r.connect()
	first := st.frame()
	if first.RunID != string(row.ID) || first.Provider != "late" {
		t.Errorf("frame %+v", first)
	}
	r.finish(first)

	w.ask(ann, `{"ai.provider":"echo","model":"new"}`)
	st.silent()
	r.can.Models = nil
	st = r.connect()
	r.finish(st.frame())

	inv := wire.Inventory{Providers: map[string]wire.Provider{"late": {}}}
	r.has = &inv
	r.report()
	w.ask(ann, `{"ai.provider":"echo"}`)
	st.silent()
	inv.Providers["echo"] = wire.Provider{}
	r.has = &inv
	r.report()
	if got := st.frame(); got.Provider != "echo" {
		t.Errorf("frame %+v", got)
	}
}

// T12: the subject comes from who is signed in, and clients cannot set the member that says it.
func TestTheSubjectIsStamped_T12(t *testing.T) {
	w := newWorld(t)
	ann := w.subject("acme", "ann")
	q := request(ann, "chat")
	q.Inputs, q.Metadata = []byte(`{"prompt":"x"}`), []byte(`{"runnerd.subject":"acme/bob"}`)
	if _, err := w.runs.Create(t.Context(), q); err == nil || !strings.Contains(err.Error(), "metadata.runnerd.subject") {
		t.Errorf("got %v", err)
	}
	q.Metadata = []byte(`{"ticket":"T-1"}`)
	row := w.create(q)
	doc, err := w.runs.Snapshot(t.Context(), row.Tenant, row.ID)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(doc.Metadata, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"ticket": "T-1", "runnerd.subject": "acme/ann"}, got); d != "" {
		t.Error(d)
	}
}

// T07, UD-29: revoked while its stream is open.
func TestARevokedRunnerIsCut_T07(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row, offered := w.ask(r.subject, ""), store.Run{}
	d := st.frame()
	r.accept(d)
	offered = w.ask(r.subject, "")
	st.frame()
	w.update(func(tx store.Tx) error { return tx.RevokeRunner(r.subject, store.RunnerID(r.id), at()) }) // by another gateway
	w.sweep()
	if got := st.control(); got != wire.ControlRevoked {
		t.Errorf("control %s", got)
	}
	st.ended()
	if got := r.refused("POST", "/results", output(d, "")); got != "401 key_revoked" {
		t.Error(got)
	}
	if code, outcome := w.failure(row); code != "runner_unavailable" || outcome != dispatch.OutcomeUnknown {
		t.Errorf("failed as %s %s", code, outcome)
	}
	if got := w.step(offered).State; got != store.StepQueued {
		t.Errorf("the offered step is %s", got)
	}
	w.ask(r.subject, "") // memory may still have it, the store does not give it anything
}

func TestLogoutEndsEverything(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	if status, body := r.call("DELETE", "/runner", nil); status != http.StatusNoContent {
		t.Errorf("%d %s", status, body)
	}
	if got := st.control(); got != wire.ControlRevoked {
		t.Errorf("control %s", got)
	}
	st.ended()
	if got := r.refused("PUT", "/runner", r.record()); got != "401 key_revoked" {
		t.Error(got)
	}
}
