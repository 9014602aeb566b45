package sse

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"runnerd/internal/wire"
)

// openIdle opens n idle streams over loopback from bare connections, so that what grows is the server's.
func openIdle(tb testing.TB, n int) {
	tb.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, err := Open(w, r)
		for ; err == nil; err = out.Wait(r.Context(), nil) {
		}
	}))
	tb.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	for range n {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { c.Close() })
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: gateway\r\n\r\n")
		for lines := bufio.NewReaderSize(c, 16); ; { // the smallest there is
			line, err := lines.ReadString('\n')
			if err != nil {
				tb.Fatal(err)
			}
			if strings.HasPrefix(line, ":open") {
				break
			}
		}
	}
}

func TestAnIdleStreamCostsTwoGoroutines(t *testing.T) {
	const n = 200
	before := runtime.NumGoroutine()
	openIdle(t, n)
	if got := runtime.NumGoroutine() - before; got > 2*n+2 { // the server has one or two of its own
		t.Errorf("%d streams have %d goroutines", n, got)
	}
}

// BenchmarkIdleStreams reports what one idle stream keeps resident in the server, net/http included (limit P4: 30 KiB).
func BenchmarkIdleStreams(b *testing.B) {
	const n = 2000
	for b.Loop() {
		openIdle(b, 100)
		before := resident()
		openIdle(b, n)
		b.ReportMetric(float64(resident()-before)/n/1024, "KiB/stream")
	}
}

// resident is the memory that the program's heap and stacks hold.
func resident() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

func BenchmarkSend(b *testing.B) {
	for _, size := range []int{512, wire.MaxFrame} {
		b.Run(fmt.Sprintf("%d bytes", size), func(b *testing.B) {
			data := []byte(strings.Repeat("x", size))
			done := make(chan struct{})
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(done)
				out, err := Open(w, r)
				if err != nil {
					b.Error(err)
					return
				}
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for i := int64(0); b.Loop(); i++ {
					if err := errors.Join(out.Send(i, "dispatch", data), out.Flush()); err != nil {
						b.Error(err)
						break
					}
				}
			}))
			defer srv.Close()
			res, err := http.Get(srv.URL)
			if err != nil {
				b.Fatal(err)
			}
			for _, err := range Read(b.Context(), res.Body, Options{MaxEvent: size}) {
				if err != nil {
					b.Fatal(err)
				}
			}
			<-done
		})
	}
}
