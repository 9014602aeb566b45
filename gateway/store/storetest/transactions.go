package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/store"
)

var errOurs = errors.New("ours")

var transactionCases = map[string]func(*testing.T, store.Store){
	"Update/sees its own writes": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error {
			if err := tx.CreateRun(aRun(ann, "r1")); err != nil {
				return err
			}
			same(t, aRun(ann, "r1"))(tx.Run(acme, "r1"))
			return nil
		})
	},
	"Update/returns the function's error as it is, and undoes what it wrote": func(t *testing.T, s store.Store) {
		err := s.Update(t.Context(), func(tx store.Tx) error {
			return all(tx.CreateRun(aRun(ann, "r1")), tx.PutMeta("k", []byte("v")), errOurs)
		})
		if err != errOurs {
			t.Errorf("got %v, want the very error", err)
		}
		read(t, s, func(v store.Reader) {
			fails[store.Run](t, store.ErrNotFound)(v.Run(acme, "r1"))
			fails[[]byte](t, store.ErrNotFound)(v.Meta("k"))
		})
	},
	"Update/goes on after a conflict inside it": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error {
			if err := tx.CreateRun(aRun(ann, "r1")); err != nil {
				return err
			}
			if err := tx.CreateRun(aRun(ann, "r1")); !errors.Is(err, store.ErrConflict) {
				t.Errorf("got %v, want ErrConflict", err)
			}
			return tx.CreateRun(aRun(ann, "r2"))
		})
		read(t, s, func(v store.Reader) { same(t, aRun(ann, "r2"))(v.Run(acme, "r2")) })
	},
	"Update/undoes one function and nothing of its neighbours": testNeighbours,
	"Update/that panics panics in its caller, undone, and the store goes on": func(t *testing.T, s store.Store) {
		func() {
			defer func() {
				if p := recover(); p != errOurs {
					t.Errorf("recovered %v, want what it panicked with", p)
				}
			}()
			_ = s.Update(t.Context(), func(tx store.Tx) error {
				if err := tx.CreateRun(aRun(ann, "r1")); err != nil {
					return err
				}
				panic(errOurs)
			})
		}()
		write(t, s, func(tx store.Tx) error { return tx.CreateRun(aRun(ann, "r2")) })
		read(t, s, func(v store.Reader) { fails[store.Run](t, store.ErrNotFound)(v.Run(acme, "r1")) })
	},
	"Update/whose goroutine ends is undone, and the store goes on": func(t *testing.T, s store.Store) {
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = s.Update(t.Context(), func(tx store.Tx) error {
				if err := tx.CreateRun(aRun(ann, "r1")); err != nil {
					return err
				}
				runtime.Goexit() // what t.FailNow does
				return nil
			})
		})
		wg.Wait()
		write(t, s, func(tx store.Tx) error { return tx.CreateRun(aRun(ann, "r2")) })
		read(t, s, func(v store.Reader) { fails[store.Run](t, store.ErrNotFound)(v.Run(acme, "r1")) })
	},
	"Update/can be cancelled while it waits": func(t *testing.T, s store.Store) {
		within(t, s, func() {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(5*time.Millisecond, func() { cancel(errOurs) })
			if err := s.Update(ctx, func(store.Tx) error { t.Error("it ran"); return nil }); err != errOurs {
				t.Errorf("got %v, want the cause", err)
			}
		})
	},
	"Update/that was cancelled before does not run": func(t *testing.T, s store.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Update(ctx, func(store.Tx) error { t.Error("it ran"); return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	},
	"Update/gets its true outcome once it runs": func(t *testing.T, s store.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		err := s.Update(ctx, func(tx store.Tx) error {
			cancel()
			return tx.CreateRun(aRun(ann, "r1"))
		})
		if err != nil {
			t.Errorf("got %v, want success", err)
		}
		read(t, s, func(v store.Reader) { same(t, aRun(ann, "r1"))(v.Run(acme, "r1")) })
	},
	"Update/may write while it walks a list, walk it twice at once, and stop early": func(t *testing.T, s store.Store) {
		const n = 20
		for i := range n {
			steps(t, s, aStep(ann, "r1", store.StepID(fmt.Sprintf("n%02d", i)), i))
		}
		write(t, s, func(tx store.Tx) error {
			var seen int
			for outer, err := range tx.QueuedSteps(ann, n) {
				if err != nil {
					return err
				}
				for inner, err := range tx.QueuedSteps(ann, n) {
					if err != nil || inner.ID > outer.ID {
						break
					}
				}
				if err := tx.MoveStep(outer.Fence(), moved(outer, store.StepDone, "", 0)); err != nil {
					return err
				}
				seen++
			}
			if seen != n {
				t.Errorf("saw %d of %d", seen, n)
			}
			lists(t, tx.QueuedSteps(ann, n))
			return nil
		})
	},
	"Update/reads what it wrote as everybody will read it": testReadsOwn,
	"Update/is over when its function has returned": func(t *testing.T, s store.Store) {
		var kept store.Tx
		write(t, s, func(tx store.Tx) error { kept = tx; return nil })
		defer func() {
			if recover() == nil {
				t.Error("a transaction worked after its end")
			}
		}()
		_ = kept.PutMeta("k", nil)
	},

	"View/sees one snapshot": func(t *testing.T, s store.Store) {
		steps(t, s, aStep(ann, "r1", "a:1:1", 1))
		read(t, s, func(v store.Reader) {
			lists(t, v.QueuedSteps(ann, 10), aStep(ann, "r1", "a:1:1", 1))
			steps(t, s, aStep(ann, "r1", "b:1:1", 1))
			write(t, s, func(tx store.Tx) error { return tx.PutMeta("k", []byte("v")) })
			lists(t, v.QueuedSteps(ann, 10), aStep(ann, "r1", "a:1:1", 1))
			fails[[]byte](t, store.ErrNotFound)(v.Meta("k"))
			read(t, s, func(v store.Reader) { same(t, []byte("v"))(v.Meta("k")) })
		})
	},
	"View/does not see what is not committed": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error {
			if err := tx.CreateRun(aRun(ann, "r1")); err != nil {
				return err
			}
			return s.View(t.Context(), func(v store.Reader) error {
				fails[store.Run](t, store.ErrNotFound)(v.Run(acme, "r1"))
				return nil
			})
		})
	},
	"View/returns the function's error as it is": func(t *testing.T, s store.Store) {
		if err := s.View(t.Context(), func(store.Reader) error { return errOurs }); err != errOurs {
			t.Errorf("got %v", err)
		}
	},
	"View/that panics leaves the store working": func(t *testing.T, s store.Store) {
		for range 50 { // more than there are connections
			func() {
				defer func() { _ = recover() }()
				_ = s.View(t.Context(), func(v store.Reader) error { _, _ = v.Meta("k"); panic(errOurs) })
			}()
		}
		read(t, s, func(v store.Reader) { fails[[]byte](t, store.ErrNotFound)(v.Meta("k")) })
	},
	"View/runs beside many others": func(t *testing.T, s store.Store) {
		steps(t, s, aStep(ann, "r1", "a:1:1", 1))
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for range 10 {
					read(t, s, func(v store.Reader) { same(t, aStep(ann, "r1", "a:1:1", 1))(v.Step(acme, "r1", "a:1:1")) })
				}
			})
		}
		wg.Wait()
	},

	"Now/does not go back, and is in whole microseconds": func(t *testing.T, s store.Store) {
		var last time.Time
		look := func(r store.Reader) {
			now := r.Now()
			if now.Before(last) || now != now.Truncate(time.Microsecond).UTC() {
				t.Errorf("%v after %v", now, last)
			}
			last = now
		}
		for range 20 {
			read(t, s, look)
			write(t, s, func(tx store.Tx) error { look(tx); return nil })
		}
	},

	"Close/ends what comes after it, and may be called again": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error { return tx.PutMeta("k", nil) })
		if err := all(s.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
		if err := s.Update(t.Context(), func(store.Tx) error { return nil }); !errors.Is(err, store.ErrClosed) {
			t.Errorf("Update: %v", err)
		}
		if err := s.View(t.Context(), func(store.Reader) error { return nil }); !errors.Is(err, store.ErrClosed) {
			t.Errorf("View: %v", err)
		}
	},
	"Close/lets nobody hang": func(t *testing.T, s store.Store) {
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				for n := 0; ; n++ {
					err := s.Update(t.Context(), func(tx store.Tx) error { return tx.PutMeta(fmt.Sprint(i), nil) })
					if errors.Is(err, store.ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					if n == 5 {
						go s.Close()
					}
				}
			})
		}
		wg.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	},
}

