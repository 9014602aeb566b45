package postgres

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"runnerd/gateway/store"
	"runnerd/internal/testdep"
)

// server is that of this test binary. It has a database with the schema, made once, that others are copied from.
var (
	server   testdep.Postgres
	template sync.Once
	made     atomic.Int64
)

// admin runs a statement in the server's first database.
func admin(t testing.TB, sql string) {
	t.Helper()
	database{url: server.URL(t, "postgres")}.exec(t, sql)
}

// A database is one with the schema, of a test's own.
type database struct{ name, url string }

func newDatabase(t testing.TB) database {
	t.Helper()
	template.Do(func() {
		admin(t, "CREATE DATABASE template")
		cfg, err := pgx.ParseConfig(server.URL(t, "template"))
		if err == nil {
			err = migrate(context.Background(), cfg)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	name := fmt.Sprintf("store%d", made.Add(1))
	admin(t, "CREATE DATABASE "+name+" TEMPLATE template STRATEGY file_copy")
	return database{name, server.URL(t, name)}
}

func (d database) drop(t testing.TB) {
	t.Helper()
	admin(t, "DROP DATABASE IF EXISTS "+d.name+" WITH (FORCE)")
}

// exec runs a statement in the database, past the store.
func (d database) exec(t testing.TB, sql string) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, d.url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, sql); err != nil {
		t.Fatal(err)
	}
}

// open opens the database as a gateway does.
func (d database) open(t testing.TB, opt Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), d.url, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// openWith opens a database of the test's own.
func openWith(t testing.TB, opt Options) *Store {
	t.Helper()
	d := newDatabase(t)
	t.Cleanup(func() { d.drop(t) })
	return d.open(t, opt)
}

// begin starts a run of ann's with one event, and rings for it.
func begin(id store.RunID) func(store.Tx) error {
	return func(tx store.Tx) error {
		if err := tx.CreateRun(store.Run{ID: id, Tenant: "acme", Subject: "acme/ann", Status: "running"}); err != nil {
			return err
		}
		if err := tx.AppendAudit(store.AuditEntry{Subject: "acme/ann", Kind: store.AuditOffer, Run: id}); err != nil {
			return err
		}
		tx.Publish(store.RunTopic("acme", id))
		return tx.Append("acme", id, "running", tx.Now(), []store.Event{{Seq: 0, Type: "run.started", Doc: []byte(`{}`)}})
	}
}
