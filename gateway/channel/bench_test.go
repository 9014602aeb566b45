package channel_test

import (
	"bytes"
	"context"
	"encoding/json"
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

	"runnerd/gateway/run"
	"runnerd/gateway/store"
	"runnerd/gateway/store/sqlite"
	"runnerd/internal/sse"
	"runnerd/internal/wire"
)

// BenchmarkDispatch measures a step over HTTP, with SQLite at full sync, beside the limits of performance.md in the same run:
// L0 is the same trip in memory, L1 the same with a synced commit for the offer and one for the result. The product's step is
// a run from its creation to its end: offer, frame, accept, permit, result, every event durable, three commits.
//
//	go test ./gateway/channel -run '^$' -bench Dispatch -benchtime 2000x
func BenchmarkDispatch(b *testing.B) {
	for _, c := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("c=%d", c), func(b *testing.B) {
			limits := newYardstick(b)
			p := newProduct(b)
			var l0, l1, mine []time.Duration // a step's time, as its client saw it
			var wall [3]time.Duration
			const chunk = 128
			b.ReportAllocs()
			b.ResetTimer()
			commits := p.w.store.commits.Load()
			for left := b.N; left > 0; left -= chunk {
				n := min(left, chunk)
				b.StopTimer()
				wall[0] += measure(&l0, c, n, func() { limits.step(b, false) })
				wall[1] += measure(&l1, c, n, func() { limits.step(b, true) })
				b.StartTimer()
				wall[2] += measure(&mine, c, n, func() { p.step(b) })
			}
			b.StopTimer()
			p50 := func(all []time.Duration) float64 {
				slices.Sort(all)
				return float64(all[len(all)/2])
			}
			b.ReportMetric(p50(mine)/1e6, "p50_ms")
			b.ReportMetric(p50(mine)/p50(l0), "x_L0")
			b.ReportMetric(p50(mine)/p50(l1), "x_L1")
			b.ReportMetric(float64(b.N)/wall[2].Seconds(), "steps/s")
			b.ReportMetric(wall[0].Seconds()/wall[2].Seconds(), "of_L0_rate")
			b.ReportMetric(wall[1].Seconds()/wall[2].Seconds(), "of_L1_rate")
			b.ReportMetric(float64(p.w.store.commits.Load()-commits)/float64(b.N), "commits/step")
		})
	}
}

// measure takes n steps, c at a time.
func measure(all *[]time.Duration, c, n int, step func()) time.Duration {
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

// waiting tells clients that their step is done.
type waiting struct {
	mu   sync.Mutex
	done map[string]chan struct{}
}

func (w *waiting) on(id string) chan struct{} {
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

func (w *waiting) end(id string) {
	close(w.on(id))
	w.mu.Lock()
	delete(w.done, id)
	w.mu.Unlock()
}

// A yardstick is L0 and L1: client POST, hand-off, event on an open stream, runner POST, client answered.
type yardstick struct {
	srv    *httptest.Server
	client *http.Client
	next   atomic.Int64
	body   []byte
}

func newYardstick(b *testing.B) *yardstick {
	st, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "l1.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	y := &yardstick{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}}, body: bytes.Repeat([]byte("x"), 512)}
	offers := make(chan string, 1024)
	var waits waiting
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
		done := waits.on(id)
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
		waits.end(r.URL.Query().Get("id"))
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

func (y *yardstick) post(b *testing.B, path string) {
	res, err := y.client.Post(y.srv.URL+path, "text/plain", bytes.NewReader(y.body))
	if err != nil {
		b.Error(err)
		return
	}
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
}

func (y *yardstick) step(b *testing.B, sync bool) {
	path := fmt.Sprintf("/step?id=%d", y.next.Add(1))
	if sync {
		path += "&sync=1"
	}
	y.post(b, path)
}

// A product is a gateway with one fast runner of our kind: one report at a time, which carries all that waits, and results
// likewise.
type product struct {
	w       *world
	subject store.Subject
	waits   waiting
	inputs  []byte
}

func newProduct(b *testing.B) *product {
	w := newWorld(b)
	w.quiet = true
	w.end()
	w.start()
	p := &product{w: w, subject: w.subject("acme", "ann")}
	p.inputs, _ = json.Marshal(map[string]string{"prompt": string(bytes.Repeat([]byte("x"), 512))})
	r := w.runner(p.subject)
	r.max = 1000
	st := r.connect()
	accepts, results := make(chan wire.Dispatch, 4096), make(chan wire.Dispatch, 4096)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(accepts)
		for {
			select {
			case ev := <-st.events:
				if ev.Type != wire.EventDispatch {
					continue
				}
				var d wire.Dispatch
				if err := json.Unmarshal(ev.Data, &d); err != nil {
					b.Error(err)
				}
				accepts <- d
			case <-st.done:
				return
			}
		}
	})
	wg.Go(func() {
		defer close(results)
		for all := range batches(accepts) {
			reply := must[wire.ReportReply](r, "POST", "/reports", func() wire.Report {
				rep := r.next()
				accepting(all...)(&rep)
				return rep
			}())
			if len(reply.Permits) != len(all) {
				b.Errorf("%d permits for %d accepts", len(reply.Permits), len(all))
			}
			for _, d := range all {
				results <- d
			}
		}
	})
	wg.Go(func() {
		for all := range batches(results) {
			var body []wire.Result
			for _, d := range all {
				body = append(body, output(d, "done"))
			}
			for _, v := range must[wire.Verdicts](r, "POST", "/results", body).Verdicts {
				if v.Verdict != wire.VerdictAccepted {
					b.Errorf("verdict %+v", v)
				}
				p.waits.end(v.RunID)
			}
		}
	})
	b.Cleanup(func() {
		st.close()
		wg.Wait()
	})
	return p
}

// batches gives what waits, as much at a time as a results request may hold.
func batches(in <-chan wire.Dispatch) func(func([]wire.Dispatch) bool) {
	return func(yield func([]wire.Dispatch) bool) {
		for d := range in {
			all := []wire.Dispatch{d}
			for more := true; more && len(all) < wire.MaxResults; {
				select {
				case d, ok := <-in:
					if more = ok; ok {
						all = append(all, d)
					}
				default:
					more = false
				}
			}
			if !yield(all) {
				return
			}
		}
	}
}

func (p *product) step(b *testing.B) {
	id := fmt.Sprintf("run_%d", benchRuns.Add(1))
	done := p.waits.on(id)
	_, err := p.w.runs.Create(context.Background(), run.CreateRequest{ID: store.RunID(id), Subject: p.subject, Workflow: "chat", Inputs: p.inputs})
	if err != nil {
		b.Error(err)
		return
	}
	<-done
}

var benchRuns atomic.Int64
