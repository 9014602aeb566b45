package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"runnerd/gateway/store"
)

// The rows S01, S03 and S10 of the fault matrix.

func TestFullDiskRefusesTheGroupAndTheStoreGoesOn(t *testing.T) {
	var rang atomic.Int64
	s, inject := openWith(t, Options{Ring: func(...store.Topic) { rang.Add(1) }})

	// How many statements there are in one transaction.
	inject.set(func(string) error { return nil })
	if err := s.Update(t.Context(), begin("counted")); err != nil {
		t.Fatal(err)
	}
	texts := inject.ran()
	if len(texts) < 10 || !slices.Contains(texts, "COMMIT") {
		t.Fatalf("a transaction is %q", texts)
	}
	rang.Store(0)

	for n := range texts {
		id := store.RunID(fmt.Sprint("r", n))
		count := 0
		inject.set(func(string) error {
			count++
			if count == n+1 {
				return code(sqlite3.SQLITE_FULL)
			}
			return nil
		})
		if err := s.Update(t.Context(), begin(id)); !errors.Is(err, store.ErrFull) {
			t.Errorf("%d, %.40s: got %v, want ErrFull", n, texts[n], err)
		}
		inject.set(nil)
		if has(t, s, id) || rang.Load() > 0 {
			t.Errorf("%d, %.40s: it was there, or rang %d times", n, texts[n], rang.Load())
		}
		if err := s.Update(t.Context(), begin(id)); err != nil {
			t.Errorf("%d, %.40s: afterwards: %v", n, texts[n], err)
		}
		rang.Store(0)
	}
}

