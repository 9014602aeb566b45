package natsbus

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A cable stands between a bus and its server. It can be cut, and new connections go through it again; or it can stand still.
type cable struct {
	l     net.Listener
	to    string
	mu    sync.Mutex
	ends  []net.Conn
	still chan struct{}
}

func newCable(t *testing.T, to string) *cable {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{l: l, to: to, still: make(chan struct{})}
	go c.serve()
	t.Cleanup(func() { l.Close(); c.cut() })
	return c
}

func (c *cable) addr() string { return c.l.Addr().String() }

func (c *cable) serve() {
	for {
		near, err := c.l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", c.to)
		if err != nil {
			near.Close()
			continue
		}
		c.mu.Lock()
		c.ends = append(c.ends, near, far)
		c.mu.Unlock()
		go c.carry(near, far)
		go c.carry(far, near)
	}
}

// carry passes bytes on until the cable stands still.
func (c *cable) carry(from, to net.Conn) {
	buf := make([]byte, 4096)
	for {
		select {
		case <-c.still:
			return // with both ends open, and nobody reading
		default:
		}
		n, err := from.Read(buf)
		if err == nil {
			_, err = to.Write(buf[:n])
		}
		if err == io.EOF || err != nil {
			from.Close()
			to.Close()
			return
		}
	}
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range c.ends {
		end.Close()
	}
	c.ends = nil
}

func (c *cable) freeze() { close(c.still) }