// within runs fn while a transaction is under way on the writer.
func within(t *testing.T, s store.Store, fn func()) {
	t.Helper()
	began, end, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		ended <- s.Update(t.Context(), func(tx store.Tx) error {
			close(began)
			<-end
			return tx.PutMeta("within", nil)
		})
	}()
	<-began
	fn()
	close(end)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// testNeighbours has many functions share commits, of which every third fails after it wrote.
func testNeighbours(t *testing.T, s store.Store) {
	const n = 60
	id := func(i int) store.RunID { return store.RunID(fmt.Sprintf("r%02d", i)) }
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			err := s.Update(t.Context(), func(tx store.Tx) error {
				if err := all(tx.CreateRun(aRun(ann, id(i))), tx.Append(acme, id(i), "running", at(1), events(0, 2))); err != nil {
					return err
				}
				if i%3 == 0 {
					return errOurs
				}
				return nil
			})
			if failed := i%3 == 0; failed != (err == errOurs) || !failed && err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	read(t, s, func(v store.Reader) {
		for i := range n {
			_, err := v.Run(acme, id(i))
			if undone := errors.Is(err, store.ErrNotFound); undone != (i%3 == 0) {
				t.Errorf("%s: %v", id(i), err)
			}
			if i%3 == 0 {
				lists(t, v.Events(acme, id(i), -1, 10))
			} else {
				lists(t, v.Events(acme, id(i), -1, 10), events(0, 2)...)
			}
		}
	})
}

