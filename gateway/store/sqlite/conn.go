package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

// A conn is one connection with its prepared statements. A statement is prepared at its first use and kept for the life of
// the connection, under its text: all texts are constants.
type conn struct {
	db    *sql.DB // of this one connection
	sql   *sql.Conn
	stmts map[string]*sql.Stmt
	bytes int // of documents in what was written
}

// connect opens the database. The connector's pool is held to one connection, which is taken for good.
func connect(ctx context.Context, db *sql.DB) (*conn, error) {
	db.SetMaxOpenConns(1)
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{db: db, sql: c, stmts: map[string]*sql.Stmt{}}, nil
}

// release lends the connection to fn as a pool of one, and takes it back.
func (c *conn) release(ctx context.Context, fn func(*sql.DB) error) error {
	if err := c.sql.Close(); err != nil {
		return err
	}
	if err := fn(c.db); err != nil {
		return err
	}
	var err error
	c.sql, err = c.db.Conn(ctx)
	return err
}

// close ends the statements with the connection.
func (c *conn) close() error {
	for _, s := range c.stmts {
		s.Close()
	}
	c.sql.Close()
	return c.db.Close()
}

// stmt prepares text or finds it. Statements run without a context: a watcher per statement costs more than most of them,
// and a write that was begun gets its true outcome.
func (c *conn) stmt(text string) (*sql.Stmt, error) {
	if s := c.stmts[text]; s != nil {
		return s, nil
	}
	s, err := c.sql.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, fmt.Errorf("prepare %.40q: %w", text, err)
	}
	c.stmts[text] = s
	return s, nil
}

// exec runs a statement and says how many rows it changed.
func (c *conn) exec(text string, args ...any) (int64, error) {
	s, err := c.stmt(text)
	if err != nil {
		return 0, err
	}
	c.count(args)
	res, err := s.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// insert runs a statement that adds one row and gives its number.
func (c *conn) insert(text string, args ...any) (int64, error) {
	s, err := c.stmt(text)
	if err != nil {
		return 0, err
	}
	c.count(args)
	res, err := s.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

func (c *conn) count(args []any) {
	for _, a := range args {
		if b, ok := a.([]byte); ok {
			c.bytes += len(b)
		}
	}
}

// A scanner is a row to read.
type scanner interface{ Scan(...any) error }

// row reads the only row of a statement's result, or gives sql.ErrNoRows.
func (c *conn) row(scan func(scanner) error, text string, args ...any) error {
	s, err := c.stmt(text)
	if err != nil {
		return err
	}
	return scan(s.QueryRowContext(context.Background(), args...))
}

// rows reads the whole result of a statement. Nothing is left open: whoever walks the result may run the same statement
// again, and write.
func (c *conn) rows(scan func(scanner) error, text string, args ...any) error {
	s, err := c.stmt(text)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(context.Background(), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
