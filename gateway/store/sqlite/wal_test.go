package sqlite

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runnerd/gateway/store"
)

// writeLarge starts a run with one large document.
func writeLarge(s *Store, t *testing.T, id string, size int) error {
	return s.Update(t.Context(), func(tx store.Tx) error {
		if err := begin(store.RunID(id))(tx); err != nil {
			return err
		}
		return tx.Append("acme", store.RunID(id), "running", tx.Now(), []store.Event{{Seq: 1, Type: "large", Doc: bytes.Repeat([]byte("x"), size)}})
	})
}

// A start reads the log, so it must stay short (performance.md, P9), with readers that come all the time and a writer that
// never rests.
func TestLogStaysShort(t *testing.T) {
	const writers, writes, size = 16, 25, 64 << 10 // 25 MiB
	path := filepath.Join(t.TempDir(), "gateway.db")
	s := mustOpen(t, path, Options{})
	defer s.Close()

	var writing, others sync.WaitGroup
	var over atomic.Bool
	took := make([][]time.Duration, writers)
	for w := range writers {
		writing.Go(func() {
			for i := range writes {
				start := time.Now()
				if err := writeLarge(s, t, fmt.Sprintf("r%d-%d", w, i), size); err != nil {
					t.Error(err)
				}
				took[w] = append(took[w], time.Since(start))
			}
		})
	}
	for range 2 {
		others.Go(func() {
			for tick := time.NewTicker(time.Millisecond); !over.Load(); <-tick.C {
				err := s.View(t.Context(), func(r store.Reader) error {
					for _, err := range r.Runs("acme", "acme/ann", time.Time{}, 50) {
						if err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	var longest int64
	others.Go(func() {
		for tick := time.NewTicker(time.Millisecond); !over.Load(); <-tick.C {
			if info, err := os.Stat(path + "-wal"); err == nil {
				longest = max(longest, info.Size())
			}
		}
	})
	writing.Wait()
	over.Store(true)
	others.Wait()

	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	t.Logf("the longest log was %d KiB; a write took p50 %v p99 %v max %v",
		longest>>10, all[len(all)/2], all[len(all)*99/100], all[len(all)-1])
	if longest == 0 || longest > 16<<20 {
		t.Errorf("the longest log was %d KiB", longest>>10)
	}
}

// A reader that stays keeps the log from starting anew; it must not keep anybody from writing, and the log must be short
// again when it has gone.
func TestALongReaderHoldsUpNobody(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "gateway.db"), Options{})
	defer s.Close()
	c, err := s.connect(t.Context(), copying)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	length := func() int64 {
		frames, _, err := c.log("NOOP")
		if err != nil {
			t.Fatal(err)
		}
		return frames
	}
	if err := writeLarge(s, t, "first", 1); err != nil {
		t.Fatal(err)
	}
	err = s.View(t.Context(), func(r store.Reader) error {
		if _, err := r.Run("acme", "first"); err != nil {
			return err
		}
		start := time.Now()
		for i := range 40 {
			if err := writeLarge(s, t, fmt.Sprint("r", i), 512<<10); err != nil {
				return err
			}
		}
		waits := (length() - walForce) / walStep * int64(copyTimeout) // what it may cost to ask the reader to go
		t.Logf("40 writes beside a reader took %v, of which up to %v were waits; the log has %d pages", time.Since(start), time.Duration(waits), length())
		if n := length(); n < walForce {
			t.Errorf("the log has %d pages: this reader held nothing", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := writeLarge(s, t, fmt.Sprint("s", i), 64<<10); err != nil {
			t.Fatal(err)
		}
		if length() < walCopy {
			return
		}
	}
	t.Errorf("the log still has %d pages", length())
}
