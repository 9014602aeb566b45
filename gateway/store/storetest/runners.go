package storetest

import (
	"encoding/json"
	"sync"
	"testing"

	"runnerd/gateway/store"
)

var runnerCases = map[string]func(*testing.T, store.Store){
	"CreateRunner/keeps every member and refuses the second of an id": func(t *testing.T, s store.Store) {
		r := full[store.Runner](1)
		r.Subject = ann
		write(t, s, func(tx store.Tx) error { return tx.CreateRunner(r) })
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.CreateRunner(aRunner(foreign, r.ID, 9)) })
		read(t, s, func(v store.Reader) { same(t, r)(v.Runner(ann, r.ID)) })
	},
	"Runner/of another subject is not found": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error { return tx.CreateRunner(aRunner(ann, "k1", 1)) })
		read(t, s, func(v store.Reader) {
			for _, other := range []store.Subject{bob, annWork, foreign} {
				fails[store.Runner](t, store.ErrNotFound)(v.Runner(other, "k1"))
			}
			fails[store.Runner](t, store.ErrNotFound)(v.Runner(ann, "k2"))
		})
	},
	"RunnerOfAll/says whose it is": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error { return tx.CreateRunner(aRunner(ann, "k1", 1)) })
		read(t, s, func(v store.Reader) {
			same(t, aRunner(ann, "k1", 1))(v.RunnerOfAll("k1"))
			fails[store.Runner](t, store.ErrNotFound)(v.RunnerOfAll("k2"))
		})
	},
	"Runners/come by creation": func(t *testing.T, s store.Store) {
		a, b, c := aRunner(ann, "a", 2), aRunner(ann, "b", 1), aRunner(ann, "c", 1)
		write(t, s, func(tx store.Tx) error {
			return all(tx.CreateRunner(a), tx.CreateRunner(b), tx.CreateRunner(aRunner(bob, "x", 1)), tx.CreateRunner(c))
		})
		read(t, s, func(v store.Reader) { lists(t, v.Runners(ann), b, c, a) })
	},
	"RunnersOfTenant/come by creation": func(t *testing.T, s store.Store) {
		a, b, x := aRunner(ann, "a", 3), aRunner(annWork, "b", 1), aRunner(bob, "x", 2)
		write(t, s, func(tx store.Tx) error {
			return all(tx.CreateRunner(a), tx.CreateRunner(b), tx.CreateRunner(aRunner(foreign, "y", 1)), tx.CreateRunner(x))
		})
		read(t, s, func(v store.Reader) { lists(t, v.RunnersOfTenant(acme), b, x, a) })
	},

	"MoveRunner/replaces what moves, and nothing else": func(t *testing.T, s store.Store) {
		was := full[store.Runner](1)
		was.Subject = ann
		write(t, s, func(tx store.Tx) error { return tx.CreateRunner(was) })
		next := full[store.Runner](30)
		next.ID, next.Subject = was.ID, ann
		write(t, s, func(tx store.Tx) error { return tx.MoveRunner(was.Epoch, next) })
		want := was
		want.Epoch, want.Journal, want.Reports, want.Record, want.Inventory, want.State, want.MaxSteps, want.LastSeen =
			next.Epoch, next.Journal, next.Reports, next.Record, next.Inventory, next.State, next.MaxSteps, next.LastSeen
		read(t, s, func(v store.Reader) { same(t, want)(v.Runner(ann, was.ID)) })
		want.Inventory = nil
		write(t, s, func(tx store.Tx) error { return tx.MoveRunner(want.Epoch, want) })
		read(t, s, func(v store.Reader) { same(t, want)(v.Runner(ann, was.ID)) })
	},
	"MoveRunner/is refused on another epoch or subject": func(t *testing.T, s store.Store) {
		r := aRunner(ann, "k1", 1)
		r.Epoch, r.Record = 3, json.RawMessage(`{}`)
		write(t, s, func(tx store.Tx) error { return tx.CreateRunner(r) })
		next := r
		next.Epoch, next.Record = 4, json.RawMessage(`{"a":1}`)
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.MoveRunner(2, next) })
		next.Subject = bob
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.MoveRunner(3, next) })
		next.Subject, next.ID = ann, "k2"
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.MoveRunner(3, next) })
		read(t, s, func(v store.Reader) { same(t, r)(v.Runner(ann, "k1")) })
	},

	"NextSeq/rises by one": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error { return tx.CreateRunner(aRunner(ann, "k1", 1)) })
		for want := range int64(3) {
			write(t, s, func(tx store.Tx) error { same(t, want+1)(tx.NextSeq(ann, "k1")); return nil })
		}
	},
	"NextSeq/is refused for another's runner and for a revoked one": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error { return tx.CreateRunner(aRunner(ann, "k1", 1)) })
		next := func(of store.Subject, id store.RunnerID) func(store.Tx) error {
			return func(tx store.Tx) error { _, err := tx.NextSeq(of, id); return err }
		}
		refused(t, s, store.ErrConflict, next(bob, "k1"))
		refused(t, s, store.ErrConflict, next(ann, "k2"))
		write(t, s, func(tx store.Tx) error { return tx.RevokeRunner(ann, "k1", at(1)) })
		refused(t, s, store.ErrConflict, next(ann, "k1"))
	},
	"NextSeq/never gives one twice, whoever asks": func(t *testing.T, s store.Store) { testCursor(t, s) },
	"RaiseCursor/only lifts": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error { return tx.CreateRunner(aRunner(ann, "k1", 1)) })
		write(t, s, func(tx store.Tx) error { return tx.RaiseCursor(ann, "k1", 10) })
		write(t, s, func(tx store.Tx) error { return tx.RaiseCursor(ann, "k1", 4) })
		write(t, s, func(tx store.Tx) error { same(t, int64(11))(tx.NextSeq(ann, "k1")); return nil })
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.RaiseCursor(bob, "k1", 50) })
	},
	"MoveFamily/is refused when the generation is another": func(t *testing.T, s store.Store) {
		r := aRunner(ann, "k1", 1)
		write(t, s, func(tx store.Tx) error { return tx.CreateRunner(r) })
		write(t, s, func(tx store.Tx) error { return tx.MoveFamily("k1", 0, 2, at(5)) })
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.MoveFamily("k1", 0, 1, at(6)) })
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.MoveFamily("k2", 0, 1, at(6)) })
		r.Generation, r.Used = 2, at(5)
		read(t, s, func(v store.Reader) { same(t, r)(v.Runner(ann, "k1")) })
	},
	"RevokeRunner/adds one revocation, and twice is once": func(t *testing.T, s store.Store) {
		r := aRunner(ann, "k1", 1)
		write(t, s, func(tx store.Tx) error { return tx.CreateRunner(r) })
		write(t, s, func(tx store.Tx) error { return tx.RevokeRunner(ann, "k1", at(5)) })
		write(t, s, func(tx store.Tx) error { return tx.RevokeRunner(ann, "k1", at(6)) })
		refused(t, s, store.ErrNotFound, func(tx store.Tx) error { return tx.RevokeRunner(bob, "k1", at(6)) })
		r.Revoked = at(5)
		read(t, s, func(v store.Reader) {
			same(t, r)(v.Runner(ann, "k1"))
			got, err := collect(v.Revocations(0))
			if err != nil || len(got) != 1 || got[0].Runner != "k1" {
				t.Errorf("revocations: %v, %v", got, err)
			}
		})
	},
	"Revocations/come after a cursor, ascending": func(t *testing.T, s store.Store) {
		for i, id := range []store.RunnerID{"k1", "k2", "k3"} {
			write(t, s, func(tx store.Tx) error {
				return all(tx.CreateRunner(aRunner(ann, id, i)), tx.RevokeRunner(ann, id, at(1)))
			})
		}
		read(t, s, func(v store.Reader) {
			got, err := collect(v.Revocations(0))
			if err != nil || len(got) != 3 || got[0].Seq <= 0 || got[0].Seq >= got[1].Seq || got[1].Seq >= got[2].Seq {
				t.Fatalf("revocations: %v, %v", got, err)
			}
			lists(t, v.Revocations(got[0].Seq), got[1:]...)
			lists(t, v.Revocations(got[2].Seq))
		})
	},
	"TouchRunner/moves the last sign of life, and nothing else": func(t *testing.T, s store.Store) {
		r := full[store.Runner](1)
		r.Subject = ann
		write(t, s, func(tx store.Tx) error { return tx.CreateRunner(r) })
		write(t, s, func(tx store.Tx) error { return tx.TouchRunner(ann, r.ID, at(77)) })
		refused(t, s, store.ErrNotFound, func(tx store.Tx) error { return tx.TouchRunner(bob, r.ID, at(78)) })
		r.LastSeen = at(77)
		read(t, s, func(v store.Reader) { same(t, r)(v.Runner(ann, r.ID)) })
	},
	"AllRunnersHolding/have accepted steps": func(t *testing.T, s store.Store) {
		read(t, s, func(v store.Reader) { lists(t, v.AllRunnersHolding()) })
		k1, k2, k3 := aRunner(ann, "k1", 1), aRunner(foreign, "k2", 1), aRunner(bob, "k3", 1)
		write(t, s, func(tx store.Tx) error { return all(tx.CreateRunner(k2), tx.CreateRunner(k1), tx.CreateRunner(k3)) })
		steps(t, s, moved(aStep(ann, "r1", "a:1:1", 1), store.StepAccepted, "k1", 1),
			moved(aStep(ann, "r1", "b:1:1", 1), store.StepAccepted, "k1", 2),
			moved(aStep(foreign, "r2", "a:1:1", 1), store.StepAccepted, "k2", 1),
			moved(aStep(bob, "r3", "a:1:1", 1), store.StepOffered, "k3", 1))
		read(t, s, func(v store.Reader) { lists(t, v.AllRunnersHolding(), k1, k2) })
	},

	"CreatePairing/keeps every member, and a user code once": func(t *testing.T, s store.Store) {
		p := full[store.Pairing](1)
		write(t, s, func(tx store.Tx) error { return tx.CreatePairing(p) })
		read(t, s, func(v store.Reader) {
			same(t, p)(v.PairingByDevice(p.Device))
			same(t, p)(v.PairingByUserCode(p.UserCode))
		})
		other := full[store.Pairing](60)
		other.UserCode = p.UserCode
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.CreatePairing(other) })
	},
	"PairingByDevice/is not found when unknown": func(t *testing.T, s store.Store) {
		read(t, s, func(v store.Reader) { fails[store.Pairing](t, store.ErrNotFound)(v.PairingByDevice(hash(1))) })
	},
	"PairingByUserCode/is not found when unknown": func(t *testing.T, s store.Store) {
		read(t, s, func(v store.Reader) { fails[store.Pairing](t, store.ErrNotFound)(v.PairingByUserCode("ABCD")) })
	},
	"MovePairing/is refused in another state": func(t *testing.T, s store.Store) {
		p := full[store.Pairing](1)
		p.State, p.Subject, p.Runner = store.PairingPending, "", ""
		write(t, s, func(tx store.Tx) error { return tx.CreatePairing(p) })
		approved := p
		approved.State, approved.Subject, approved.Runner, approved.Issued = store.PairingApproved, ann, "k1", at(7)
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.MovePairing(store.PairingApproved, approved) })
		write(t, s, func(tx store.Tx) error { return tx.MovePairing(store.PairingPending, approved) })
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.MovePairing(store.PairingPending, approved) })
		read(t, s, func(v store.Reader) { same(t, approved)(v.PairingByDevice(p.Device)) })
	},
}

// testCursor takes cursor values from many sides, in transactions of which some fail, with lifts between.
func testCursor(t *testing.T, s store.Store) {
	write(t, s, func(tx store.Tx) error { return tx.CreateRunner(aRunner(ann, "k1", 1)) })
	var mu sync.Mutex
	taken := map[int64]int{}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 25 {
				var got int64
				err := s.Update(t.Context(), func(tx store.Tx) error {
					var err error
					if got, err = tx.NextSeq(ann, "k1"); err != nil {
						return err
					}
					switch (g + i) % 5 {
					case 0:
						return store.ErrBusy // as if the transaction had failed
					case 1:
						return tx.RaiseCursor(ann, "k1", got+2)
					}
					return nil
				})
				if err == nil {
					mu.Lock()
					taken[got]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for seq, times := range taken {
		if times != 1 {
			t.Errorf("%d was given %d times", seq, times)
		}
	}
	if want := 8 * 25 * 4 / 5; len(taken) != want {
		t.Errorf("%d values, want %d", len(taken), want)
	}
}
