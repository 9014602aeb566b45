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

	// half, when set, is shown each piece from the gateway, and says how much of it is to be passed before the cut.
	half func([]byte) (int, bool)
}

// newProxy passes connections to the address that to gives at the time. half may be nil.
func newProxy(t testing.TB, to func() string, half func([]byte) (int, bool)) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{url: "http://" + l.Addr().String(), l: l, to: to, half: half, open: map[net.Conn]bool{}}
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
			_, _ = io.Copy(p.cutting(way[0], way[0] == c), io.TeeReader(way[1], p)) // a cut is what we are here for
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

// cutting passes what it is given, until half says otherwise.
func (p *proxy) cutting(to net.Conn, fromGateway bool) io.Writer {
	if p.half == nil || !fromGateway {
		return to
	}
	return writer(func(b []byte) (int, error) {
		if n, cut := p.half(b); cut {
			_, _ = to.Write(b[:n]) // the connection is lost anyway
			p.cut()
			return n, io.ErrClosedPipe
		}
		return to.Write(b)
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
