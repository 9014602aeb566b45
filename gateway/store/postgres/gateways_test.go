package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runnerd/gateway/store"
)

const (
	ann = store.Subject("acme/ann")
	bob = store.Subject("acme/bob")
)

// write runs fn in a transaction that must succeed.
func write(t testing.TB, s *Store, fn func(store.Tx) error) {
	t.Helper()
	if err := s.Update(context.Background(), fn); err != nil {
		t.Errorf("Update: %v", err)
	}
}

func read(t testing.TB, s *Store, fn func(store.Reader) error) {
	t.Helper()
	if err := s.View(context.Background(), fn); err != nil {
		t.Errorf("View: %v", err)
	}
}

func aStep(s store.Subject, run store.RunID, id store.StepID) store.Step {
	return store.Step{Tenant: s.Tenant(), Run: run, ID: id, Subject: s, Kind: "model", State: store.StepQueued, Due: time.UnixMicro(1).UTC()}
}

// furnish gives a subject a runner, a run, and n steps of it that wait.
func furnish(t testing.TB, s *Store, who store.Subject, runner store.RunnerID, run store.RunID, n int) {
	t.Helper()
	write(t, s, func(tx store.Tx) error {
		err := errors.Join(tx.CreateRunner(store.Runner{ID: runner, Subject: who}),
			tx.CreateRun(store.Run{ID: run, Tenant: who.Tenant(), Subject: who, Status: "running"}))
		for i := range n {
			err = errors.Join(err, tx.CreateStep(aStep(who, run, store.StepID(fmt.Sprintf("n%03d:1:1", i)))))
		}
		return err
	})
}

func collect[T any](seq iter.Seq2[T, error]) (all []T, err error) {
	for v, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

// everywhere runs fn many times at once, spread over the gateways.
func everywhere(all []*Store, goroutines int, fn func(s *Store, g int)) {
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() { fn(all[g%len(all)], g) })
	}
	wg.Wait()
}

// A stream sends what has a higher cursor than what it sent last. Whatever is offered, through whichever gateway, it must
// come to send, and each once: that is so if no value can be seen before a lower one.
func TestACursorIsNeverSeenOutOfOrder(t *testing.T) {
	t.Parallel()
	const steps = 120
	all, _ := gateways(t, 3)
	furnish(t, all[0], ann, "k1", "r1", steps)
	stop := make(chan struct{})
	var streams sync.WaitGroup
	sent := make([][]int64, len(all))
	for i, s := range all {
		streams.Go(func() {
			var cursor int64
			for last := false; ; {
				read(t, s, func(r store.Reader) error {
					for st, err := range r.StepsOfRunner(ann, "k1", store.StepOffered) {
						if err != nil {
							return err
						}
						if st.Seq > cursor {
							cursor = st.Seq
							sent[i] = append(sent[i], cursor)
						}
					}
					return nil
				})
				if last {
					return
				}
				select {
				case <-stop:
					last = true // one look more, for what came meanwhile
				default:
				}
			}
		})
	}
	var next atomic.Int64
	everywhere(all, 12, func(s *Store, g int) {
		random := rand.New(rand.NewPCG(uint64(g), 1))
		for i := next.Add(1) - 1; i < steps; i = next.Add(1) - 1 {
			for fail := true; fail; {
				fail = random.IntN(4) == 0
				err := s.Update(context.Background(), func(tx store.Tx) error {
					seq, err := tx.NextSeq(ann, "k1")
					if err != nil {
						return err
					}
					st := aStep(ann, "r1", store.StepID(fmt.Sprintf("n%03d:1:1", i)))
					offered := st
					offered.State, offered.Runner, offered.Seq = store.StepOffered, "k1", seq
					if err := tx.MoveStep(st.Fence(), offered); err != nil {
						return err
					}
					if fail {
						return errOurs
					}
					return nil
				})
				if err != nil && err != errOurs {
					t.Error(err)
				}
			}
		}
	})
	close(stop)
	streams.Wait()
	for i := range sent {
		if len(sent[i]) != steps || !slices.IsSorted(sent[i]) {
			t.Errorf("stream %d sent %d of %d: %v", i, len(sent[i]), steps, sent[i])
		}
	}
}

var errOurs = errors.New("ours")

