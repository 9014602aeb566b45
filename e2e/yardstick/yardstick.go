// Package yardstick measures the limits that the product's figures are held beside, in the same run, because absolute times
// of shared machines mean nothing: L0, the trip of a step in memory, and L1, the same with a synced commit for the offer and
// one for the result.
package yardstick

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runnerd/gateway/store"
	"runnerd/gateway/store/sqlite"
	"runnerd/internal/sse"
)

// Measure takes n steps, c at a time, and keeps the time of each.
func Measure(all *[]time.Duration, c, n int, step func()) time.Duration {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var next atomic.Int64
	began := time.Now()
	for range c {
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				t := time.Now()
				step()
				took := time.Since(t)
				mu.Lock()
				*all = append(*all, took)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return time.Since(began)
}

// Waiting tells clients that their step is done. The zero value is ready.
type Waiting struct {
	mu   sync.Mutex
	done map[string]chan struct{}
}

// On gives the channel that is closed when the step ends.
func (w *Waiting) On(id string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done == nil {
		w.done = map[string]chan struct{}{}
	}
	ch, ok := w.done[id]
	if !ok {
		ch = make(chan struct{})
		w.done[id] = ch
	}
	return ch
}

// End says that the step has ended.
func (w *Waiting) End(id string) {
	close(w.On(id))
	w.mu.Lock()
	delete(w.done, id)
	w.mu.Unlock()
}

// A Yardstick is L0 and L1: client POST, hand-off, event on an open stream, runner POST, client answered.
type Yardstick struct {
	srv    *httptest.Server
	client *http.Client
	next   atomic.Int64
	body   []byte
}

// New starts one; it ends with the benchmark.
func New(b *testing.B) *Yardstick {
	st, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "l1.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	y := &Yardstick{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}}, body: bytes.Repeat([]byte("x"), 512)}
	offers := make(chan string, 1024)
	var waits Waiting
	commit := func(r *http.Request) error {
		if r.URL.Query().Get("sync") == "" {
			return nil
		}
		return st.Update(r.Context(), func(tx store.Tx) error { return tx.PutMeta("yard", y.body) })
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /step", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		id := r.URL.Query().Get("id")
		done := waits.On(id)
		if err := commit(r); err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		offers <- r.URL.RawQuery
		<-done
	})
	mux.HandleFunc("POST /result", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if err := commit(r); err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		waits.End(r.URL.Query().Get("id"))
	})
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		w.Header().Set("Content-Type", "text/event-stream")
		control.Flush()
		for {
			select {
			case q := <-offers:
				fmt.Fprintf(w, "data: %s %s\n\n", q, y.body)
			case <-r.Context().Done():
				return
			}
			for more := true; more; {
				select {
				case q := <-offers:
					fmt.Fprintf(w, "data: %s %s\n\n", q, y.body)
				default:
					more = false
				}
			}
			control.Flush()
		}
	})
	y.srv = httptest.NewServer(mux)
	ctx, cancel := context.WithCancel(context.Background())
	req, _ := http.NewRequestWithContext(ctx, "GET", y.srv.URL+"/stream", nil)
	res, err := y.client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for ev, err := range sse.Read(ctx, res.Body, sse.Options{}) {
			if err != nil {
				return
			}
			query, _, _ := bytes.Cut(ev.Data, []byte(" "))
			go y.post(b, "/result?"+string(query))
		}
	})
	b.Cleanup(func() {
		cancel()
		wg.Wait()
		y.srv.CloseClientConnections()
		y.srv.Close()
		st.Close()
	})
	return y
}

func (y *Yardstick) post(b *testing.B, path string) {
	res, err := y.client.Post(y.srv.URL+path, "text/plain", bytes.NewReader(y.body))
	if err != nil {
		b.Error(err)
		return
	}
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
}

// Step takes one step: of L0, or with sync of L1.
func (y *Yardstick) Step(b *testing.B, sync bool) {
	path := fmt.Sprintf("/step?id=%d", y.next.Add(1))
	if sync {
		path += "&sync=1"
	}
	y.post(b, path)
}

// P50 is the median in nanoseconds. It sorts its argument.
func P50(all []time.Duration) float64 {
	slices.Sort(all)
	return float64(all[len(all)/2])
}
