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
	topics []store.Topic
	err    error
}

var _ store.Tx = (*tx)(nil)

// run calls fn and tells the writer when it has ended, however it ends.
func (t *tx) run(fn func(store.Tx) error, back chan<- struct{}) {
	t.err = errUnfinished
	defer func() {
		t.reader.end()
		back <- struct{}{}
	}()
	t.err = fn(t)
}

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
