package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"runnerd/gateway/store"
	"runnerd/internal/testdep"
)

// server is that of this test binary. It has a database with the schema, made once, that others are copied from. Copying takes
// a while, so a database that a test is done with is emptied for the next.
var (
	server   testdep.Postgres
	template sync.Once
	made     atomic.Int64
	spare    = make(chan database, 16)
)

// A database is one with the schema, of a test's own.
type database struct {
	url   string
	clean *pgx.Conn
}

// newDatabase gives an empty one. The test calls free when no store has it open any more.
func newDatabase(t testing.TB) database {
	t.Helper()
	select {
	case d := <-spare:
		return d
	default:
	}
	first := database{url: server.URL(t, "postgres")}
	template.Do(func() {
		first.exec(t, "CREATE DATABASE template")
		cfg, err := pgx.ParseConfig(server.URL(t, "template"))
		if err == nil {
			err = migrate(context.Background(), cfg)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	name := fmt.Sprintf("store%d", made.Add(1))
	first.exec(t, "CREATE DATABASE "+name+" TEMPLATE template")
	d := database{url: server.URL(t, name)}
	c, err := pgx.Connect(context.Background(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	d.clean = c
	return d
}

func (d database) free(t testing.TB) {
	t.Helper()
	tables := []string{"meta", "person", "sign_in", "session", "api_key", "workflow", "definition", "run", "event", "timer",
		"step", "runner", "pairing", "revocation", "ask", "late", "audit_head", "audit", "idempotent"}
	if _, err := d.clean.Exec(context.Background(), "DELETE FROM "+strings.Join(tables, "; DELETE FROM ")); err != nil {
		t.Fatal(err)
	}
	select {
	case spare <- d:
	default:
		t.Error("more databases at once than there is room for")
	}
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

// gateways opens a database of the test's own as so many gateways do.
func gateways(t testing.TB, n int) ([]*Store, database) {
	t.Helper()
	d := newDatabase(t)
	t.Cleanup(func() { d.free(t) })
	var all []*Store
	for range n {
		all = append(all, d.open(t, Options{}))
	}
	return all, d
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