// testReadsOwn writes what is not in the form that a store keeps: moments of other zones and between two microseconds,
// documents that are empty and not nil.
func testReadsOwn(t *testing.T, s store.Store) {
	odd := at(3).Add(789 * time.Nanosecond).In(time.FixedZone("east", 3600))
	run, step, k := aRun(ann, "r1"), aStep(ann, "r1", "n:1:1", 1), aRunner(ann, "k1", 1)
	run.Created, run.Updated, run.Request, run.LastSeq = odd, odd, json.RawMessage{}, 5
	step.Created, step.Since, step.Due, step.Inputs = odd, odd, odd, json.RawMessage{}
	step.Wait, step.Timeout, step.Waited = 1234567, 2345678, 3456789
	k.Created, k.Used, k.LastSeen, k.Record, k.Inventory = odd, odd, odd, json.RawMessage{}, json.RawMessage(`{}`)
	look := func(r store.Reader) []any {
		var all []any
		add := func(v any, err error) {
			if err != nil {
				t.Error(err)
			}
			all = append(all, v)
		}
		add(r.Run(acme, "r1"))
		add(r.Step(acme, "r1", "n:1:1"))
		add(r.Runner(ann, "k1"))
		add(r.RunnerOfAll("k1"))
		add(collect(r.StepsOfRun(acme, "r1")))
		add(collect(r.StepsOfRunner(ann, "k1")))
		add(collect(r.Runners(ann)))
		add(collect(r.Runs(acme, ann, time.Time{}, 9)))
		add(collect(r.Events(acme, "r1", -1, 9)))
		add(collect(r.Audit(ann, 0, 9)))
		add(collect(r.Audit(ann, 1, 1)))
		return all
	}
	for i, fn := range []func(store.Tx) error{
		func(tx store.Tx) error {
			return all(tx.CreateRun(run), tx.CreateStep(step), tx.CreateRunner(k), tx.AppendAudit(store.AuditEntry{Subject: ann, At: odd}))
		},
		func(tx store.Tx) error {
			was, err := tx.Step(acme, "r1", "n:1:1")
			if err != nil {
				return err
			}
			next := moved(was, store.StepOffered, "k1", 1)
			next.Since, next.Due, next.Output, next.Waited = odd, odd, json.RawMessage{}, 4567890
			mk := k
			mk.Epoch, mk.LastSeen, mk.Record, mk.Inventory = 1, odd, json.RawMessage(`{"a":1}`), json.RawMessage{}
			_, errSeq := tx.NextSeq(ann, "k1")
			return all(tx.MoveStep(was.Fence(), next), tx.MoveRunner(0, mk), errSeq, tx.MoveFamily("k1", 0, 2, odd),
				tx.Append(acme, "r1", "running", odd, events(0, 2)), tx.AppendAudit(store.AuditEntry{Subject: ann, At: odd}),
				tx.AppendAudit(store.AuditEntry{Subject: bob}), tx.AppendAudit(store.AuditEntry{Subject: ann}))
		},
		func(tx store.Tx) error {
			return all(tx.TouchRunner(ann, "k1", odd), tx.RaiseCursor(ann, "k1", 9), tx.RevokeRunner(ann, "k1", odd),
				tx.Append(acme, "r1", "failed", odd, events(2, 1)))
		},
	} {
		var own []any
		write(t, s, func(tx store.Tx) error {
			if err := fn(tx); err != nil {
				return err
			}
			own = look(tx)
			return nil
		})
		read(t, s, func(r store.Reader) {
			if diff := cmp.Diff(look(r), own); diff != "" {
				t.Errorf("in transaction %d: -everybody +own:\n%s", i, diff)
			}
		})
	}
}
