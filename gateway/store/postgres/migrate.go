package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"runnerd/gateway/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema up to date, each migration in a transaction of its own (faults.md G17), and refuses a schema
// that is newer than this program knows (P08) before it touches anything. Of gateways that start together one migrates and
// the others wait.
func migrate(ctx context.Context, cfg *pgx.ConnConfig) (err error) {
	db := stdlib.OpenDB(*cfg)
	defer func() { err = errors.Join(err, db.Close()) }()
	var version int
	var encoding string
	err = db.QueryRowContext(ctx, "SELECT current_setting('server_version_num')::int / 10000, current_setting('server_encoding')").
		Scan(&version, &encoding)
	switch {
	case err != nil:
		return err
	case version < oldest:
		return fmt.Errorf("the server is PostgreSQL %d: %d is the oldest that will do", version, oldest)
	case encoding != "UTF8":
		return fmt.Errorf("the database is encoded in %s: it must be made with UTF8", encoding)
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	have, want, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if have > want {
		return fmt.Errorf("%w: its schema is %d, this program knows %d", store.ErrNewer, have, want)
	}
	if have == want {
		return nil
	}
	if _, err = p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// A mode is what a connection is for.
type mode int

const (
	reading mode = iota
	writing
)

// prepare makes settings of a new connection. Every statement of this package finds its rows by an index, and no plan
// depends on the values: the planner is kept from walking a table that is small only today, and from planning again and
// again.
func prepare(ctx context.Context, c *pgx.Conn, m mode) error {
	sql := `SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan;
		SET timezone = 'UTC'; SET client_min_messages = warning; SET idle_in_transaction_session_timeout = '30s'`
	if m == writing {
		// A commit that was answered is on the disk, whatever the server's default is.
		sql += fmt.Sprintf(`; SET lock_timeout = %d; SELECT set_config('synchronous_commit', 'on', false)
			WHERE current_setting('synchronous_commit') = 'off'`, lockTimeout.Milliseconds())
	}
	if _, err := c.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("prepare the connection: %w", err)
	}
	return nil
}
