package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"runnerd/gateway/store"
)

// together has functions wait in the queue until all are there, and gives what became of each.
func together(t *testing.T, s *Store, fns ...func(store.Tx) error) []error {
	t.Helper()
	began, wait := make(chan struct{}), make(chan struct{})
	outcomes := make([]error, len(fns))
	var wg sync.WaitGroup
	wg.Go(func() { write(t, s, func(store.Tx) error { close(began); <-wait; return nil }) })
	<-began
	for i, fn := range fns {
		wg.Go(func() { outcomes[i] = s.Update(context.Background(), fn) })
		for len(s.writer.queue) < min(i+1, groupMax) {
			runtime.Gosched() // so that they queue in their order
		}
	}
	close(wait)
	wg.Wait()
	return outcomes
}

func TestWhatWaitsSharesOneCommit(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var rang [][]store.Topic
	d := newDatabase(t)
	t.Cleanup(func() { d.free(t) })
	s := d.open(t, Options{Ring: func(topics ...store.Topic) {
		mu.Lock()
		defer mu.Unlock()
		rang = append(rang, slices.Clone(topics))
	}})
	before := s.Commits()
	var fns []func(store.Tx) error
	var want []store.Topic
	for i := range 100 {
		id := store.RunID(fmt.Sprintf("r%03d", i))
		fns = append(fns, begin(id))
		want = append(want, store.RunTopic("acme", id))
	}
	for _, err := range together(t, s, fns...) {
		if err != nil {
			t.Error(err)
		}
	}
	if n := s.Commits() - before; n != 1 {
		t.Errorf("%d commits for what waited together", n)
	}
	if len(rang) != 1 || !slices.Equal(rang[0], want) {
		t.Errorf("rang %v", rang)
	}
}

func TestAFunctionIsUndoneWithinItsGroup(t *testing.T) {
	t.Parallel()
	all, _ := gateways(t, 1)
	s := all[0]
	fails := func(id store.RunID) func(store.Tx) error {
		return func(tx store.Tx) error { return errors.Join(begin(id)(tx), errOurs) }
	}
	late := func(id store.RunID) func(store.Tx) error { // after what it wrote has gone to the database
		return func(tx store.Tx) error {
			_, err := tx.RunnerOfAll("none")
			return errors.Join(begin(id)(tx), second(tx.RunnerOfAll("none")), err)
		}
	}
	before := s.Commits()
	outcomes := together(t, s, begin("r1"), fails("r2"), begin("r3"), late("r1"), late("r4"), fails("r1"), begin("r2"))
	for i, fine := range []bool{true, false, true, false, false, false, true} {
		if fine != (outcomes[i] == nil) {
			t.Errorf("%d got %v", i, outcomes[i])
		}
	}
	if n := s.Commits() - before; n != 1 {
		t.Errorf("%d commits", n)
	}
	read(t, s, func(r store.Reader) error {
		audit, err := collect(r.Audit(ann, 0, 10))
		var of []store.RunID
		for i, e := range audit {
			if of = append(of, e.Run); e.Seq != int64(i+1) {
				t.Errorf("entry %d is %d", i, e.Seq)
			}
		}
		if want := []store.RunID{"r1", "r3", "r2"}; !slices.Equal(of, want) {
			t.Errorf("audit of %v, want %v", of, want)
		}
		if _, err := r.Run("acme", "r4"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("r4: %v", err)
		}
		return err
	})
}

