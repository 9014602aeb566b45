package sqlite

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"runnerd/gateway/store"
)

func TestWhatWaitsSharesOneCommit(t *testing.T) {
	var mu sync.Mutex
	var rang [][]store.Topic
	s, _ := openWith(t, Options{Ring: func(topics ...store.Topic) {
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

func TestAGroupHasALimit(t *testing.T) {
	s, _ := openWith(t, Options{})
	before := s.Commits()
	var fns []func(store.Tx) error
	for i := range groupMax { // and the one that holds the writer
		fns = append(fns, func(tx store.Tx) error { return tx.PutMeta(fmt.Sprint(i), nil) })
	}
	for _, err := range together(t, s, fns...) {
		if err != nil {
			t.Error(err)
		}
	}
	if n := s.Commits() - before; n != 2 {
		t.Errorf("%d commits, want 2", n)
	}
}

func TestAFunctionIsUndoneWithinItsGroup(t *testing.T) {
	s, _ := openWith(t, Options{})
	ours := errors.New("ours")
	fails := func(id store.RunID) func(store.Tx) error {
		return func(tx store.Tx) error { return errors.Join(begin(id)(tx), ours) }
	}
	before := s.Commits()
	outcomes := together(t, s, begin("r1"), fails("r2"), begin("r3"), fails("r1"), begin("r2"))
	for i, fine := range []bool{true, false, true, false, true} {
		if fine != (outcomes[i] == nil) {
			t.Errorf("%d got %v", i, outcomes[i])
		}
	}
	if n := s.Commits() - before; n != 1 {
		t.Errorf("%d commits", n)
	}
	for _, id := range []store.RunID{"r1", "r2", "r3"} {
		if !has(t, s, id) {
			t.Errorf("%s is missing", id)
		}
	}
	var seqs []int64
	err := s.View(t.Context(), func(r store.Reader) error {
		for e, err := range r.Audit("acme/ann", 0, 10) {
			if err != nil {
				return err
			}
			seqs = append(seqs, e.Seq)
		}
		return nil
	})
	if err != nil || !slices.Equal(seqs, []int64{1, 2, 3}) {
		t.Errorf("audit %v, %v", seqs, err)
	}
}

func TestAFunctionThatEndsItsGoroutineEndsItsCallersAndNoOther(t *testing.T) {
	s, _ := openWith(t, Options{})
	var began, wait = make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Update(t.Context(), func(store.Tx) error { close(began); <-wait; return nil }) })
	<-began
	returned := false
	wg.Go(func() {
		_ = s.Update(t.Context(), func(tx store.Tx) error {
			if err := begin("r1")(tx); err != nil {
				return err
			}
			runtime.Goexit()
			return nil
		})
		returned = true
	})
	for len(s.writer.queue) < 1 {
		runtime.Gosched()
	}
	var neighbour error
	wg.Go(func() { neighbour = s.Update(t.Context(), begin("r2")) })
	for len(s.writer.queue) < 2 {
		runtime.Gosched()
	}
	close(wait)
	wg.Wait()
	if returned || neighbour != nil || has(t, s, "r1") || !has(t, s, "r2") {
		t.Errorf("Update returned: %v; its neighbour got %v", returned, neighbour)
	}
}

func TestReadingCostsNoCommit(t *testing.T) {
	s, inject := openWith(t, Options{})
	before := s.Commits()
	inject.set(func(string) error { return nil })
	err := s.Update(t.Context(), func(tx store.Tx) error {
		if _, err := tx.Run("acme", "none"); !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
	if err != nil || s.Commits() != before || slices.Contains(inject.ran(), "SAVEPOINT fn") {
		t.Errorf("%v; %d commits; %q", err, s.Commits()-before, inject.ran())
	}
}

func TestStatementsArePreparedOnce(t *testing.T) {
	s, _ := openWith(t, Options{})
	for i := range 3 {
		if err := s.Update(t.Context(), begin(store.RunID(fmt.Sprint(i)))); err != nil {
			t.Fatal(err)
		}
	}
	count := func() (n int) {
		err := s.Update(t.Context(), func(t store.Tx) error { n = len(t.(*tx).c.stmts); return nil })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	count() // reads only, so it is rolled back, by a statement that was not needed before
	before := count()
	for i := range 50 {
		if err := s.Update(t.Context(), begin(store.RunID(fmt.Sprint("more", i)))); err != nil {
			t.Fatal(err)
		}
	}
	if after := count(); after != before {
		t.Errorf("%d statements, then %d", before, after)
	}
}

func TestAPanicSaysWhereItWas(t *testing.T) {
	s, _ := openWith(t, Options{})
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
			_ = s.Update(t.Context(), fn)
		})
	}
}

func TestLargeDocumentsDoNotFillTheLogInOneCommit(t *testing.T) {
	s, _ := openWith(t, Options{})
	before := s.Commits()
	var fns []func(store.Tx) error
	for i := range 6 {
		fns = append(fns, func(tx store.Tx) error { return tx.PutMeta(fmt.Sprint(i), make([]byte, groupBytes*2/5)) })
	}
	for _, err := range together(t, s, fns...) {
		if err != nil {
			t.Error(err)
		}
	}
	if n := s.Commits() - before; n != 2 { // three and three
		t.Errorf("%d commits, want 2", n)
	}
}
