package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"runnerd/gateway/store"
)

// A reader asks within a transaction: a snapshot's, or a function's.
type reader struct {
	s *Store
	asker
}

var _ store.Reader = (*reader)(nil)

// An asker has statements carried out, in one round trip. by says what the answers are about, so that a function that may
// write keeps others from it; a snapshot does not care.
type asker interface {
	ask(by key, queries ...query) error
	time() time.Time
}

// Now is the database's clock, as it was when the transaction first looked.
func (r *reader) Now() time.Time { return r.time() }

// A snapshot is the transaction of a View. It begins with the first question.
type snapshot struct {
	s     *Store
	c     conn
	begun bool
	over  bool
	now   time.Time
}

// View runs fn on one snapshot: that of its first read.
func (s *Store) View(ctx context.Context, fn func(store.Reader) error) error {
	if s.isClosing() {
		return store.ErrClosed
	}
	pooled, err := s.readers.Acquire(ctx)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.isClosing():
		return store.ErrClosed
	default:
		return fmt.Errorf("%w: %w", store.ErrBusy, err)
	}
	v := &snapshot{s: s, c: conn{pooled.Conn()}}
	defer v.end(pooled)
	return fn(&reader{s, v})
}

func (v *snapshot) ask(_ key, queries ...query) error {
	if v.over {
		panic(errOver)
	}
	if !v.begun {
		queries = append([]query{{text: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}}, queries...)
		v.begun = true
	}
	_, err := v.c.send(queries)
	if err != nil {
		_, err = judge(err, v.c.lost())
	}
	return err
}

func (v *snapshot) time() time.Time {
	if v.now.IsZero() {
		if err := v.ask(key{}, v.s.readClock(&v.now)); err != nil {
			v.now = v.s.clock.saw(time.Time{}) // the next question fails too, and says why
		}
	}
	return v.now
}

func (v *snapshot) end(pooled *pgxpool.Conn) {
	v.over = true
	if v.begun && !v.c.lost() {
		_, _ = v.c.send([]query{{text: "ROLLBACK"}}) // if it fails, the pool sees that and lets the connection go
		v.c.rest()
	}
	pooled.Release()
}

// errOver is what a transaction panics with that is used after its function has returned: it would otherwise read from
// somebody else's.
var errOver = errors.New("postgres: a transaction is used after its function has returned")

// one reads one row, or gives store.ErrNotFound.
func one[T any](r *reader, by key, scan func(pgx.Rows, *T) error, text string, args ...any) (T, error) {
	var v, zero T
	found := false
	err := r.ask(by, row(&v, &found, scan, text, args...))
	if err == nil && !found {
		err = store.ErrNotFound
	}
	if err != nil {
		return zero, err
	}
	return v, nil
}

// row is the question for one row.
func row[T any](v *T, found *bool, scan func(pgx.Rows, *T) error, text string, args ...any) query {
	return query{text: text, args: args, read: func(rows pgx.Rows) error {
		*found = true
		return scan(rows, v)
	}}
}

// list reads all rows before it gives the first, when it is walked.
func list[T any](r *reader, by key, scan func(pgx.Rows, *T) error, text string, args ...any) iter.Seq2[T, error] {
	return listAfter(r, by, nil, scan, text, args...)
}

// listAfter is list with something else that is asked before.
func listAfter[T any](r *reader, by key, before []query, scan func(pgx.Rows, *T) error, text string, args ...any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var all []T
		err := r.ask(by, append(slices.Clip(before), query{text: text, args: args, read: func(rows pgx.Rows) error {
			var v T
			err := scan(rows, &v)
			all = append(all, v)
			return err
		}})...)
		if err != nil {
			var zero T
			yield(zero, err)
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
