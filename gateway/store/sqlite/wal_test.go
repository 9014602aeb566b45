package sqlite_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"runnerd/gateway/store"
	"runnerd/gateway/store/sqlite"
)

// A start reads the log, so it must stay short (performance.md, P9), with readers that come all the time and a writer that
// never rests.
func TestLogStaysShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	doc := bytes.Repeat([]byte("x"), 8<<10)

	var wg sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	for w := range 16 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := store.RunID(fmt.Sprintf("r%d-%d", w, i))
				start := time.Now()
				err := s.Update(t.Context(), func(tx store.Tx) error {
					if err := tx.CreateRun(store.Run{ID: id, Tenant: "acme", Subject: subject, Status: "running"}); err != nil {
						return err
					}
					return tx.Append("acme", id, "running", tx.Now(), []store.Event{{Seq: 0, Type: "a", Doc: doc}, {Seq: 1, Type: "b", Doc: doc}})
				})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(start))
				mu.Unlock()
			}
		})
	}
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				err := s.View(t.Context(), func(r store.Reader) error {
					for _, err := range r.Runs("acme", subject, time.Time{}, 50) {
						if err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var longest int64
	for ctx.Err() == nil {
		if info, err := os.Stat(path + "-wal"); err == nil {
			longest = max(longest, info.Size())
		}
		time.Sleep(time.Millisecond)
	}
	wg.Wait()
	slices.Sort(took)
	n := len(took)
	t.Logf("%d commits; p50 %v p99 %v max %v; longest log %d KiB, written %d MiB", n, took[n/2], took[n*99/100], took[n-1], longest>>10, n*16>>10)
	if longest > 16<<20 {
		t.Errorf("the log grew to %d MiB", longest>>20)
	}
}
