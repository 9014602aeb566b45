package sse

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// pipeListener is a network in memory, so that a real net/http server runs on a synctest bubble's clock.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { close(l.done); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (l *pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	l.conns <- there
	return here, nil
}

// serve runs h and returns a client that reaches it. Both end with the test.
func serve(t *testing.T, h func(http.ResponseWriter, *http.Request)) *http.Client {
	l := &pipeListener{make(chan net.Conn), make(chan struct{})}
	srv := &http.Server{Handler: http.HandlerFunc(h), ReadTimeout: time.Minute, WriteTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	tr := &http.Transport{DialContext: l.dial}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		srv.Close()
		<-ended
	})
	return &http.Client{Transport: tr}
}

func get(t *testing.T, c *http.Client, lastID string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://gateway/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// collect reads everything that r holds, in chunks of the given size.
func collect(t *testing.T, r io.Reader, opts Options) (events []Event, err error) {
	for ev, err := range Read(t.Context(), io.NopCloser(r), opts) {
		if err != nil {
			return events, err
		}
		events = append(events, ev)
	}
	return events, nil
}

// chunked gives r's bytes n at a time.
type chunked struct {
	r io.Reader
	n int
}

func (c chunked) Read(p []byte) (int, error) { return c.r.Read(p[:min(len(p), max(c.n, 1))]) }

func mustBe(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}