func TestReadingCostsNoCommit(t *testing.T) {
	t.Parallel()
	all, _ := gateways(t, 1)
	before := all[0].Commits()
	write(t, all[0], func(tx store.Tx) error {
		if _, err := tx.Run("acme", "none"); !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
	if n := all[0].Commits() - before; n != 0 {
		t.Errorf("%d commits", n)
	}
}

// What a function costs is its trips to the database. A step's life takes these: a question for each thing that is not known
// yet, and one for what was written, and the commit.
func TestTripsToTheDatabaseAreFew(t *testing.T) {
	t.Parallel()
	var trips atomic.Int64
	c := newCable()
	d := newDatabase(t)
	t.Cleanup(func() { d.free(t) })
	s := d.open(t, Options{dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := c.dial(ctx, network, addr)
		return &counting{conn, &trips}, err
	}})
	furnish(t, s, ann, "k1", "r0", 0)
	life := []struct {
		name string
		want int64
		fn   func(store.RunID) func(store.Tx) error
	}{
		{"create and offer", 5, func(id store.RunID) func(store.Tx) error {
			return func(tx store.Tx) error { // the key, the run, the runner with its steps
				if _, err := tx.Idempotent("acme", "o", string(id)); !errors.Is(err, store.ErrNotFound) {
					return err
				}
				if err := startRun(tx, ann, id); err != nil {
					return err
				}
				if _, err := collect(tx.StepsOfRunner(ann, "k1", store.StepOffered, store.StepAccepted)); err != nil {
					return err
				}
				step, err := tx.Step("acme", id, "n:1:1")
				if err != nil {
					return err
				}
				next := step
				next.State, next.Runner = store.StepOffered, "k1"
				if next.Seq, err = tx.NextSeq(ann, "k1"); err != nil {
					return err
				}
				_, err = tx.Run("acme", id)
				return errors.Join(err, tx.MoveStep(step.Fence(), next), tx.AppendAudit(store.AuditEntry{Subject: ann}),
					tx.PutIdempotent(store.Idempotent{Tenant: "acme", Operation: "o", Key: string(id)}))
			}
		}},
		{"accept", 4, func(id store.RunID) func(store.Tx) error {
			return func(tx store.Tx) error { // the runner, the step with its run
				_, err := tx.Runner(ann, "k1")
				if err != nil {
					return err
				}
				step, err := tx.Step("acme", id, "n:1:1")
				if err != nil {
					return err
				}
				next := step
				next.State = store.StepAccepted
				r, err := tx.Run("acme", id)
				return errors.Join(err, tx.MoveStep(step.Fence(), next), tx.AppendAudit(store.AuditEntry{Subject: ann}),
					tx.Append("acme", id, "running", tx.Now(), events(r.LastSeq+1)), second(tx.Runner(ann, "k1")))
			}
		}},
		{"result", 3, func(id store.RunID) func(store.Tx) error {
			return func(tx store.Tx) error { // the step with its run
				step, err := tx.Step("acme", id, "n:1:1")
				if err != nil {
					return err
				}
				next := step
				next.State, next.Output = store.StepDone, document
				r, err := tx.Run("acme", id)
				return errors.Join(err, tx.MoveStep(step.Fence(), next), tx.AppendAudit(store.AuditEntry{Subject: ann}),
					tx.Append("acme", id, "completed", tx.Now(), events(r.LastSeq+1)), tx.DeleteTimers("acme", id))
			}
		}},
	}
	for _, id := range []store.RunID{"first", "second"} { // the first prepares the statements
		for _, l := range life {
			before := trips.Load()
			write(t, s, l.fn(id))
			if got := trips.Load() - before; id == "second" && got != l.want {
				t.Errorf("%s took %d trips, want %d", l.name, got, l.want)
			}
		}
	}
}

func events(seq int64) []store.Event { return []store.Event{{Seq: seq, Type: "t", Doc: document}} }

type counting struct {
	net.Conn
	n *atomic.Int64
}

func (c *counting) Write(b []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(b)
}

func TestAPanicSaysWhereItWas(t *testing.T) {
	t.Parallel()
	all, _ := gateways(t, 1)
	for name, fn := range map[string]func(store.Tx) error{
		"text":    func(store.Tx) error { panic("broken invariant") },
		"runtime": func(store.Tx) error { var none []int; return fmt.Errorf("%d", none[3]) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				err, ok := recover().(error)
				if !ok || !strings.Contains(err.Error(), "TestAPanicSaysWhereItWas") {
					t.Errorf("recovered %v", err)
				}
			}()
			_ = all[0].Update(t.Context(), fn)
		})
	}
}