// Functions read, decide and write. With SQLite none of them finds that what it has read was changed meanwhile, so none may
// here, whichever gateway they run on.
func TestWhatAFunctionHasReadStaysTrue(t *testing.T) {
	t.Parallel()
	const each = 15
	all, _ := gateways(t, 3)
	furnish(t, all[0], ann, "k1", "r1", 1)
	furnish(t, all[0], bob, "k2", "r2", 1)
	everywhere(all, 9, func(s *Store, g int) {
		run, who := store.RunID("r1"), ann
		if g%2 == 1 {
			run, who = "r2", bob
		}
		for range each {
			write(t, s, func(tx store.Tx) error {
				r, err := tx.Run("acme", run)
				if err != nil {
					return err
				}
				steps, err := collect(tx.StepsOfRun("acme", run))
				if err != nil {
					return err
				}
				moved := steps[0]
				moved.Waited += time.Second
				return errors.Join(tx.Append("acme", run, "running", tx.Now(), []store.Event{{Seq: r.LastSeq + 1, Type: "t"}}),
					tx.MoveStep(steps[0].Fence(), moved), tx.AppendAudit(store.AuditEntry{Subject: who}))
			})
		}
	})
	read(t, all[0], func(r store.Reader) error {
		var events, audits int
		var waited time.Duration
		for run, who := range map[store.RunID]store.Subject{"r1": ann, "r2": bob} {
			log, err := collect(r.Events("acme", run, -1, 1000))
			if err != nil {
				return err
			}
			for i, e := range log {
				if e.Seq != int64(i) {
					t.Errorf("event %d has sequence %d", i, e.Seq)
				}
			}
			audit, err := collect(r.Audit(who, 0, 1000))
			if err != nil {
				return err
			}
			step, err := r.Step("acme", run, "n000:1:1")
			if err != nil {
				return err
			}
			events, audits, waited = events+len(log), audits+len(audit), waited+step.Waited
		}
		if want := 9 * each; events != want || audits != want || waited != time.Duration(want)*time.Second {
			t.Errorf("%d events, %d audit entries, waited %v; want %d of each", events, audits, waited, want)
		}
		return nil
	})
}

func TestOppositeOrdersDoNotLockEachOtherOut(t *testing.T) {
	t.Parallel()
	all, _ := gateways(t, 2)
	furnish(t, all[0], ann, "k1", "r1", 0)
	furnish(t, all[0], bob, "k2", "r2", 0)
	began := time.Now()
	var ran, again atomic.Int64
	everywhere(all, 8, func(s *Store, g int) {
		first, second := store.RunnerID("k1"), store.RunnerID("k2")
		if g%2 == 1 {
			first, second = second, first
		}
		for range 15 {
			tries := 0
			write(t, s, func(tx store.Tx) error {
				tries++
				for _, id := range []store.RunnerID{first, second} {
					r, err := tx.RunnerOfAll(id)
					if err != nil {
						return err
					}
					if _, err := tx.NextSeq(r.Subject, id); err != nil {
						return err
					}
				}
				return nil
			})
			ran.Add(1)
			again.Add(int64(tries - 1))
		}
	})
	t.Logf("%d functions ran, %d times again, in %v", ran.Load(), again.Load(), time.Since(began))
	read(t, all[1], func(r store.Reader) error {
		for _, id := range []store.RunnerID{"k1", "k2"} {
			if got, err := r.RunnerOfAll(id); err != nil || got.Cursor != 8*15 {
				t.Errorf("cursor of %s: %d, %v", id, got.Cursor, err)
			}
		}
		return nil
	})
}

func TestWhatIsNotThereIsMadeOnce(t *testing.T) {
	t.Parallel()
	all, _ := gateways(t, 3)
	keys, runs := make([]string, 9), make([]store.RunID, 9)
	everywhere(all, 9, func(s *Store, g int) {
		write(t, s, func(tx store.Tx) error { // as the gateway's first start makes its key
			key, err := tx.Meta("key")
			if errors.Is(err, store.ErrNotFound) {
				key = fmt.Append(nil, g)
				err = tx.PutMeta("key", key)
			}
			keys[g] = string(key)
			return err
		})
		write(t, s, func(tx store.Tx) error { // as a request with an Idempotency-Key makes a run
			kept, err := tx.Idempotent("acme", "create", "key")
			if err == nil {
				runs[g] = store.RunID(kept.Body)
				return nil
			}
			runs[g] = store.RunID(fmt.Sprintf("r%d", g))
			return errors.Join(tx.CreateRun(store.Run{ID: runs[g], Tenant: "acme", Subject: ann, Status: "running"}),
				tx.PutIdempotent(store.Idempotent{Tenant: "acme", Operation: "create", Key: "key", Body: []byte(runs[g])}))
		})
	})
	if n := len(slices.Compact(keys)); n != 1 {
		t.Errorf("%d keys: %v", n, keys)
	}
	if n := len(slices.Compact(runs)); n != 1 {
		t.Errorf("%d runs: %v", n, runs)
	}
}

