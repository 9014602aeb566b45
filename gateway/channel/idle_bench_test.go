package channel_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"runnerd/gateway/dispatch"
	"runnerd/internal/wire"
)

// BenchmarkIdleStreams connects runners that have reported and wait, and says what one more of them takes: resident memory
// beyond the first hundred, and goroutines. The clients' ends are bare sockets in the same process, which count too.
//
//	go test ./gateway/channel -run '^$' -bench IdleStreams -benchtime 1x
func BenchmarkIdleStreams(b *testing.B) {
	const warm, more = 100, 2000
	for range min(b.N, 1) { // it measures memory: once is enough
		w := newWorld(b)
		w.quiet = true
		w.end()
		w.start()
		subject := w.subject("acme", "ann")
		conns := make([]net.Conn, 0, warm+more)
		connect := func(n int) {
			for range n {
				r := w.runner(subject)
				r.has = &wire.Inventory{Providers: map[string]wire.Provider{"echo": {Models: []string{"echo-1"}}}}
				r.register()
				c, err := net.Dial("tcp", strings.TrimPrefix(w.srv.URL, "http://"))
				if err != nil {
					b.Fatal(err)
				}
				conns = append(conns, c)
				fmt.Fprintf(c, "GET %s/dispatches?epoch=%d HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer bearer-of-%s\r\n\r\n", wire.Prefix, r.epoch, r.id)
				res, err := http.ReadResponse(bufio.NewReaderSize(c, 512), nil)
				if err != nil || res.StatusCode != 200 {
					b.Fatalf("%v %v", res, err)
				}
				r.report()
				if p := w.dispatch.Presence(r.row()); p.Status != dispatch.Online {
					b.Fatalf("presence %+v", p)
				}
			}
		}
		connect(warm)
		w.client.CloseIdleConnections()
		rss, heap, goroutines := weigh(b)
		connect(more)
		w.client.CloseIdleConnections()
		rss2, heap2, goroutines2 := weigh(b)
		b.ReportMetric(float64(rss2-rss)/more/1024, "KiB/runner")
		b.ReportMetric(float64(heap2-heap)/more/1024, "heap+stack_KiB/runner")
		b.ReportMetric(float64(goroutines2-goroutines)/more, "goroutines/runner")
		for _, c := range conns {
			c.Close()
		}
	}
}

// weigh gives resident bytes, bytes in use on heap and stacks, and goroutines, once all is quiet.
func weigh(b *testing.B) (resident, inUse, goroutines int64) {
	b.Helper()
	<-time.After(200 * time.Millisecond) // connections that were closed are still ending
	for range 6 {                        // stacks shrink by half in a collection
		runtime.GC()
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var pages, rss int64
	if f, err := os.Open("/proc/self/statm"); err == nil { // elsewhere the figure is left at 0
		fmt.Fscan(f, &pages, &rss)
		f.Close()
	}
	return rss * int64(os.Getpagesize()), int64(m.HeapInuse + m.StackInuse), int64(runtime.NumGoroutine())
}
