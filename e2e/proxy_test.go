package e2e

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A proxy passes TCP connections on and keeps what they carried. It can cut every one of them.
type proxy struct {
	url string
	l   net.Listener
	to  func() string

	mu    sync.Mutex
	open  map[net.Conn]bool
	bytes []byte
	cuts  int
	wg    sync.WaitGroup
}

// newProxy passes connections to the address that to gives at the time.
func newProxy(t testing.TB, to func() string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{url: "http://" + l.Addr().String(), l: l, to: to, open: map[net.Conn]bool{}}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.pass(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) pass(c net.Conn) {
	d, err := net.Dial("tcp", p.to())
	if err != nil {
		_ = c.Close()
		return
	}
	p.mu.Lock()
	p.open[c], p.open[d] = true, true
	p.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{c, d}, {d, c}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], io.TeeReader(way[1], p)) // a cut is what we are here for
			_ = way[0].Close()
			_ = way[1].Close()
		})
	}
	both.Wait()
	p.mu.Lock()
	delete(p.open, c)
	delete(p.open, d)
	p.mu.Unlock()
}

// Write keeps what passed, for a search.
func (p *proxy) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes = append(p.bytes, b...)
	return len(b), nil
}

// cut resets every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts++
	for c := range p.open {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		_ = c.Close()
	}
}

func (p *proxy) carried() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]byte(nil), p.bytes...)
}
