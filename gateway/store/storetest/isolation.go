package storetest

import (
	"encoding/json"
	"errors"
	"iter"
	"reflect"
	"testing"
	"time"

	"runnerd/gateway/store"
)

// A look asks one reading method for what ann has, as subject s of tenant t, and says how much it got.
type look func(r store.Reader, t store.Tenant, s store.Subject) (int, error)

// looks are all methods of Reader that take a tenant or a subject. A method that takes only a tenant is asked by rivals of
// ann's tenant only.
var looks = map[string]look{
	"User":      func(r store.Reader, t store.Tenant, _ store.Subject) (int, error) { return found(r.User(t, "ann")) },
	"Users":     func(r store.Reader, t store.Tenant, _ store.Subject) (int, error) { return count(r.Users(t)) },
	"Keys":      func(r store.Reader, t store.Tenant, _ store.Subject) (int, error) { return count(r.Keys(t)) },
	"Workflow":  func(r store.Reader, t store.Tenant, _ store.Subject) (int, error) { return found(r.Workflow(t, "w")) },
	"Workflows": func(r store.Reader, t store.Tenant, _ store.Subject) (int, error) { return count(r.Workflows(t)) },
	"Run":       func(r store.Reader, t store.Tenant, _ store.Subject) (int, error) { return found(r.Run(t, "r1")) },
	"Events": func(r store.Reader, t store.Tenant, _ store.Subject) (int, error) {
		return count(r.Events(t, "r1", -1, 9))
	},
	"Step": func(r store.Reader, t store.Tenant, _ store.Subject) (int, error) {
		return found(r.Step(t, "r1", "q:1:1"))
	},
	"StepsOfRun": func(r store.Reader, t store.Tenant, _ store.Subject) (int, error) {
		return count(r.StepsOfRun(t, "r1"))
	},
	"LateResults": func(r store.Reader, t store.Tenant, _ store.Subject) (int, error) {
		return count(r.LateResults(t, "r1"))
	},
	"Asks":            func(r store.Reader, t store.Tenant, _ store.Subject) (int, error) { return count(r.Asks(t, "r1")) },
	"RunnersOfTenant": func(r store.Reader, t store.Tenant, _ store.Subject) (int, error) { return count(r.RunnersOfTenant(t)) },
	"Idempotent": func(r store.Reader, t store.Tenant, _ store.Subject) (int, error) {
		return found(r.Idempotent(t, "o", "k"))
	},
	"Runs": func(r store.Reader, t store.Tenant, s store.Subject) (int, error) {
		return count(r.Runs(t, s, time.Time{}, 9))
	},
	"StepsOfRunner": func(r store.Reader, _ store.Tenant, s store.Subject) (int, error) {
		return count(r.StepsOfRunner(s, "k1"))
	},
	"QueuedSteps": func(r store.Reader, _ store.Tenant, s store.Subject) (int, error) { return count(r.QueuedSteps(s, 9)) },
	"Answers":     func(r store.Reader, _ store.Tenant, s store.Subject) (int, error) { return count(r.Answers(s, "k1")) },
	"Runner":      func(r store.Reader, _ store.Tenant, s store.Subject) (int, error) { return found(r.Runner(s, "k1")) },
	"Runners":     func(r store.Reader, _ store.Tenant, s store.Subject) (int, error) { return count(r.Runners(s)) },
	"Audit":       func(r store.Reader, _ store.Tenant, s store.Subject) (int, error) { return count(r.Audit(s, 0, 9)) },
}

// touches are writes to what ann has, as somebody else: each must be refused, or change nothing.
var touches = map[string]func(tx store.Tx, t store.Tenant, s store.Subject) error{
	"RevokeKey": func(tx store.Tx, t store.Tenant, _ store.Subject) error { return tx.RevokeKey(t, "key", at(9)) },
	"Append": func(tx store.Tx, t store.Tenant, _ store.Subject) error {
		return tx.Append(t, "r1", "failed", at(9), events(1, 1))
	},
	"DeleteTimer": func(tx store.Tx, t store.Tenant, _ store.Subject) error { return tx.DeleteTimer(t, "r1", "t") },
	"DeleteTimers": func(tx store.Tx, t store.Tenant, _ store.Subject) error {
		return tx.DeleteTimers(t, "r1")
	},
	"DeleteAsks": func(tx store.Tx, t store.Tenant, _ store.Subject) error { return tx.DeleteAsks(t, "r1", "n:1:1") },
	"MoveStep": func(tx store.Tx, t store.Tenant, _ store.Subject) error {
		fence := aStep(ann, "r1", "q:1:1", 1).Fence()
		fence.Tenant = t
		return tx.MoveStep(fence, aStep(ann, "r1", "q:1:1", 99))
	},
	"MoveRunner": func(tx store.Tx, _ store.Tenant, s store.Subject) error {
		return tx.MoveRunner(0, store.Runner{ID: "k1", Subject: s, Epoch: 5})
	},
	"NextSeq":      func(tx store.Tx, _ store.Tenant, s store.Subject) error { _, err := tx.NextSeq(s, "k1"); return err },
	"RaiseCursor":  func(tx store.Tx, _ store.Tenant, s store.Subject) error { return tx.RaiseCursor(s, "k1", 99) },
	"RevokeRunner": func(tx store.Tx, _ store.Tenant, s store.Subject) error { return tx.RevokeRunner(s, "k1", at(9)) },
	"TouchRunner":  func(tx store.Tx, _ store.Tenant, s store.Subject) error { return tx.TouchRunner(s, "k1", at(9)) },
	"AnswerAsk": func(tx store.Tx, _ store.Tenant, s store.Subject) error {
		return tx.AnswerAsk(s, "ask", "allow", at(9))
	},
}

