package storetest

import (
	"testing"
	"time"

	"runnerd/gateway/store"
)

var stepCases = map[string]func(*testing.T, store.Store){
	"CreateStep/keeps every member": func(t *testing.T, s store.Store) {
		st := full[store.Step](1)
		st.Tenant, st.Run, st.Subject, st.State = acme, "r1", ann, store.StepAccepted
		write(t, s, func(tx store.Tx) error { return all(tx.CreateRun(aRun(ann, "r1")), tx.CreateStep(st)) })
		read(t, s, func(v store.Reader) { same(t, st)(v.Step(acme, "r1", st.ID)) })
	},
	"CreateStep/refuses the second of an id, and a run that the subject does not have": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error {
			return all(tx.CreateRun(aRun(ann, "r1")), tx.CreateRun(aRun(ann, "r2")), tx.CreateRun(aRun(bob, "r3")),
				tx.CreateStep(aStep(ann, "r1", "n:1:1", 1)), tx.CreateStep(aStep(ann, "r2", "n:1:1", 1)))
		})
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.CreateStep(aStep(ann, "r1", "n:1:1", 2)) })
		refused(t, s, store.ErrNotFound, func(tx store.Tx) error { return tx.CreateStep(aStep(ann, "r3", "n:1:1", 2)) })
		refused(t, s, store.ErrNotFound, func(tx store.Tx) error { return tx.CreateStep(aStep(foreign, "r1", "n:2:1", 2)) })
		read(t, s, func(v store.Reader) { lists(t, v.StepsOfRun(acme, "r1"), aStep(ann, "r1", "n:1:1", 1)) })
	},
	"Step/of another run or tenant is not found": func(t *testing.T, s store.Store) {
		steps(t, s, aStep(ann, "r1", "n:1:1", 1), aStep(ann, "r2", "m:1:1", 1))
		read(t, s, func(v store.Reader) {
			fails[store.Step](t, store.ErrNotFound)(v.Step(rival, "r1", "n:1:1"))
			fails[store.Step](t, store.ErrNotFound)(v.Step(acme, "r2", "n:1:1"))
		})
	},
	"StepsOfRun/come by creation": func(t *testing.T, s store.Store) {
		b, a, c := aStep(ann, "r1", "b:1:1", 1), aStep(ann, "r1", "a:1:1", 1), aStep(ann, "r1", "c:1:1", 0)
		steps(t, s, b, aStep(ann, "r2", "x:1:1", 1), a, c)
		read(t, s, func(v store.Reader) { lists(t, v.StepsOfRun(acme, "r1"), b, a, c) })
	},

	"MoveStep/replaces what moves, and nothing else": func(t *testing.T, s store.Store) {
		was := aStep(ann, "r1", "n:1:1", 1)
		steps(t, s, was, aStep(ann, "r1", "n:2:1", 1))
		next := full[store.Step](40)
		next.State = store.StepOffered
		write(t, s, func(tx store.Tx) error { return tx.MoveStep(was.Fence(), next) })
		want := next
		want.Tenant, want.Run, want.ID, want.Subject, want.Kind, want.Provider, want.Model, want.Tool, want.Named, want.Inputs,
			want.Wait, want.Timeout, want.Created = was.Tenant, was.Run, was.ID, was.Subject, was.Kind, was.Provider, was.Model,
			was.Tool, was.Named, was.Inputs, was.Wait, was.Timeout, was.Created
		read(t, s, func(v store.Reader) {
			same(t, want)(v.Step(acme, "r1", "n:1:1"))
			same(t, aStep(ann, "r1", "n:2:1", 1))(v.Step(acme, "r1", "n:2:1"))
		})
	},
	"MoveStep/is refused when any part of the fence is not so": func(t *testing.T, s store.Store) {
		is := moved(aStep(ann, "r1", "n:1:1", 1), store.StepOffered, "k1", 4)
		steps(t, s, is)
		for name, change := range map[string]func(*store.Fence){
			"tenant": func(f *store.Fence) { f.Tenant = rival },
			"run":    func(f *store.Fence) { f.Run = "r2" },
			"step":   func(f *store.Fence) { f.Step = "n:1:2" },
			"state":  func(f *store.Fence) { f.State = store.StepAccepted },
			"runner": func(f *store.Fence) { f.Runner = "k2" },
			"none":   func(f *store.Fence) { f.Runner = "" },
			"seq":    func(f *store.Fence) { f.Seq = 5 },
		} {
			fence := is.Fence()
			change(&fence)
			t.Run(name, func(t *testing.T) {
				refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.MoveStep(fence, moved(is, store.StepDone, "k1", 4)) })
			})
		}
		read(t, s, func(v store.Reader) { same(t, is)(v.Step(acme, "r1", "n:1:1")) })
	},
	"MoveStep/of two that expect the same, one is refused": func(t *testing.T, s store.Store) {
		was := aStep(ann, "r1", "n:1:1", 1)
		steps(t, s, was)
		write(t, s, func(tx store.Tx) error { return tx.MoveStep(was.Fence(), moved(was, store.StepOffered, "k1", 1)) })
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.MoveStep(was.Fence(), moved(was, store.StepOffered, "k2", 1)) })
	},

	"StepsOfRunner/come by seq, in the states asked for": func(t *testing.T, s store.Store) {
		offered := moved(aStep(ann, "r1", "a:1:1", 1), store.StepOffered, "k1", 9)
		accepted := moved(aStep(ann, "r1", "b:1:1", 1), store.StepAccepted, "k1", 3)
		done := moved(aStep(ann, "r1", "c:1:1", 1), store.StepDone, "k1", 5)
		steps(t, s, offered, accepted, done,
			moved(aStep(ann, "r1", "d:1:1", 1), store.StepAccepted, "k2", 1), aStep(ann, "r1", "e:1:1", 1),
			moved(aStep(bob, "r2", "f:1:1", 1), store.StepAccepted, "k1", 4))
		read(t, s, func(v store.Reader) {
			lists(t, v.StepsOfRunner(ann, "k1", store.StepAccepted, store.StepOffered), accepted, offered)
			lists(t, v.StepsOfRunner(ann, "k1", store.StepAccepted), accepted)
			lists(t, v.StepsOfRunner(ann, "k1"), accepted, done, offered)
			lists(t, v.StepsOfRunner(ann, "k3", store.StepAccepted))
			lists(t, v.StepsOfRunner(annWork, "k1", store.StepAccepted))
		})
	},
	"QueuedSteps/come oldest first, of one subject": func(t *testing.T, s store.Store) {
		first := aStep(ann, "r1", "b:1:1", 9)
		withdrawn := moved(aStep(ann, "r1", "a:1:1", 5), store.StepOffered, "k1", 2)
		third := aStep(ann, "r1", "c:1:1", 1)
		steps(t, s, first, withdrawn, third, aStep(bob, "r2", "x:1:1", 1))
		again := moved(withdrawn, store.StepQueued, "k1", 2)
		write(t, s, func(tx store.Tx) error { return tx.MoveStep(withdrawn.Fence(), again) })
		read(t, s, func(v store.Reader) {
			lists(t, v.QueuedSteps(ann, 10), first, again, third)
			lists(t, v.QueuedSteps(ann, 1), first)
			lists(t, v.QueuedSteps(ann, 0))
			lists(t, v.QueuedSteps(annWork, 10))
		})
	},
	"AllDueSteps/come by due, while they live": func(t *testing.T, s store.Store) {
		queued := aStep(ann, "r1", "a:1:1", 5)
		offered := moved(aStep(bob, "r2", "b:1:1", 4), store.StepOffered, "k1", 1)
		accepted := moved(aStep(foreign, "r3", "c:1:1", 6), store.StepAccepted, "k2", 1)
		steps(t, s, queued, offered, accepted, moved(aStep(ann, "r1", "d:1:1", 1), store.StepDone, "k1", 2),
			moved(aStep(ann, "r1", "e:1:1", 1), store.StepFailed, "k1", 3), moved(aStep(ann, "r1", "f:1:1", 1), store.StepCancelled, "k1", 4))
		read(t, s, func(v store.Reader) {
			lists(t, v.AllDueSteps(at(6), 10), offered, queued, accepted)
			lists(t, v.AllDueSteps(at(5), 10), offered, queued)
			lists(t, v.AllDueSteps(at(9), 1), offered)
			lists(t, v.AllDueSteps(at(3), 10))
			lists(t, v.AllDueSteps(at(9), 0))
		})
	},
	"AllDueSteps/are claimed once": func(t *testing.T, s store.Store) { testClaims(t, s) },
	"AllQueuedSubjects/come once each": func(t *testing.T, s store.Store) {
		read(t, s, func(v store.Reader) { lists(t, v.AllQueuedSubjects()) })
		steps(t, s, aStep(foreign, "r3", "a:1:1", 1), aStep(ann, "r1", "a:1:1", 1), aStep(ann, "r1", "b:1:1", 1),
			moved(aStep(bob, "r2", "a:1:1", 1), store.StepAccepted, "k1", 1))
		read(t, s, func(v store.Reader) { lists(t, v.AllQueuedSubjects(), ann, foreign) })
	},
}

