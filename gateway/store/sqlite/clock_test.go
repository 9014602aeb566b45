package sqlite

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"runnerd/gateway/store"
)

// A fakeClock is set by hand.
type fakeClock struct {
	wall time.Time
	mono time.Duration
}

func (f *fakeClock) options() Options {
	return Options{
		Wall: func() time.Time { return f.wall }, Mono: func() time.Duration { return f.mono },
	}
}

func now(t *testing.T, s *Store) (at time.Time) {
	t.Helper()
	if err := s.View(t.Context(), func(r store.Reader) error { at = r.Now(); return nil }); err != nil {
		t.Fatal(err)
	}
	return at
}

func TestClockStartsAtTheWallsAndGoesItsOwnWay(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f := &fakeClock{wall: start, mono: 77 * time.Hour}
	path := filepath.Join(t.TempDir(), "gateway.db")
	s := mustOpen(t, path, f.options())
	check := func(want time.Duration) {
		t.Helper()
		if got := now(t, s).Sub(start); got != want {
			t.Errorf("the clock is at %v, want %v", got, want)
		}
	}
	check(0)
	f.mono += 5 * time.Second
	check(5 * time.Second)
	f.wall = start.AddDate(-1, 0, 0) // somebody set it
	check(5 * time.Second)
	f.mono += 1500 * time.Nanosecond
	check(5*time.Second + time.Microsecond)

	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f.wall, f.mono = start.AddDate(1, 0, 0), 3*time.Minute // a year later, after a start of the machine
	s = mustOpen(t, path, f.options())
	check(5*time.Second + time.Microsecond)
	f.mono += time.Second
	check(6*time.Second + time.Microsecond)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestClockIsBehindByASecondAtMostAfterAKill(t *testing.T) {
	f := &fakeClock{wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	dir := t.TempDir()
	s := mustOpen(t, filepath.Join(dir, "gateway.db"), f.options())
	defer s.Close()
	for range 30 {
		f.mono += 300 * time.Millisecond
		if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.PutMeta("k", nil) }); err != nil {
			t.Fatal(err)
		}
		at := now(t, s)
		// What a kill would leave: the files as they are.
		copied := filepath.Join(t.TempDir(), "gateway.db")
		for _, suffix := range []string{"", "-wal"} {
			b, err := os.ReadFile(s.path + suffix)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(copied+suffix, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		after := mustOpen(t, copied, f.options())
		if behind := at.Sub(now(t, after)); behind < 0 || behind >= persistEvery {
			t.Errorf("the clock went from %v back by %v", at, behind)
		}
		if err := after.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestClockIsStoredWhileNothingIsWritten(t *testing.T) {
	f := &fakeClock{wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	s := mustOpen(t, filepath.Join(t.TempDir(), "gateway.db"), f.options())
	f.mono = time.Hour
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, s.path, f.options())
	defer s.Close()
	if got := now(t, s).Sub(f.wall); got != time.Hour {
		t.Errorf("the clock went on from %v", got)
	}
}

func TestExpiryIsJudgedByTheWall(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f := &fakeClock{wall: start}
	s := mustOpen(t, filepath.Join(t.TempDir(), "gateway.db"), f.options())
	defer s.Close()
	err := s.Update(t.Context(), func(tx store.Tx) error {
		return tx.PutSession(store.Session{Subject: "acme/ann", Expires: start.Add(time.Hour)})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at    time.Duration
		found bool
	}{{time.Hour - time.Microsecond, true}, {time.Hour, false}, {2 * time.Hour, false}} {
		f.wall = start.Add(c.at)
		err := s.View(t.Context(), func(r store.Reader) error { _, err := r.SessionByHash(store.Hash{}); return err })
		if c.found != (err == nil) {
			t.Errorf("after %v: %v", c.at, err)
		}
	}
}
