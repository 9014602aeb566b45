package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"runnerd/gateway/store"
)

// testModel does the same at random to a store and to the model, several things in a transaction, of which some fail in the
// end; both must say the same, and look the same after each.
func testModel(t *testing.T, open Open) {
	rapid.Check(t, func(rt *rapid.T) {
		s, m := open(t, nil), newModel()
		defer s.Close()
		for range rapid.IntRange(1, 25).Draw(rt, "transactions") {
			before := m.clone()
			err := s.Update(t.Context(), func(tx store.Tx) error {
				for range rapid.IntRange(1, 4).Draw(rt, "writes") {
					name := rapid.SampledFrom(opNames).Draw(rt, "op")
					want, got := ops[name](rt, m, tx)
					if !errors.Is(got, want) {
						rt.Fatalf("%s: got %v, want %v", name, got, want)
					}
				}
				if rapid.IntRange(0, 4).Draw(rt, "fails") == 0 {
					return errOurs
				}
				return nil
			})
			if err == errOurs {
				m = before
			} else if err != nil {
				rt.Fatal(err)
			}
			if err := s.View(t.Context(), func(r store.Reader) error { compare(rt, m, r); return nil }); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// The few names there are, so that what is drawn often meets.
var (
	someSubjects = []store.Subject{ann, bob, foreign}
	someRuns     = []store.RunID{"r1", "r2"}
	someSteps    = []store.StepID{"a:1:1", "b:1:1", "c:1:1"}
	someRunners  = []store.RunnerID{"k1", "k2"}
	someStates   = []store.StepState{store.StepQueued, store.StepOffered, store.StepAccepted, store.StepDone, store.StepFailed}
	someStatuses = []string{"running", "running", "running", "paused", "completed"}
)

func pick[T any](rt *rapid.T, from []T) T {
	return rapid.SampledFrom(from).Draw(rt, fmt.Sprintf("%T", from[0]))
}

func moment(rt *rapid.T) time.Time { return at(rapid.IntRange(1, 9).Draw(rt, "moment")) }

// ops do one thing to both, and give what the model says and what the store says.
var ops = map[string]func(rt *rapid.T, m *model, tx store.Tx) (want, got error){
	"CreateRun": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		r := aRun(pick(rt, someSubjects), pick(rt, someRuns))
		r.Created = moment(rt)
		return m.CreateRun(r), tx.CreateRun(r)
	},
	"Append": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		s, id, status, when := pick(rt, someSubjects), pick(rt, someRuns), pick(rt, someStatuses), moment(rt)
		var first int64
		if r, ok := m.runs[runKey{s.Tenant(), id}]; ok {
			first = max(0, r.LastSeq+1+rapid.Int64Range(-1, 1).Draw(rt, "off")*rapid.Int64Range(0, 1).Draw(rt, "by"))
		}
		es := events(first, rapid.IntRange(0, 3).Draw(rt, "events"))
		return m.Append(s.Tenant(), id, status, when, es), tx.Append(s.Tenant(), id, status, when, es)
	},
	"CreateStep": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		s := aStep(pick(rt, someSubjects), pick(rt, someRuns), pick(rt, someSteps), rapid.IntRange(1, 9).Draw(rt, "due"))
		return m.CreateStep(s), tx.CreateStep(s)
	},
	"MoveStep": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		fence := store.Fence{Tenant: pick(rt, someSubjects).Tenant(), Run: pick(rt, someRuns), Step: pick(rt, someSteps)}
		if s, ok := m.steps[fence]; ok {
			fence = s.Fence()
		}
		if rapid.IntRange(0, 3).Draw(rt, "stale") == 0 {
			fence.State, fence.Seq = pick(rt, someStates), rapid.Int64Range(0, 3).Draw(rt, "seq")
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
		expect := rapid.Int64Range(0, 2).Draw(rt, "epoch")
		next := store.Runner{ID: pick(rt, someRunners), Subject: pick(rt, someSubjects), Epoch: expect + 1, State: "ready", LastSeen: moment(rt)}
		want := m.onRunner(next.Subject, next.ID, store.ErrConflict,
			func(r store.Runner) bool { return r.Epoch == expect },
			func(r *store.Runner) { r.Epoch, r.State, r.LastSeen = next.Epoch, next.State, next.LastSeen })
		return want, tx.MoveRunner(expect, next)
	},
	"NextSeq": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		s, id := pick(rt, someSubjects), pick(rt, someRunners)
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
		s, id, seq := pick(rt, someSubjects), pick(rt, someRunners), rapid.Int64Range(0, 9).Draw(rt, "seq")
		want := m.onRunner(s, id, store.ErrConflict, anyRunner, func(r *store.Runner) { r.Cursor = max(r.Cursor, seq) })
		return want, tx.RaiseCursor(s, id, seq)
	},
	"RevokeRunner": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		s, id, when := pick(rt, someSubjects), pick(rt, someRunners), moment(rt)
		return m.RevokeRunner(s, id, when), tx.RevokeRunner(s, id, when)
	},
	"PutTimer": func(rt *rapid.T, m *model, tx store.Tx) (error, error) {
		k := store.Timer{Tenant: pick(rt, someSubjects).Tenant(), Run: pick(rt, someRuns), ID: pick(rt, []string{"t", "u"})}
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

// opNames are in a fixed order, so that a seed always draws the same.
var opNames = slices.Sorted(maps.Keys(ops))

// compare reads everything back.
func compare(rt *rapid.T, m *model, r store.Reader) {
	equal := func(name string, want, got any, err error) {
		if err != nil {
			rt.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
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
		equal("Asks", true, slices.ContainsFunc(asks, func(a store.AskRecord) bool { return cmp.Equal(a, want.AskRecord) }), err)
	}
}
