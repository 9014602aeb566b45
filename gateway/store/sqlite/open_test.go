package sqlite

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"runnerd/gateway/store"
)

func mustOpen(t *testing.T, path string, opt Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSecondOpenerIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.db")
	s := mustOpen(t, path, Options{})
	if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	if err := s.Update(t.Context(), begin("r1")); err != nil {
		t.Errorf("the first, afterwards: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, path, Options{})
	defer s.Close()
	if !has(t, s, "r1") {
		t.Error("what was written is gone")
	}
}

func TestNewerSchemaIsRefusedAndLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.db")
	if err := mustOpen(t, path, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the lock is given back
		if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, store.ErrNewer) || !strings.Contains(err.Error(), "99999") {
			t.Errorf("got %v, want ErrNewer and the version", err)
		}
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed (%v)", err)
	}
}

func TestWhatIsNoDatabaseIsRefusedAndLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.db")
	text := []byte(strings.Repeat("this is my diary\n", 1000))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, Options{}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want an error that names the file", err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, text) {
		t.Errorf("the file was changed (%v)", err)
	}
}

func TestMissingFolderIsAnError(t *testing.T) {
	if _, err := Open(t.Context(), filepath.Join(t.TempDir(), "none", "gateway.db"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestPathsAreTakenAsTheyAre(t *testing.T) {
	for _, name := range []string{"with space.db", "50%25.db", "a&b=c#d.db", "ä+ö.db"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			s := mustOpen(t, path, Options{})
			if err := s.Update(t.Context(), begin("r1")); err != nil {
				t.Error(err)
			}
			if !has(t, s, "r1") {
				t.Error("readers and the writer have different files")
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if info, err := os.Stat(path); err != nil || info.Size() == 0 {
				t.Errorf("nothing is at the path: %v", err)
			}
		})
	}
}

func TestCommitsAreSyncedAndReadersCannotWrite(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "gateway.db"), Options{})
	defer s.Close()
	for m, want := range map[mode]map[string]string{
		writing: {"journal_mode": "wal", "synchronous": "2", "fullfsync": "1", "wal_autocheckpoint": "0", "query_only": "0", "busy_timeout": "5000"},
		copying: {"journal_mode": "wal", "synchronous": "2", "checkpoint_fullfsync": "1", "busy_timeout": "50"},
		reading: {"journal_mode": "wal", "query_only": "1"},
	} {
		c, err := s.connect(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		for pragma, want := range want {
			var got string
			if err := c.row(func(r scanner) error { return r.Scan(&got) }, "PRAGMA "+pragma); err != nil || got != want {
				t.Errorf("mode %d: %s is %q, want %q (%v)", m, pragma, got, want, err)
			}
		}
		if _, err := c.exec("INSERT INTO meta (name) VALUES ('x')"); m == reading && err == nil {
			t.Error("a reading connection wrote")
		}
		c.close()
	}
}

func TestCloseLeavesOneFileAndNoGoroutine(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	s := mustOpen(t, filepath.Join(dir, "gateway.db"), Options{})
	for range 3 {
		if err := s.Update(t.Context(), begin("r1")); err != nil && !errors.Is(err, store.ErrConflict) {
			t.Error(err)
		}
		has(t, s, "r1")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2 { // the lock's stays
		t.Errorf("left %q (%v)", left, err)
	}
}

func TestCloseWaitsForReaders(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "gateway.db"), Options{})
	began, closed := make(chan struct{}), make(chan error, 1)
	go func() { <-began; closed <- s.Close() }()
	err := s.View(t.Context(), func(r store.Reader) error {
		close(began)
		select {
		case <-closed:
			t.Error("closed under a reader")
		case <-time.After(20 * time.Millisecond):
		}
		_, err := r.Meta("k")
		return err
	})
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the reader got %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
