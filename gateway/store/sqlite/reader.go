package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"runnerd/gateway/store"
)

// A reader asks one connection, inside a transaction of it.
type reader struct {
	s     *Store
	c     *conn // nil once the transaction is over
	fault func(error) error
}

var _ store.Reader = (*reader)(nil)

// View runs fn on one snapshot: that of its first read. fn must not block: while it runs, the log cannot start anew.
func (s *Store) View(ctx context.Context, fn func(store.Reader) error) error {
	var c *conn
	select {
	case c = <-s.readers:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.closing:
		return store.ErrClosed
	}
	defer func() { s.readers <- c }()
	if c == nil {
		fresh, err := s.connect(context.WithoutCancel(ctx), reading)
		if err != nil {
			return fmt.Errorf("open a reading connection: %w", err)
		}
		c = fresh
	}
	if _, err := c.exec("BEGIN"); err != nil {
		c.close()
		c = nil
		return name(err)
	}
	r := &reader{s: s, c: c, fault: name}
	defer func() {
		r.end()
		if _, err := c.exec("ROLLBACK"); err != nil { // nothing is known of it any more: the next one begins afresh
			c.close()
			c = nil
		}
	}()
	return fn(r)
}

// name is the fault of a reader: nothing that goes wrong for it is anybody else's matter.
func name(err error) error {
	if err != nil {
		_, err = judge(err)
	}
	return err
}

// conn is the connection, while the function runs. Whoever kept the reader for later has a bug that would otherwise read
// from somebody else's transaction.
func (r *reader) conn() *conn {
	if r.c == nil {
		panic("sqlite: a transaction is used after its function has returned")
	}
	return r.c
}

func (r *reader) end() { r.c = nil }

// Now is the store's clock.
func (r *reader) Now() time.Time { return r.s.clock.now() }

// one reads one row, or gives store.ErrNotFound.
func one[T any](r *reader, scan func(scanner, *T) error, text string, args ...any) (T, error) {
	var v, zero T
	err := r.conn().row(func(row scanner) error { return scan(row, &v) }, text, args...)
	if errors.Is(err, sql.ErrNoRows) {
		return zero, store.ErrNotFound
	}
	if err != nil {
		return zero, r.fault(err)
	}
	return v, nil
}

// list reads all rows before it gives the first, when it is walked.
func list[T any](r *reader, scan func(scanner, *T) error, text string, args ...any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var all []T
		err := r.conn().rows(func(row scanner) error {
			var v T
			err := scan(row, &v)
			all = append(all, v)
			return err
		}, text, args...)
		if err != nil {
			var zero T
			yield(zero, r.fault(err))
			return
		}
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// none is a list without members.
func none[T any](func(T, error) bool) {}