func TestRevocationsAreSeenInTheirOrder(t *testing.T) {
	t.Parallel()
	const n = 60
	all, _ := gateways(t, 3)
	write(t, all[0], func(tx store.Tx) (err error) {
		for i := range n {
			err = errors.Join(err, tx.CreateRunner(store.Runner{ID: store.RunnerID(fmt.Sprint(i)), Subject: store.Subject(fmt.Sprintf("acme/p%d", i))}))
		}
		return err
	})
	seen := make(chan int)
	go func() {
		var cursor int64
		found := 0
		for deadline := time.Now().Add(20 * time.Second); found < n && time.Now().Before(deadline); {
			read(t, all[2], func(r store.Reader) error {
				for v, err := range r.Revocations(cursor) {
					if err != nil {
						return err
					}
					cursor = v.Seq
					found++
				}
				return nil
			})
		}
		seen <- found
	}()
	everywhere(all, 12, func(s *Store, g int) {
		for i := g; i < n; i += 12 {
			write(t, s, func(tx store.Tx) error {
				return tx.RevokeRunner(store.Subject(fmt.Sprintf("acme/p%d", i)), store.RunnerID(fmt.Sprint(i)), tx.Now())
			})
		}
	})
	if found := <-seen; found != n {
		t.Errorf("a gateway that follows saw %d of %d", found, n)
	}
}

func TestWhatIsDueIsClaimedByOneGateway(t *testing.T) {
	t.Parallel()
	const n = 40
	all, _ := gateways(t, 3)
	furnish(t, all[0], ann, "k1", "r1", n/2)
	furnish(t, all[0], bob, "k2", "r2", n/2)
	write(t, all[0], func(tx store.Tx) (err error) {
		for i := range n {
			err = errors.Join(err, tx.PutTimer(store.Timer{Tenant: "acme", Run: store.RunID(fmt.Sprintf("r%d", 1+i%2)), ID: fmt.Sprint(i), Due: time.UnixMicro(1)}))
		}
		return err
	})
	var mu sync.Mutex
	moved, fired := map[string]int{}, map[string]int{}
	everywhere(all, 6, func(s *Store, _ int) {
		for left := true; left; {
			var steps []store.Step
			var timers []store.Timer
			write(t, s, func(tx store.Tx) (err error) {
				if steps, err = collect(tx.AllDueSteps(tx.Now(), 3)); err != nil {
					return err
				}
				for _, st := range steps {
					failed := st
					failed.State = store.StepFailed
					if err := tx.MoveStep(st.Fence(), failed); err != nil {
						return err
					}
				}
				if timers, err = collect(tx.AllDueTimers(tx.Now(), 3)); err != nil {
					return err
				}
				for _, timer := range timers {
					if err := tx.DeleteTimer(timer.Tenant, timer.Run, timer.ID); err != nil {
						return err
					}
				}
				return nil
			})
			mu.Lock()
			for _, st := range steps {
				moved[fmt.Sprint(st.Run, st.ID)]++
			}
			for _, timer := range timers {
				fired[fmt.Sprint(timer.Run, timer.ID)]++
			}
			mu.Unlock()
			read(t, s, func(r store.Reader) error { // nothing claimed may mean that the others claim it all
				due, err := collect(r.AllDueSteps(r.Now(), 1))
				set, errTimers := collect(r.AllDueTimers(r.Now(), 1))
				left = len(due)+len(set) > 0
				return errors.Join(err, errTimers)
			})
		}
	})
	for what, count := range map[string]map[string]int{"steps": moved, "timers": fired} {
		if len(count) != n {
			t.Errorf("%d of %d %s", len(count), n, what)
		}
		for id, times := range count {
			if times != 1 {
				t.Errorf("%s %s: %d times", what, id, times)
			}
		}
	}
}