func TestFullDiskIsToldToTheWholeGroup(t *testing.T) {
	s, inject := openWith(t, Options{})
	inject.set(func(text string) error {
		if text == "COMMIT" {
			return code(sqlite3.SQLITE_FULL)
		}
		return nil
	})
	outcomes := together(t, s, begin("r1"), begin("r2"), begin("r1"), func(store.Tx) error { return nil })
	inject.set(nil)
	for i, err := range outcomes { // the third's conflict was with a run that never was
		if !errors.Is(err, store.ErrFull) {
			t.Errorf("%d got %v, want ErrFull", i, err)
		}
	}
	for _, err := range together(t, s, begin("r1"), begin("r2")) {
		if err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
}

// SQLite itself says that there is no space, and may roll back by itself.
func TestRealLackOfSpace(t *testing.T) {
	s, _ := openWith(t, Options{})
	pages := func(text string) (n int64) {
		err := s.Update(t.Context(), func(t store.Tx) error {
			return t.(*tx).c.row(func(r scanner) error { return r.Scan(&n) }, text)
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	pages(fmt.Sprintf("PRAGMA max_page_count = %d", pages("PRAGMA page_count")+3))
	doc := make([]byte, 64<<10)
	big := func(tx store.Tx) error {
		// Even if a function does not care, its transaction is over.
		_ = tx.PutMeta("big", doc)
		return nil
	}
	for i, err := range together(t, s, begin("r1"), big, begin("r2")) {
		if !errors.Is(err, store.ErrFull) && i < 2 {
			t.Errorf("%d got %v, want ErrFull", i, err)
		}
	}
	if has(t, s, "r1") {
		t.Error("something of a refused group was written")
	}
	pages("PRAGMA max_page_count = 1000000")
	if err := s.Update(t.Context(), begin("r1")); err != nil {
		t.Errorf("when there was space again: %v", err)
	}
}

func TestFailedSyncBreaksTheStore(t *testing.T) {
	for name, c := range map[string]code{
		"sync": sqlite3.SQLITE_IOERR_FSYNC, "write": sqlite3.SQLITE_IOERR_WRITE, "unknown": sqlite3.SQLITE_ERROR,
	} {
		t.Run(name, func(t *testing.T) {
			var rang atomic.Int64
			s, inject := openWith(t, Options{Ring: func(...store.Topic) { rang.Add(1) }})
			if err := s.Update(t.Context(), begin("before")); err != nil {
				t.Fatal(err)
			}
			rang.Store(0)
			inject.set(func(text string) error {
				if text == "COMMIT" {
					return c
				}
				return nil
			})
			outcomes := together(t, s, begin("r1"), begin("r2"))
			inject.set(nil) // the next sync would work: it must not be asked
			outcomes = append(outcomes, s.Update(t.Context(), begin("r3")), s.Update(t.Context(), func(store.Tx) error { return nil }))
			for i, err := range outcomes {
				if !errors.Is(err, store.ErrBroken) {
					t.Errorf("%d got %v, want ErrBroken", i, err)
				}
			}
			select {
			case <-s.Failed():
				if !errors.Is(s.Err(), store.ErrBroken) || !errors.Is(s.Err(), c) {
					t.Errorf("Err is %v", s.Err())
				}
			default:
				t.Error("Failed is open")
			}
			if rang.Load() > 0 {
				t.Error("a bell rang for what was not written")
			}
			if !has(t, s, "before") || has(t, s, "r3") {
				t.Error("what was written before cannot be read, or something was written after")
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

func TestFailedSyncOfTheClockBreaksTheStoreToo(t *testing.T) {
	var now atomic.Int64
	s, inject := openWith(t, Options{Mono: func() time.Duration { return time.Duration(now.Load()) }})
	now.Store(int64(time.Minute))
	inject.set(func(text string) error {
		if text == "COMMIT" {
			return code(sqlite3.SQLITE_IOERR_FSYNC)
		}
		return nil
	})
	if err := s.Close(); err != nil { // which stores the clock
		t.Error(err)
	}
	if !errors.Is(s.Err(), store.ErrBroken) {
		t.Errorf("Err is %v", s.Err())
	}
}

// The database has a sync of its own, when the log is copied into it.
func TestFailedCopyOfTheLog(t *testing.T) {
	for name, c := range map[string]struct {
		code   code
		breaks bool
	}{"sync": {sqlite3.SQLITE_IOERR_FSYNC, true}, "no space": {sqlite3.SQLITE_FULL, false}} {
		t.Run(name, func(t *testing.T) {
			s, inject := openWith(t, Options{})
			var failed atomic.Int64
			inject.set(func(text string) error {
				if strings.Contains(text, "PASSIVE") {
					failed.Add(1)
					return c.code
				}
				return nil
			})
			var err error
			for i := 0; err == nil && i < 20; i++ { // 10 MiB: more than one copy is due
				err = writeLarge(s, t, fmt.Sprint("r", i), 512<<10)
			}
			if failed.Load() == 0 || c.breaks != errors.Is(err, store.ErrBroken) || !c.breaks && err != nil {
				t.Errorf("after %d failed copies: %v", failed.Load(), err)
			}
		})
	}
}

func TestAReadErrorIsNobodyElsesMatter(t *testing.T) {
	s, inject := openWith(t, Options{})
	inject.set(func(text string) error {
		if len(text) > 6 && text[:6] == "SELECT" {
			return code(sqlite3.SQLITE_IOERR_READ)
		}
		return nil
	})
	err := s.View(t.Context(), func(r store.Reader) error { _, err := r.Meta("k"); return err })
	if !errors.Is(err, code(sqlite3.SQLITE_IOERR_READ)) || errors.Is(err, store.ErrBroken) {
		t.Errorf("View gave %v", err)
	}
	inject.set(nil)
	if err := s.Update(t.Context(), begin("r1")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestLockedDatabaseIsAWaitWithAnEnd(t *testing.T) {
	s, _ := openWith(t, Options{busy: 30 * time.Millisecond})
	other, err := sql.Open("sqlite", s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	c, err := other.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	outcomes := make(chan error)
	for i := range 20 {
		go func() { outcomes <- s.Update(t.Context(), begin(store.RunID(fmt.Sprint("r", i)))) }()
	}
	for range 20 {
		if err := <-outcomes; !errors.Is(err, store.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
	}
	if has(t, s, "r1") {
		t.Error("it was written all the same")
	}
	if _, err := c.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), begin("r1")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
