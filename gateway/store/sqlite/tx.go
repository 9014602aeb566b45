package sqlite

import (
	"errors"
	"slices"

	"runnerd/gateway/store"
)

// errUnfinished is the outcome of a function that panicked or ended its goroutine.
var errUnfinished = errors.New("the function did not return")

// A tx is one function's part of a transaction. Its savepoint is set at its first write, so that a function which only
// reads, or fails before it wrote, costs the others nothing.
type tx struct {
	reader
	call   *call
	saved  bool
	run    numberedRun // the last one that was looked up
	topics []store.Topic
	err    error
}

var _ store.Tx = (*tx)(nil)

// Publish notes a topic to ring after the commit.
func (t *tx) Publish(topic store.Topic) {
	t.conn()
	if !slices.Contains(t.topics, topic) {
		t.topics = append(t.topics, topic)
	}
}

// save makes what fn writes from here on a thing that can be undone alone.
func (t *tx) save() error {
	if t.saved {
		return nil
	}
	_, err := t.conn().exec("SAVEPOINT fn")
	t.saved = err == nil
	return t.fault(err)
}

// exec writes, and says how many rows it changed.
func (t *tx) exec(text string, args ...any) (int64, error) {
	if err := t.save(); err != nil {
		return 0, err
	}
	n, err := t.conn().exec(text, args...)
	return n, t.fault(err)
}

// insert adds a row and gives its number. RETURNING would do the same through a table of its own, at twice the cost.
func (t *tx) insert(text string, args ...any) (int64, error) {
	if err := t.save(); err != nil {
		return 0, err
	}
	n, err := t.conn().insert(text, args...)
	return n, t.fault(err)
}

// put writes what needs no row to be there.
func (t *tx) put(text string, args ...any) error {
	_, err := t.exec(text, args...)
	return err
}

// change writes to a row that must be there: none is the error given.
func (t *tx) change(none error, text string, args ...any) error {
	n, err := t.exec(text, args...)
	if err == nil && n == 0 {
		err = none
	}
	return err
}

// take writes, and reads back a row of what it wrote: none is ErrNotFound.
func take[T any](t *tx, scan func(scanner, *T) error, text string, args ...any) (T, error) {
	if err := t.save(); err != nil {
		var zero T
		return zero, err
	}
	return one(&t.reader, scan, text, args...)
}

// scanInt reads a row of one number.
func scanInt(row scanner, n *int64) error { return row.Scan(n) }

// A numberedRun is what never changes of a run, and how other tables name it.
type numberedRun struct {
	tenant  store.Tenant
	id      store.RunID
	subject store.Subject
	n       int64
}

// number finds a run, or gives ErrNotFound. A transaction mostly asks for the same one again.
func (t *tx) number(tenant store.Tenant, id store.RunID) (numberedRun, error) {
	if t.run.n != 0 && t.run.tenant == tenant && t.run.id == id {
		return t.run, nil
	}
	run, err := one(&t.reader, func(row scanner, r *numberedRun) error { return row.Scan(&r.n, &r.subject) },
		"SELECT n, subject FROM run WHERE tenant = ? AND id = ?", tenant, id)
	if err != nil {
		return run, err
	}
	run.tenant, run.id = tenant, id
	t.run = run
	return run, nil
}

// asConflict is for writes that name what they expect: what is not there is not as expected.
func asConflict(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return store.ErrConflict
	}
	return err
}

// unlessMissing is for deletions: what is not there is deleted.
func unlessMissing(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
