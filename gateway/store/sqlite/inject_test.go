package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"runnerd/gateway/store"
)

// A code is an error as the driver gives it.
type code int

func (c code) Error() string { return fmt.Sprintf("injected error %d", int(c)) }
func (c code) Code() int     { return int(c) }

// An injector stands between a store and its driver, and fails statements. It leaves alone what comes before the store is
// open, and what only looks.
type injector struct {
	mu    sync.Mutex
	fails func(text string) error // nil: none
	seen  []string                // what was run since it was set
}

func (i *injector) set(fails func(text string) error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fails, i.seen = fails, nil
}

func (i *injector) ran() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.seen
}

func (i *injector) before(text string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.fails == nil || strings.HasPrefix(text, "PRAGMA") && !strings.Contains(text, "PASSIVE") {
		return nil
	}
	i.seen = append(i.seen, text)
	return i.fails(text)
}

// openWith opens a store whose driver is watched.
func openWith(t *testing.T, opt Options) (*Store, *injector) {
	t.Helper()
	i := new(injector)
	opt.wrap = func(c sqldriver.Connector) sqldriver.Connector { return watchedConnector{c, i} }
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "gateway.db"), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, i
}

type watchedConnector struct {
	sqldriver.Connector
	i *injector
}

func (c watchedConnector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return watchedConn{conn.(wholeConn), c.i}, nil
}

type wholeConn interface {
	sqldriver.Conn
	sqldriver.ConnBeginTx
	sqldriver.ConnPrepareContext
	sqldriver.ExecerContext
	sqldriver.QueryerContext
	sqldriver.Pinger
	sqldriver.SessionResetter
	sqldriver.Validator
}

type watchedConn struct {
	wholeConn
	i *injector
}

func (c watchedConn) PrepareContext(ctx context.Context, text string) (sqldriver.Stmt, error) {
	s, err := c.wholeConn.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return watchedStmt{s.(wholeStmt), text, c.i}, nil
}

type wholeStmt interface {
	sqldriver.Stmt
	sqldriver.StmtExecContext
	sqldriver.StmtQueryContext
}

type watchedStmt struct {
	wholeStmt
	text string
	i    *injector
}

func (s watchedStmt) ExecContext(ctx context.Context, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	if err := s.i.before(s.text); err != nil {
		return nil, err
	}
	return s.wholeStmt.ExecContext(ctx, args)
}

func (s watchedStmt) QueryContext(ctx context.Context, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	if err := s.i.before(s.text); err != nil {
		return nil, err
	}
	return s.wholeStmt.QueryContext(ctx, args)
}

// together runs functions that share a transaction, and gives what each got. The writer is held until all of them wait.
func together(t *testing.T, s *Store, fns ...func(store.Tx) error) []error {
	t.Helper()
	outcomes := make([]error, len(fns))
	began, wait := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = s.Update(t.Context(), func(store.Tx) error { close(began); <-wait; return nil })
	})
	<-began
	for i, fn := range fns {
		wg.Go(func() { outcomes[i] = s.Update(t.Context(), fn) })
		for len(s.writer.queue) <= i { // in this order
			runtime.Gosched()
		}
	}
	close(wait)
	wg.Wait()
	return outcomes
}

// begin creates a run with a step and an event.
func begin(id store.RunID) func(store.Tx) error {
	return func(tx store.Tx) error {
		for _, err := range []error{
			tx.CreateRun(store.Run{ID: id, Tenant: "acme", Subject: "acme/ann", Status: "running"}),
			tx.CreateStep(store.Step{Tenant: "acme", Run: id, ID: "n:1:1", Subject: "acme/ann", State: store.StepQueued}),
			tx.Append("acme", id, "running", tx.Now(), []store.Event{{Seq: 0, Type: "run.started", Doc: []byte("{}")}}),
			tx.AppendAudit(store.AuditEntry{Subject: "acme/ann", Kind: store.AuditOffer}),
		} {
			if err != nil {
				return err
			}
		}
		tx.Publish(store.RunTopic("acme", id))
		return nil
	}
}

// has says whether a run is there.
func has(t *testing.T, s *Store, id store.RunID) bool {
	t.Helper()
	found := false
	err := s.View(t.Context(), func(r store.Reader) error {
		_, err := r.Run("acme", id)
		found = err == nil
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return found
}
