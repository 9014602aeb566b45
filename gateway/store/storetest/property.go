package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"runnerd/gateway/store"
)

// testModel does the same at random to a store and to the model, several things in a transaction, of which some fail in the
// end; both must say the same, and look the same in the end and after each that failed. Small numbers are drawn more often: what should be rare is a
// large one.
func testModel(t *testing.T, open Open) {
	worked := map[string]int{}
	defer func() {
		t.Logf("worked: %v", worked)
		for name := range ops {
			if worked[name] < 5 {
				t.Errorf("%s worked %d times only: what is drawn does not meet", name, worked[name])
			}
		}
	}()
	rounds, failing := 0, false
	rapid.Check(t, func(rt *rapid.T) {
		if rounds++; rounds > modelRounds && !failing && os.Getenv("RUNNERD_NIGHTLY") == "" {
			return
		}
		defer func() { failing = failing || rt.Failed() }() // then rapid looks for a smaller example
		s, m := open(t, nil), newModel()
		defer s.Close()
		write(t, s, func(tx store.Tx) error { return furnish(m, tx) })
		for i := range 10 {
			before := m.clone()
			err := s.Update(t.Context(), func(tx store.Tx) error {
				for range rapid.IntRange(3, 9).Draw(rt, "writes") {
					name := rapid.SampledFrom(opNames).Draw(rt, "op")
					want, got := ops[name](rt, m, tx)
					if !errors.Is(got, want) {
						rt.Fatalf("%s: got %v, want %v", name, got, want)
					}
					if want == nil {
						worked[name]++
					}
				}
				if rapid.IntRange(0, 4).Draw(rt, "fails") == 4 {
					return errOurs
				}
				return nil
			})
			if err == errOurs {
				m = before
			} else if err != nil {
				rt.Fatal(err)
			}
			if err == nil && i < 9 {
				continue // what was written shows later too
			}
			if err := s.View(t.Context(), func(r store.Reader) error { compare(rt, m, r); return nil }); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// furnish gives each subject a run with a step, and two of them a runner.
func furnish(m *model, tx store.Tx) error {
	for i, s := range someSubjects {
		r, st := aRun(s, someRuns[i%2]), aStep(s, someRuns[i%2], someSteps[0], i)
		if err := all(m.CreateRun(r), tx.CreateRun(r), m.CreateStep(st), tx.CreateStep(st)); err != nil {
			return err
		}
	}
	for i, id := range someRunners[:2] {
		r := aRunner(someSubjects[i], id, i)
		if err := all(m.CreateRunner(r), tx.CreateRunner(r)); err != nil {
			return err
		}
	}
	return nil
}

// modelRounds is how many of rapid's checks do something: each opens a store. At night all do.
const modelRounds = 30

// The few names there are, so that what is drawn often meets.
var (
	someSubjects = []store.Subject{ann, bob, foreign}
	someRuns     = []store.RunID{"r1", "r2"}
	someSteps    = []store.StepID{"a:1:1", "b:1:1", "c:1:1"}
	someRunners  = []store.RunnerID{"k1", "k2", "k3"}
	someStates   = []store.StepState{store.StepQueued, store.StepOffered, store.StepAccepted, store.StepDone, store.StepFailed}
	someStatuses = []string{"running", "running", "running", "paused", "completed"}
)

func pick[T any](rt *rapid.T, from []T) T {
	return rapid.SampledFrom(from).Draw(rt, fmt.Sprintf("%T", from[0]))
}

func moment(rt *rapid.T) time.Time { return at(rapid.IntRange(1, 9).Draw(rt, "moment")) }

// aRunOf is mostly a run that there is, with its subject.
func aRunOf(rt *rapid.T, m *model) (store.Subject, store.RunID) {
	var known []store.Run
	for _, s := range someSubjects {
		for _, id := range someRuns {
			if r, ok := m.runs[runKey{s.Tenant(), id}]; ok && r.Subject == s {
				known = append(known, r.Run)
			}
		}
	}
	if len(known) > 0 && rapid.IntRange(0, 4).Draw(rt, "known") < 4 {
		r := known[rapid.IntRange(0, len(known)-1).Draw(rt, "run")]
		return r.Subject, r.ID
	}
	return pick(rt, someSubjects), pick(rt, someRuns)
}

// aRunnerOf is mostly a runner that there is, with its subject.
func aRunnerOf(rt *rapid.T, m *model) (store.Subject, store.RunnerID) {
	id := pick(rt, someRunners)
	if r, ok := m.runners[id]; ok && rapid.IntRange(0, 4).Draw(rt, "known") < 4 {
		return r.Subject, id
	}
	return pick(rt, someSubjects), id
}

// ops do one thing to both, and give what the model says and what the store says.
var ops = map[string]func(rt *rapid.T, m *model, tx store.Tx) (want, got error){
	"CreateRun": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		r := aRun(pick(rt, someSubjects), pick(rt, someRuns))
		r.Created = moment(rt)
		return m.CreateRun(r), tx.CreateRun(r)
	},
	"Append": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		s, id := aRunOf(rt, m)
		status, when := pick(rt, someStatuses), moment(rt)
		var first int64
		if r, ok := m.runs[runKey{s.Tenant(), id}]; ok {
			first = max(0, r.LastSeq+1+rapid.Int64Range(-1, 1).Draw(rt, "off")*rapid.Int64Range(0, 1).Draw(rt, "by"))
		}
		es := events(first, rapid.IntRange(0, 3).Draw(rt, "events"))
		return m.Append(s.Tenant(), id, status, when, es), tx.Append(s.Tenant(), id, status, when, es)
	},
	"CreateStep": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		of, run := aRunOf(rt, m)
		s := aStep(of, run, pick(rt, someSteps), rapid.IntRange(1, 9).Draw(rt, "due"))
		return m.CreateStep(s), tx.CreateStep(s)
	},
	"MoveStep": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		of, run := aRunOf(rt, m)
		fence := store.Fence{Tenant: of.Tenant(), Run: run, Step: pick(rt, someSteps)}
		known := m.stepsBy(func(store.Step) bool { return true }, func(a, b store.Step) int { return 0 })
		if n := len(known); n > 0 {
			fence = known[rapid.IntRange(0, n-1).Draw(rt, "step")].Fence()
		}
		switch rapid.IntRange(0, 7).Draw(rt, "stale") {
		case 5:
			fence.State = pick(rt, someStates)
		case 6:
			fence.Seq++
		case 7:
			fence.Runner += "x"
		}
		next := store.Step{State: pick(rt, someStates), Seq: rapid.Int64Range(0, 3).Draw(rt, "seq"), Due: moment(rt)}
		if next.Seq > 0 {
			next.Runner, next.Output = pick(rt, someRunners), json.RawMessage(`{"text":"x"}`)
		}
		return m.MoveStep(fence, next), tx.MoveStep(fence, next)
	},
	"CreateRunner": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		r := aRunner(pick(rt, someSubjects), pick(rt, someRunners), rapid.IntRange(1, 3).Draw(rt, "created"))
		return m.CreateRunner(r), tx.CreateRunner(r)
	},
	"MoveRunner": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		of, id := aRunnerOf(rt, m)
		expect := m.runners[id].Epoch + rapid.Int64Range(0, 1).Draw(rt, "off")
		next := store.Runner{ID: id, Subject: of, Epoch: expect + 1, State: "ready", LastSeen: moment(rt)}
		want := m.onRunner(next.Subject, next.ID, store.ErrConflict,
			func(r store.Runner) bool { return r.Epoch == expect },
			func(r *store.Runner) { r.Epoch, r.State, r.LastSeen = next.Epoch, next.State, next.LastSeen })
		return want, tx.MoveRunner(expect, next)
	},
	"NextSeq": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		s, id := aRunnerOf(rt, m)
		var seq int64
		want := m.onRunner(s, id, store.ErrConflict,
			func(r store.Runner) bool { return r.Revoked.IsZero() },
			func(r *store.Runner) { r.Cursor++; seq = r.Cursor })
		got, err := tx.NextSeq(s, id)
		if got != seq {
			rt.Fatalf("NextSeq gave %d, want %d", got, seq)
		}
		return want, err
	},
	"RaiseCursor": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		s, id := aRunnerOf(rt, m)
		seq := rapid.Int64Range(0, 9).Draw(rt, "seq")
		want := m.onRunner(s, id, store.ErrConflict, anyRunner, func(r *store.Runner) { r.Cursor = max(r.Cursor, seq) })
		return want, tx.RaiseCursor(s, id, seq)
	},
	"RevokeRunner": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		s, id := aRunnerOf(rt, m)
		when := moment(rt)
		return m.RevokeRunner(s, id, when), tx.RevokeRunner(s, id, when)
	},
	"PutTimer": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		of, run := aRunOf(rt, m)
		k := store.Timer{Tenant: of.Tenant(), Run: run, ID: pick(rt, []string{"t", "u"})}
		v := k
		v.Due = moment(rt)
		if _, ok := m.runs[runKey{k.Tenant, k.Run}]; !ok {
			return store.ErrNotFound, tx.PutTimer(v)
		}
		m.timers[k] = v.Due
		return nil, tx.PutTimer(v)
	},
	"DeleteTimer": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		k := store.Timer{Tenant: pick(rt, someSubjects).Tenant(), Run: pick(rt, someRuns), ID: "t"}
		delete(m.timers, k)
		return nil, tx.DeleteTimer(k.Tenant, k.Run, k.ID)
	},
	"PutAsk": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		a := anAsk(pick(rt, someSubjects), pick(rt, someRunners), pick(rt, someRuns), pick(rt, []string{"x", "y"}))
		return m.PutAsk(a), tx.PutAsk(a)
	},
	"AnswerAsk": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		s, id, when := pick(rt, someSubjects), pick(rt, []string{"x", "y"}), moment(rt)
		return m.AnswerAsk(s, id, "allow", when), tx.AnswerAsk(s, id, "allow", when)
	},
	"AppendAudit": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		e := store.AuditEntry{Subject: pick(rt, someSubjects), Kind: store.AuditOffer, At: moment(rt)}
		return m.AppendAudit(e), tx.AppendAudit(e)
	},
}

