package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// A query is one statement on its way to the database.
type query struct {
	text  string
	args  []any
	read  func(pgx.Rows) error // takes one row; nil: there are none to take
	rows  int64                // how many rows it must touch; 0: any number
	count *int64               // told how many it touched
	write bool                 // it may have to be undone
	of    *call                // whose it is
}

// errStale says that a row is not as this transaction has read it, under a lock: somebody wrote to it who takes no lock.
var errStale = errors.New("a row is not as it was read")

// silence is how long an answer may take before the connection counts as lost. Nothing waits so long for a lock.
const silence = 30 * time.Second

// A conn is one connection.
type conn struct{ pg *pgx.Conn }

// send has statements carried out one after the other, in one round trip, up to the first that fails. It returns how many
// were carried out. No context ends them: a write that was begun gets its true outcome.
func (c conn) send(queries []query) (int, error) {
	if err := c.pg.PgConn().Conn().SetDeadline(time.Now().Add(silence)); err != nil {
		c.close()
		return 0, err
	}
	var b pgx.Batch
	for _, q := range queries {
		b.Queue(q.text, q.args...)
	}
	results := c.pg.SendBatch(context.Background(), &b)
	for i, q := range queries {
		if err := q.take(results); err != nil {
			_ = results.Close() // says the same once more
			return i, err
		}
	}
	return len(queries), results.Close()
}

// take reads the result of a statement, to its end.
func (q query) take(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if q.read == nil {
			continue
		}
		if err := q.read(rows); err != nil {
			return fmt.Errorf("read a row of %.40q: %w", q.text, err)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	n := rows.CommandTag().RowsAffected()
	if q.count != nil {
		*q.count = n
	}
	if q.rows > 0 && n != q.rows {
		return fmt.Errorf("%w: %.40q touched %d rows, not %d", errStale, q.text, n, q.rows)
	}
	return nil
}

// control carries out statements that are prepared by nobody: after an error the database takes only those that end what
// has failed.
func (c conn) control(statements string) error {
	_, err := c.pg.PgConn().Exec(context.Background(), statements).ReadAll()
	return err
}

// lost says whether the connection is of no use any more.
func (c conn) lost() bool { return c.pg.IsClosed() }

// rest makes the connection wait for as long as it may take until it is used again.
func (c conn) rest() { _ = c.pg.PgConn().Conn().SetDeadline(time.Time{}) } // a dead one shows at its next use

// close ends the connection.
func (c conn) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.pg.Close(ctx) // whatever was not committed is undone by the server
}
