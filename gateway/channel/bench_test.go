package channel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runnerd/e2e/yardstick"
	"runnerd/gateway/run"
	"runnerd/gateway/store"
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
			limits := yardstick.New(b)
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
				wall[0] += yardstick.Measure(&l0, c, n, func() { limits.Step(b, false) })
				wall[1] += yardstick.Measure(&l1, c, n, func() { limits.Step(b, true) })
				b.StartTimer()
				wall[2] += yardstick.Measure(&mine, c, n, func() { p.step(b) })
			}
			b.StopTimer()
			b.ReportMetric(yardstick.P50(mine)/1e6, "p50_ms")
			b.ReportMetric(yardstick.P50(mine)/yardstick.P50(l0), "x_L0")
			b.ReportMetric(yardstick.P50(mine)/yardstick.P50(l1), "x_L1")
			b.ReportMetric(float64(b.N)/wall[2].Seconds(), "steps/s")
			b.ReportMetric(wall[0].Seconds()/wall[2].Seconds(), "of_L0_rate")
			b.ReportMetric(wall[1].Seconds()/wall[2].Seconds(), "of_L1_rate")
			b.ReportMetric(float64(p.w.store.commits.Load()-commits)/float64(b.N), "commits/step")
		})
	}
}

// A product is a gateway with one fast runner of our kind: one report at a time, which carries all that waits, and results
// likewise.
type product struct {
	w       *world
	subject store.Subject
	waits   yardstick.Waiting
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
				p.waits.End(v.RunID)
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
	done := p.waits.On(id)
	_, err := p.w.runs.Create(context.Background(), run.CreateRequest{ID: store.RunID(id), Subject: p.subject, Workflow: "chat", Inputs: p.inputs})
	if err != nil {
		b.Error(err)
		return
	}
	<-done
}

var benchRuns atomic.Int64
