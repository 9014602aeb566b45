package postgres

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"runnerd/gateway/store"
	"runnerd/internal/testdep"
)

// The benchmarks have a server whose commits reach the disk.
var (
	durable = testdep.Postgres{Durable: true}
	serial  atomic.Int64
)

// document has the size that performance.md measures with.
var document = fmt.Appendf(nil, `{"pad":"%0*d"}`, 512-10, 0)

// BenchmarkUpdate writes what starts a run (the run, a step, three events), BenchmarkDispatch what a step's life takes (four
// transactions: that, an offer, an acceptance, a result), from many sides at once. Beside them, turn by turn, limit L2 of
// performance.md: rows of one table, written one statement after the other, in synced commits that take what waits. The
// ratios hold on any machine:
//
//	tx/L2        transactions in the time of one such row
//	steps/L2     steps in the time of two such rows, which is a dispatch hop without anything else (P6: 0.7)
//	tx/commit    transactions that shared a commit
func BenchmarkUpdate(b *testing.B) {
	beside(b, "tx/L2", 1, func(s *Store) error {
		return s.Update(context.Background(), func(tx store.Tx) error { return startRun(tx, ann, runID(serial.Add(1))) })
	})
}

func BenchmarkDispatch(b *testing.B) {
	beside(b, "steps/L2", 2, func(s *Store) error { return dispatch(s, ann, "k0", serial.Add(1)) })
}

// round is how much of one is done before it is the other's turn.
const round = 1024

func beside(b *testing.B, name string, rows int, do func(*Store) error) {
	for _, writers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			url := durable.Database(b)
			s, err := Open(context.Background(), url, Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			write(b, s, func(tx store.Tx) error { return tx.CreateRunner(store.Runner{ID: "k0", Subject: ann}) })
			yard := newYardstick(b, url)
			defer yard.close()
			commits := s.Commits()
			var ours, theirs time.Duration
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += round {
				theirs += times(b, min(round, b.N-n), writers, func() error {
					for range rows {
						if err := yard.write(); err != nil {
							return err
						}
					}
					return nil
				})
				ours += times(b, min(round, b.N-n), writers, func() error { return do(s) })
			}
			b.ReportMetric(float64(theirs)/float64(ours), name)
			b.ReportMetric(float64(b.N)/ours.Seconds(), "per-s")
			b.ReportMetric(float64(b.N)/theirs.Seconds(), "L2-per-s")
			b.ReportMetric(float64(b.N)/float64(s.Commits()-commits), "per-commit")
		})
	}
}

// times does a thing n times from a number of goroutines.
func times(b *testing.B, n, goroutines int, do func() error) time.Duration {
	start := time.Now()
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := do(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// runID rises, as the ids of the gateway do.
func runID(i int64) store.RunID { return store.RunID(fmt.Sprintf("0190%012x-7000-8000", i)) }

func startRun(tx store.Tx, who store.Subject, id store.RunID) error {
	now := tx.Now()
	if err := tx.CreateRun(store.Run{ID: id, Tenant: who.Tenant(), Subject: who, WorkflowID: "chat", Request: document,
		Status: "running", Created: now, Updated: now}); err != nil {
		return err
	}
	if err := tx.CreateStep(store.Step{Tenant: who.Tenant(), Run: id, ID: "n:1:1", Subject: who, Kind: "model", Inputs: document,
		Created: now, State: store.StepQueued, Since: now, Due: now.Add(30 * time.Second)}); err != nil {
		return err
	}
	tx.Publish(store.RunTopic(who.Tenant(), id))
	return tx.Append(who.Tenant(), id, "running", now, []store.Event{
		{Seq: 0, Type: "run.started", Doc: document}, {Seq: 1, Type: "node.started", Doc: document}, {Seq: 2, Type: "node.queued", Doc: document},
	})
}

// dispatch is a step's life, in the transactions that it takes.
func dispatch(s *Store, who store.Subject, runner store.RunnerID, i int64) error {
	tenant, id := who.Tenant(), runID(i)
	move := func(to store.StepState, events ...store.Event) func(store.Tx) error {
		return func(tx store.Tx) error {
			step, err := tx.Step(tenant, id, "n:1:1")
			if err != nil {
				return err
			}
			next := step
			next.State, next.Since, next.Due = to, tx.Now(), tx.Now().Add(time.Minute)
			if to == store.StepOffered {
				next.Runner = runner
				if next.Seq, err = tx.NextSeq(who, runner); err != nil {
					return err
				}
			}
			if err := tx.MoveStep(step.Fence(), next); err != nil {
				return err
			}
			if err := tx.AppendAudit(store.AuditEntry{Subject: who, Kind: store.AuditOffer, Run: id, Step: step.ID}); err != nil {
				return err
			}
			if len(events) == 0 {
				return nil
			}
			return tx.Append(tenant, id, "completed", tx.Now(), events)
		}
	}
	for _, fn := range []func(store.Tx) error{
		func(tx store.Tx) error { return startRun(tx, who, id) },
		move(store.StepOffered),
		move(store.StepAccepted),
		move(store.StepDone, store.Event{Seq: 3, Type: "run.completed", Doc: document}),
	} {
		if err := s.Update(context.Background(), fn); err != nil {
			return err
		}
	}
	return nil
}

// A yardstick is a table with rows of one document, and a writer that takes what waits into one commit.
type yardstick struct {
	c     *pgx.Conn
	queue chan chan error
	done  chan struct{}
}

func newYardstick(b *testing.B, url string) yardstick {
	b.Helper()
	c, err := pgx.Connect(context.Background(), url)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := c.Exec(context.Background(), "CREATE TABLE yard (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, doc bytea)"); err != nil {
		b.Fatal(err)
	}
	y := yardstick{c, make(chan chan error, 256), make(chan struct{})}
	go y.run()
	return y
}

func (y yardstick) write() error {
	done := make(chan error, 1)
	y.queue <- done
	return <-done
}

func (y yardstick) run() {
	defer close(y.done)
	for first := range y.queue {
		group := []chan error{first}
		for n := len(y.queue); n > 0; n-- {
			group = append(group, <-y.queue)
		}
		err := pgx.BeginFunc(context.Background(), y.c, func(tx pgx.Tx) error {
			for range group {
				if _, err := tx.Exec(context.Background(), "INSERT INTO yard (doc) VALUES ($1)", document); err != nil {
					return err
				}
			}
			return nil
		})
		for _, done := range group {
			done <- err
		}
	}
}

func (y yardstick) close() {
	close(y.queue)
	<-y.done
	_ = y.c.Close(context.Background())
}
