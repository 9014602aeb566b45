package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"runnerd/gateway/store"
	"runnerd/gateway/store/sqlite"
)

// The test binary starts itself once more, to write until it is killed.
const crashDatabase = "SQLITE_CRASH_DATABASE"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashDatabase); path != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(path, os.Stdout))
		os.Exit(3)
	}
	os.Exit(m.Run())
}

const (
	crashWriters = 12
	crashRunner  = store.RunnerID("k1")
)

// writeUntilKilled starts runs and advances them, and says what was acknowledged: a line for each, "run seq".
func writeUntilKilled(path string, out io.Writer) error {
	db, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		return err
	}
	err = db.Update(context.Background(), func(tx store.Tx) error {
		return tx.CreateRunner(store.Runner{ID: crashRunner, Subject: subject})
	})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return err
	}
	errs := make(chan error)
	var mu sync.Mutex
	for w := range crashWriters {
		go func() {
			for i := 0; ; i++ {
				id := store.RunID(fmt.Sprintf("%d-%d-%d", os.Getpid(), w, i))
				var seq int64
				err := db.Update(context.Background(), func(tx store.Tx) (err error) { seq, err = crashWrite(tx, id); return err })
				if err != nil {
					errs <- err
					return
				}
				mu.Lock()
				fmt.Fprintln(out, id, seq)
				mu.Unlock()
			}
		}()
	}
	return <-errs
}

// crashWrite starts a run, offers its step, and keeps count in the audit log: all of it or nothing.
func crashWrite(tx store.Tx, id store.RunID) (int64, error) {
	step := store.Step{Tenant: "acme", Run: id, ID: "n:1:1", Subject: subject, Inputs: document, State: store.StepQueued}
	offered := step
	seq, err := tx.NextSeq(subject, crashRunner)
	if err != nil {
		return 0, err
	}
	offered.State, offered.Runner, offered.Seq = store.StepOffered, crashRunner, seq
	for _, err := range []error{
		tx.CreateRun(store.Run{ID: id, Tenant: "acme", Subject: subject, Request: document, Status: "running"}),
		tx.CreateStep(step),
		tx.MoveStep(step.Fence(), offered),
		tx.Append("acme", id, "running", tx.Now(), []store.Event{{Seq: 0, Type: "a", Doc: document}, {Seq: 1, Type: "b", Doc: document}}),
		tx.AppendAudit(store.AuditEntry{Subject: subject, Kind: store.AuditOffer, Run: id, RunnerSeq: seq}),
	} {
		if err != nil {
			return 0, err
		}
	}
	return seq, nil
}

// TestNothingAcknowledgedIsLostWhenKilled kills a writing process at random moments, over and over on one database. What it
// had acknowledged is there, whole; what it had not is there whole or not at all; cursor values never repeat; and the file
// opens at once.
func TestNothingAcknowledgedIsLostWhenKilled(t *testing.T) {
	kills := 20
	if os.Getenv("RUNNERD_NIGHTLY") != "" {
		kills = 300
	}
	path := filepath.Join(t.TempDir(), "gateway.db")
	acked := map[store.RunID]int64{}
	given := map[int64]store.RunID{}
	var cursor int64
	for i := range kills {
		for id, seq := range killOnce(t, path, i%4 == 0, time.Duration(rand.Int64N(int64(60*time.Millisecond)))) {
			if other, ok := given[seq]; ok {
				t.Fatalf("%d was given to %s and to %s", seq, other, id)
			}
			acked[id], given[seq] = seq, id
		}
		last := checkAfterKill(t, path, acked)
		if last < cursor {
			t.Fatalf("the cursor went from %d to %d", cursor, last)
		}
		cursor = last
	}
	checkWhole(t, path)
	t.Logf("%d kills, %d writes acknowledged, cursor %d", kills, len(acked), cursor)
	if len(acked) < kills {
		t.Errorf("only %d writes", len(acked))
	}
}

// killOnce lets a child work for a while, counted from its start or from its first write, and gives what it acknowledged.
func killOnce(t *testing.T, path string, fromStart bool, after time.Duration) map[store.RunID]int64 {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), crashDatabase+"="+path)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { time.AfterFunc(after, func() { _ = cmd.Process.Kill() }) }
	if fromStart {
		kill()
	}
	acked := map[store.RunID]int64{}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var id store.RunID
		var seq int64
		if _, err := fmt.Sscan(lines.Text(), &id, &seq); err != nil {
			break // the last line may be torn
		}
		acked[id] = seq
		if len(acked) == 1 && !fromStart {
			kill()
		}
	}
	_, _ = io.Copy(io.Discard, out)
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() == 3 {
		t.Fatalf("the child ended by itself: %v", err)
	}
	return acked
}

// checkAfterKill opens the store and gives the cursor.
func checkAfterKill(t *testing.T, path string, acked map[store.RunID]int64) (cursor int64) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(t.Context(), func(r store.Reader) error {
		k, err := r.Runner(subject, crashRunner)
		if errors.Is(err, store.ErrNotFound) && len(acked) == 0 {
			return nil // killed before it wrote anything
		}
		if err != nil {
			return err
		}
		cursor = k.Cursor
		for id, seq := range acked {
			step, err := r.Step("acme", id, "n:1:1")
			if err != nil || step.Seq != seq || step.State != store.StepOffered || seq > cursor {
				return fmt.Errorf("run %s, acknowledged with %d of %d: step %v, %w", id, seq, cursor, step.Fence(), err)
			}
		}
		// The audit log is dense, and says the same as the runs: a write is there whole or not at all.
		var n int64
		for e, err := range r.Audit(subject, 0, 1<<30) {
			if err != nil {
				return err
			}
			n++
			run, err := r.Run("acme", e.Run)
			if err != nil || e.Seq != n || e.RunnerSeq != n || run.LastSeq != 1 || string(run.Request) != string(document) {
				return fmt.Errorf("entry %d is %+v, its run %+v, %w", n, e, run, err)
			}
			events := 0
			for e, err := range r.Events("acme", e.Run, -1, 10) {
				if err != nil || string(e.Doc) != string(document) {
					return fmt.Errorf("event %+v, %w", e, err)
				}
				events++
			}
			if events != 2 {
				return fmt.Errorf("run %s has %d events", e.Run, events)
			}
		}
		if n != cursor {
			return fmt.Errorf("%d writes for cursor %d", n, cursor)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return cursor
}

// checkWhole has SQLite look at every page.
func checkWhole(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("%s, %v", verdict, err)
	}
}

// TestSecondProcessIsRefused opens a store that another process has.
func TestSecondProcessIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.db")
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), crashDatabase+"="+path)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 3 || !strings.Contains(string(out), store.ErrLocked.Error()) {
		t.Errorf("%v: %s", err, out)
	}
}
