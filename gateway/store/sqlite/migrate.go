package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"runnerd/gateway/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema up to date, each migration in a transaction of its own (faults.md G17), and refuses a schema
// that is newer than this program knows (P08) before it touches anything.
func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	have, want, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if have > want {
		return fmt.Errorf("%w: its schema is %d, this program knows %d", store.ErrNewer, have, want)
	}
	_, err = p.Up(ctx)
	return err
}
