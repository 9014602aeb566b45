package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"runnerd/internal/httpapi"
	"runnerd/internal/sse"
)

// A pipes is a listener whose connections live in memory, so that they know a bubble's clock.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial() net.Conn {
	here, there := net.Pipe()
	p.accept <- there
	return here
}

// serving runs serve in a bubble, and ends it.
func serving(t *testing.T, h http.Handler, use func(*pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		l, ended := &pipes{make(chan net.Conn), make(chan struct{})}, make(chan error, 1)
		go func() { ended <- serve(ctx, l, h, slog.New(slog.DiscardHandler)) }()
		use(l)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}

// cutOff says how long the server bears with what send does to a connection, and what it answers.
func cutOff(p *pipes, send func(net.Conn)) (took time.Duration, answer string) {
	c, began := p.dial(), time.Now()
	sent := make(chan struct{})
	go func() { send(c); close(sent) }()
	b, _ := io.ReadAll(c)
	took = time.Since(began)
	c.Close()
	<-sent
	return took, string(b)
}

// trickle sends a byte a second until nobody takes it.
func trickle(c net.Conn) {
	for {
		time.Sleep(time.Second)
		if _, err := c.Write([]byte("x")); err != nil {
			return
		}
	}
}

// H02: headers and bodies at a byte a second end at their deadlines, whether or not a handler reads them, and others are
// served meanwhile.
func TestSlowSendersAreCutOff_H02(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/unread", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	mux.Handle("/read", httpapi.Wrap(slog.New(slog.DiscardHandler), nil, func(w http.ResponseWriter, r *http.Request) error {
		_, err := httpapi.Decode[map[string]any](w, r)
		return err
	}))
	post := func(path string) func(net.Conn) {
		return func(c net.Conn) {
			fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n", path)
			trickle(c)
		}
	}
	for name, tt := range map[string]struct {
		send  func(net.Conn)
		limit time.Duration
		want  string // at the beginning of the answer
	}{
		"headers":           {func(c net.Conn) { fmt.Fprint(c, "GET / HTTP/1.1\r\nX: "); trickle(c) }, headersWithin, ""},
		"a body":            {post("/read"), 30 * time.Second, "HTTP/1.1 408 "},
		"a body left aside": {post("/unread"), requestWithin, "HTTP/1.1 401 "},
		"nothing":           {func(net.Conn) {}, headersWithin, ""},
	} {
		t.Run(name, func(t *testing.T) {
			serving(t, mux, func(p *pipes) {
				done := make(chan struct{})
				go func() {
					defer close(done)
					if took, answer := cutOff(p, tt.send); took > tt.limit+5*time.Second || !strings.HasPrefix(answer, tt.want) {
						t.Errorf("cut off after %v with %q, want %v, %q", took, answer, tt.limit, tt.want)
					}
				}()
				time.Sleep(5 * time.Second)
				if got, _ := cutOff(p, func(c net.Conn) { fmt.Fprint(c, "GET /unread HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") }); got > time.Second {
					t.Errorf("another waited %v", got)
				}
				<-done
			})
		})
	}
}

func TestAReaderThatTakesNothingIsCutOff(t *testing.T) {
	var left atomic.Bool
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 1<<20))
		left.Store(true)
	})
	serving(t, h, func(p *pipes) {
		c := p.dial()
		defer c.Close()
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if time.Sleep(replyWithin + time.Second); !left.Load() {
			t.Error("its reply is still being written")
		}
	})
}

// The deadlines of requests are not for streams.
func TestAStreamOutlivesTheDeadlinesOfRequests(t *testing.T) {
	h := httpapi.Wrap(slog.New(slog.DiscardHandler), nil, func(w http.ResponseWriter, r *http.Request) error {
		out, err := sse.Open(w, r)
		if err != nil {
			return err
		}
		bell := make(chan struct{}, 1)
		time.AfterFunc(2*replyWithin, func() { bell <- struct{}{} })
		if err := out.Wait(r.Context(), bell); err != nil {
			return err
		}
		if err := out.SendNoID("", []byte("late")); err != nil {
			return err
		}
		return out.Flush()
	})
	serving(t, h, func(p *pipes) {
		c := p.dial()
		defer c.Close()
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		if err != nil || !strings.HasSuffix(string(b), "data: late\n\n") {
			t.Errorf("read %q, %v", b, err)
		}
	})
}

// H04: no second request is read from what follows a body that could be measured in two ways.
func TestNothingIsReadAfterAnAmbiguousBody_H04(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "<%s>", r.URL.Path)
	})
	const second = "GET /second HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	for name, first := range map[string]string{
		"a length and chunks": "POST /first HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"chunks and a length": "POST /first HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
		"two lengths":         "POST /first HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nbody",
		"an unknown coding":   "POST /first HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"a bare line feed":    "POST /first HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\n0\r\n\r\n",
		"a space before it":   "POST /first HTTP/1.1\r\nHost: x\r\nContent-Length : 4\r\n\r\nbody",
	} {
		t.Run(name, func(t *testing.T) {
			serving(t, h, func(p *pipes) {
				c := p.dial()
				go func() { _, _ = io.WriteString(c, first+second) }()
				b, _ := io.ReadAll(c)
				c.Close()
				if strings.Contains(string(b), "second") {
					t.Errorf("it was: %q", b)
				}
			})
		})
	}
}