// steps creates the runs that are missing, and the steps.
func steps(t *testing.T, s store.Store, some ...store.Step) {
	t.Helper()
	write(t, s, func(tx store.Tx) error {
		for _, st := range some {
			if _, err := tx.Run(st.Tenant, st.Run); err != nil {
				if err := tx.CreateRun(aRun(st.Subject, st.Run)); err != nil {
					return err
				}
			}
			if err := tx.CreateStep(st); err != nil {
				return err
			}
		}
		return nil
	})
}

// testClaims lets several take what is due, as gateways do, and counts who got what.
func testClaims(t *testing.T, s store.Store) {
	const n = 40
	var some []store.Step
	for i := range n {
		some = append(some, aStep(ann, "r1", store.StepID(rune('A'+i)), i))
	}
	steps(t, s, some...)
	type claim struct {
		id  store.StepID
		err error
	}
	claims := make(chan claim)
	for range 4 {
		go func() {
			for {
				var got store.StepID
				err := s.Update(t.Context(), func(tx store.Tx) error {
					got = ""
					for st, err := range tx.AllDueSteps(at(n).Add(time.Hour), 1) {
						if err != nil {
							return err
						}
						got = st.ID
						return tx.MoveStep(st.Fence(), moved(st, store.StepFailed, "", 0))
					}
					return nil
				})
				claims <- claim{got, err}
				if got == "" || err != nil {
					return
				}
			}
		}()
	}
	count := map[store.StepID]int{}
	for ended := 0; ended < 4; {
		c := <-claims
		if c.err != nil {
			t.Error(c.err)
		}
		if c.id == "" || c.err != nil {
			ended++
			continue
		}
		count[c.id]++
	}
	for id, times := range count {
		if times != 1 {
			t.Errorf("step %s was claimed %d times", id, times)
		}
	}
	if len(count) != n {
		t.Errorf("%d of %d were claimed", len(count), n)
	}
}
