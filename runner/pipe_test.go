package runner_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"runnerd/internal/redact"
)

// A pipe is a listener and a dialer in memory: sockets have no place in a bubble. A cut pipe delivers nothing any more and
// tells nobody.
type pipe struct {
	conns chan net.Conn
	done  chan struct{}

	mu   sync.Mutex
	open []*pipeConn
	down error // what a dial gets
	hole bool  // a dial waits for ever
}

func newPipe() *pipe { return &pipe{conns: make(chan net.Conn), done: make(chan struct{})} }

var errDown = errors.New("network is down")

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipe) Close() error   { close(p.done); return nil }
func (p *pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (p *pipe) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	p.mu.Lock()
	down, hole := p.down, p.hole
	p.mu.Unlock()
	if down != nil {
		return nil, down
	}
	if hole {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	here, there := net.Pipe()
	c := &pipeConn{Conn: here, frozen: make(chan struct{})}
	p.mu.Lock()
	p.open = append(p.open, c)
	p.mu.Unlock()
	select {
	case p.conns <- there:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// reset ends every connection, as a broken link does.
func (p *pipe) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		c.Close()
	}
	p.open = nil
}

// blackhole makes every open connection silent without an end.
func (p *pipe) blackhole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		c.freeze()
	}
}

func (p *pipe) set(down error, hole bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down, p.hole = down, hole
}

// A pipeConn can be frozen: then what is written is lost, and nothing is read.
type pipeConn struct {
	net.Conn
	once   sync.Once
	frozen chan struct{}
}

func (c *pipeConn) freeze() { c.once.Do(func() { close(c.frozen) }) }

func (c *pipeConn) isFrozen() bool {
	select {
	case <-c.frozen:
		return true
	default:
		return false
	}
}

func (c *pipeConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.isFrozen() {
			return n, err
		}
	}
}

func (c *pipeConn) Write(b []byte) (int, error) {
	if c.isFrozen() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// A store is a credential store in memory that can be locked.
type store struct {
	mu     sync.Mutex
	values map[string]redact.Secret
	locked error
}

func newStore() *store {
	return &store{values: map[string]redact.Secret{
		"runner.bearer": redact.New("bearer-0-of-the-runner"), "runner.refresh": redact.New(refreshToken(0)),
	}}
}

func (s *store) lock(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locked = err
}

func (s *store) Get(_ context.Context, name string) (redact.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.values[name]; ok && s.locked == nil {
		return v, nil
	}
	return redact.Secret{}, errors.Join(s.locked, fmt.Errorf("no %s", name))
}

func (s *store) Set(_ context.Context, name string, v redact.Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locked == nil {
		s.values[name] = v
	}
	return s.locked
}

func (s *store) Delete(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locked == nil {
		delete(s.values, name)
	}
	return s.locked
}

func (s *store) List(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name := range s.values {
		names = append(names, name)
	}
	return names, s.locked
}