// testIsolation gives ann one of everything, and has others look for it.
func testIsolation(t *testing.T, s store.Store) {
	wf := store.Workflow{Tenant: acme, ID: "w"}
	k := aRunner(ann, "k1", 1)
	steps(t, s, aStep(ann, "r1", "q:1:1", 1), moved(aStep(ann, "r1", "a:1:1", 1), store.StepAccepted, "k1", 1))
	write(t, s, func(tx store.Tx) error {
		return all(tx.CreateUser(user(ann)), tx.CreateKey(key(ann, "key", 1)), tx.PutWorkflow(wf), tx.CreateRunner(k),
			tx.Append(acme, "r1", "running", at(1), events(0, 1)), tx.PutTimer(store.Timer{Tenant: acme, Run: "r1", ID: "t", Due: at(1)}),
			tx.PutLate(store.Late{Tenant: acme, Run: "r1", Runner: "k1", Seq: 7, Output: json.RawMessage(`1`)}),
			tx.PutAsk(anAsk(ann, "k1", "r1", "ask")), tx.AppendAudit(store.AuditEntry{Subject: ann}),
			tx.PutIdempotent(store.Idempotent{Tenant: acme, Operation: "o", Key: "k"}))
	})

	tenant, subject := reflect.TypeFor[store.Tenant](), reflect.TypeFor[store.Subject]()
	takes := map[string]bool{} // whether a method takes a subject, or else a tenant
	for m := range reflect.TypeFor[store.Reader]().Methods() {
		for in := range m.Type.Ins() {
			if in == subject || in == tenant && !takes[m.Name] {
				takes[m.Name] = in == subject
			}
		}
		if _, scoped := takes[m.Name]; scoped && looks[m.Name] == nil {
			t.Errorf("nobody looks with Reader.%s", m.Name)
		}
	}
	for name, look := range looks {
		read(t, s, func(r store.Reader) {
			if n, err := look(r, acme, ann); n == 0 || err != nil {
				t.Errorf("%s finds nothing of ann's for ann: %v", name, err)
			}
			for _, other := range []store.Subject{foreign, bob, annWork, "acme/a", "acme/annn", "acm/ann", ""} {
				if !takes[name] && other.Tenant() == acme {
					continue
				}
				if n, err := look(r, other.Tenant(), other); n != 0 || err != nil {
					t.Errorf("%s finds %d of ann's for %q: %v", name, n, other, err)
				}
			}
		})
	}

	before := everything(t, s)
	for name, touch := range touches {
		for _, other := range []store.Subject{foreign, "acm/ann", ""} {
			err := s.Update(t.Context(), func(tx store.Tx) error { return touch(tx, other.Tenant(), other) })
			if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrConflict) {
				t.Errorf("%s as %q: %v", name, other, err)
			}
		}
	}
	same(t, before)(everything(t, s), nil)
}

// everything is what ann has, as far as the touches could change it.
func everything(t *testing.T, s store.Store) []any {
	var all []any
	read(t, s, func(r store.Reader) {
		add := func(v any, err error) {
			if err != nil {
				t.Error(err)
			}
			all = append(all, v)
		}
		add(r.KeyByHash(hash(1)))
		add(r.Run(acme, "r1"))
		add(collect(r.AllDueTimers(at(1000), 9)))
		add(collect(r.Asks(acme, "r1")))
		add(collect(r.StepsOfRun(acme, "r1")))
		add(r.Runner(ann, "k1"))
		add(collect(r.Revocations(0)))
	})
	return all
}

// found counts one thing, and nothing for ErrNotFound.
func found[T any](_ T, err error) (int, error) {
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	return 1, err
}

func count[T any](seq iter.Seq2[T, error]) (int, error) {
	all, err := collect(seq)
	return len(all), err
}
