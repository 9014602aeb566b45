package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runnerd/gateway/store"
	"runnerd/gateway/store/sqlite"
)

const subject = store.Subject("acme/ann")

// document has the size that performance.md measures with.
var document = []byte(fmt.Sprintf(`{"pad":"%0*d"}`, 512-10, 0))

// BenchmarkUpdate writes what starts a run (the run, a step, three events) from many sides at once. Beside it, in the same
// run, a yardstick: one row of one table in a synced commit of its own, over and over, which is what the disk and SQLite
// can do at best without grouping. The ratios hold on any machine:
//
//	tx/yard      transactions in the time of one yardstick commit
//	tx/commit    transactions that shared a commit
func BenchmarkUpdate(b *testing.B) {
	for _, writers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := open(b)
			yard := newYardstick(b)
			before := yard.commit(b, 200)
			commits := s.Commits()
			b.ReportAllocs()
			b.ResetTimer()
			spread(b, writers, func(i int64) error {
				return s.Update(b.Context(), func(tx store.Tx) error { return startRun(tx, i) })
			})
			b.StopTimer()
			after := yard.commit(b, 200)
			each := b.Elapsed() / time.Duration(b.N)
			b.ReportMetric(float64(before+after)/2/float64(each), "tx/yard")
			b.ReportMetric(float64(b.N)/float64(s.Commits()-commits), "tx/commit")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
		})
	}
}

// spread does n things, each once, from a number of goroutines.
func spread(b *testing.B, goroutines int, do func(int64) error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func startRun(tx store.Tx, i int64) error {
	id := store.RunID(fmt.Sprintf("0190%012x-7000-8000", i)) // rises, as the ids of the gateway do
	now := tx.Now()
	if err := tx.CreateRun(store.Run{ID: id, Tenant: "acme", Subject: subject, WorkflowID: "chat", Request: document,
		Status: "running", Created: now, Updated: now}); err != nil {
		return err
	}
	if err := tx.CreateStep(store.Step{Tenant: "acme", Run: id, ID: "n:1:1", Subject: subject, Kind: "model", Inputs: document,
		Created: now, State: store.StepQueued, Since: now, Due: now.Add(30 * time.Second)}); err != nil {
		return err
	}
	tx.Publish(store.RunTopic("acme", id))
	return tx.Append("acme", id, "running", now, []store.Event{
		{Seq: 0, Type: "run.started", Doc: document}, {Seq: 1, Type: "node.started", Doc: document}, {Seq: 2, Type: "node.queued", Doc: document},
	})
}

func open(tb testing.TB) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.Open(tb.Context(), filepath.Join(tb.TempDir(), "gateway.db"), sqlite.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// A yardstick is a table with rows of one document.
type yardstick struct{ insert *sql.Stmt }

func newYardstick(tb testing.TB) yardstick {
	tb.Helper()
	db, err := sql.Open("sqlite", filepath.Join(tb.TempDir(), "yard.db")+"?_journal_mode=WAL&_synchronous=FULL&_pragma=journal_size_limit(16777216)")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE yard (n INTEGER PRIMARY KEY, doc BLOB)"); err != nil {
		tb.Fatal(err)
	}
	insert, err := db.Prepare("INSERT INTO yard (doc) VALUES (?)")
	if err != nil {
		tb.Fatal(err)
	}
	return yardstick{insert}
}

// commit does n of them and gives the time of one.
func (y yardstick) commit(tb testing.TB, n int) time.Duration {
	tb.Helper()
	start := time.Now()
	for range n {
		if _, err := y.insert.Exec(document); err != nil {
			tb.Fatal(err)
		}
	}
	return time.Since(start) / time.Duration(n)
}