// opNames are in a fixed order, so that a seed always draws the same. Those of steps come more often.
var opNames = append(slices.Sorted(maps.Keys(ops)), "CreateRun", "CreateStep", "CreateStep", "MoveStep", "MoveStep", "MoveStep")

// compare reads everything back.
func compare(rt *rapid.T, m *model, r store.Reader) {
	equal := func(name string, want, got any, err error) {
		if err != nil {
			rt.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got, asWhole); diff != "" {
			rt.Fatalf("%s: -want +got:\n%s", name, diff)
		}
	}
	byCreation := func(a, b store.Step) int { return 0 }
	for k, want := range m.runs {
		got, err := r.Run(k.tenant, k.id)
		equal("Run", want.Run, got, err)
		log, err := collect(r.Events(k.tenant, k.id, -1, 1000))
		equal("Events", want.events, log, err)
		steps, err := collect(r.StepsOfRun(k.tenant, k.id))
		equal("StepsOfRun", m.stepsBy(func(s store.Step) bool { return s.Tenant == k.tenant && s.Run == k.id }, byCreation), steps, err)
	}
	for _, s := range someSubjects {
		queued, err := collect(r.QueuedSteps(s, 100))
		equal("QueuedSteps", m.stepsBy(func(st store.Step) bool { return st.Subject == s && st.State == store.StepQueued }, byCreation), queued, err)
		audit, err := collect(r.Audit(s, 0, 1000))
		equal("Audit", m.audits[s], audit, err)
		for _, id := range someRunners {
			held, err := collect(r.StepsOfRunner(s, id, store.StepOffered, store.StepAccepted))
			equal("StepsOfRunner", m.stepsBy(func(st store.Step) bool {
				return st.Subject == s && st.Runner == id && (st.State == store.StepOffered || st.State == store.StepAccepted)
			}, func(a, b store.Step) int { return int(a.Seq - b.Seq) }), held, err)
		}
	}
	for id, want := range m.runners {
		got, err := r.RunnerOfAll(id)
		equal("RunnerOfAll", want, got, err)
	}
	due, err := collect(r.AllDueSteps(at(5), 1000))
	equal("AllDueSteps", m.stepsBy(func(s store.Step) bool { return !s.State.Terminal() && !s.Due.After(at(5)) },
		func(a, b store.Step) int { return a.Due.Compare(b.Due) }), due, err)
	var timers int
	for timer, err := range r.AllDueTimers(at(100), 1000) {
		want := m.timers[store.Timer{Tenant: timer.Tenant, Run: timer.Run, ID: timer.ID}]
		equal("AllDueTimers", want, timer.Due, err)
		timers++
	}
	equal("AllDueTimers", len(m.timers), timers, nil)
	var revoked []store.RunnerID
	for v, err := range r.Revocations(0) {
		equal("Revocations", nil, nil, err)
		revoked = append(revoked, v.Runner)
	}
	equal("Revocations", len(m.revoked), len(revoked), nil)
	for k, want := range m.asks {
		asks, err := collect(r.Asks(k.subject.Tenant(), want.Run))
		equal("Asks", true, slices.ContainsFunc(asks, func(a store.AskRecord) bool { return cmp.Equal(a, want.AskRecord, asWhole) }), err)
	}
}
