package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runnerd/gateway/store"
	"runnerd/gateway/store/sqlite"
)

const subject = store.Subject("acme/ann")

// document has the size that performance.md measures with.
var document = fmt.Appendf(nil, `{"pad":"%0*d"}`, 512-10, 0)

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
			times(b, b.N, writers, func(i int64) error {
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

// times does a thing n times, numbered from 1, from a number of goroutines.
func times(b *testing.B, n, goroutines int, do func(int64) error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// runID rises, as the ids of the gateway do.
func runID(i int64) store.RunID { return store.RunID(fmt.Sprintf("0190%012x-7000-8000", i)) }

func startRun(tx store.Tx, i int64) error {
	id := runID(i)
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

// populate makes runners, and runs with a finished step each.
func populate(b *testing.B, s *sqlite.Store, runners, runs int) {
	b.Helper()
	err := s.Update(b.Context(), func(tx store.Tx) error {
		for i := range runners {
			if err := tx.CreateRunner(store.Runner{ID: store.RunnerID(fmt.Sprint("k", i)), Subject: subject}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	times(b, runs/100, 8, func(i int64) error {
		return s.Update(b.Context(), func(tx store.Tx) error {
			for n := range int64(100) {
				if err := startRun(tx, i*100+n); err != nil {
					return err
				}
				id := runID(i*100 + n)
				step, err := tx.Step("acme", id, "n:1:1")
				if err != nil {
					return err
				}
				done := step
				done.State, done.Runner, done.Seq = store.StepDone, "k0", 1
				if err := tx.MoveStep(step.Fence(), done); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// dispatch is a step's life, in the transactions that it takes.
func dispatch(b *testing.B, s *sqlite.Store, i int64) error {
	id := runID(1<<40 + i)
	var step store.Step
	move := func(to store.StepState, events ...store.Event) func(store.Tx) error {
		return func(tx store.Tx) (err error) {
			next := step
			next.State, next.Since, next.Due = to, tx.Now(), tx.Now().Add(time.Minute)
			if to == store.StepOffered {
				next.Runner = "k0"
				if next.Seq, err = tx.NextSeq(subject, "k0"); err != nil {
					return err
				}
			}
			if err := tx.MoveStep(step.Fence(), next); err != nil {
				return err
			}
			step = next
			if err := tx.AppendAudit(store.AuditEntry{Subject: subject, Kind: store.AuditOffer, Run: id, Step: step.ID}); err != nil {
				return err
			}
			if len(events) == 0 {
				return nil
			}
			return tx.Append("acme", id, "completed", tx.Now(), events)
		}
	}
	for _, fn := range []func(store.Tx) error{
		func(tx store.Tx) (err error) {
			if err = startRun(tx, 1<<40+i); err == nil {
				step, err = tx.Step("acme", id, "n:1:1")
			}
			return err
		},
		move(store.StepOffered),
		move(store.StepAccepted),
		move(store.StepDone, store.Event{Seq: 3, Type: "run.completed", Doc: document}),
	} {
		if err := s.Update(b.Context(), fn); err != nil {
			return err
		}
	}
	return nil
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

// BenchmarkFull is a dispatch's part of the store (take a cursor value, offer, accept, store the result, four events) on an
// empty store and on one with 10,000 runners, 300,000 runs and a million events, turn by turn: full/empty is what the
// history costs (performance.md, P5), open-ms what it costs a start (P9).
func BenchmarkFull(b *testing.B) {
	empty := open(b)
	path := filepath.Join(b.TempDir(), "full.db")
	full, err := sqlite.Open(b.Context(), path, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	populate(b, full, 10_000, 300_000)
	if err := full.Close(); err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	if full, err = sqlite.Open(b.Context(), path, sqlite.Options{}); err != nil {
		b.Fatal(err)
	}
	err = full.View(b.Context(), func(r store.Reader) error { _, err := r.Runner(subject, "k0"); return err })
	opened := time.Since(start)
	if err != nil {
		b.Fatal(err)
	}
	defer full.Close()
	populate(b, empty, 1, 0)
	var serial atomic.Int64

	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			var ratios []float64 // a neighbour's busy second is in one of them
			var spent time.Duration
			for n := 0; n < b.N; n += 256 {
				var took [2]time.Duration
				for i, s := range []*sqlite.Store{empty, full} {
					start := time.Now()
					times(b, min(256, b.N-n), writers, func(int64) error { return dispatch(b, s, serial.Add(1)) })
					took[i] = time.Since(start)
				}
				ratios = append(ratios, float64(took[1])/float64(took[0]))
				spent += took[1]
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "full/empty")
			b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "full-us")
			b.ReportMetric(float64(opened.Microseconds())/1000, "open-ms")
		})
	}
}
