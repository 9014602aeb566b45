package postgres

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"runnerd/gateway/store"
)

// A call is one Update. Whoever moves state from waiting decides: the writer takes it, or its caller has gone.
type call struct {
	fn    func(store.Tx) error
	state atomic.Int32
	done  chan error // what became of it

	since time.Time       // when it ran first
	needs map[string]bool // what it could not have until now
	alone bool            // others waited for what it needed: it shares no transaction any more

	panicked any  // what the function panicked with
	exited   bool // the function ended its goroutine
}

const (
	waiting int32 = iota
	taken
	gone
)

func (c *call) need(name string) {
	if c.needs == nil {
		c.needs = map[string]bool{}
	}
	c.needs[name] = true
}

// take says whether a call is to run: it was taken before, or is now.
func (c *call) take() bool {
	if c.state.CompareAndSwap(waiting, taken) {
		c.since = time.Now()
	}
	return c.state.Load() == taken
}

// Update runs fn on the gateway's one writer and returns when it is durable. While it waits its turn it can be cancelled;
// from when fn begins, the answer is what happened. fn may run again, alone in what it sees. A panic of fn, or the end of
// its goroutine, comes out here.
func (s *Store) Update(ctx context.Context, fn func(store.Tx) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c := &call{fn: fn, done: make(chan error, 1)}
	select {
	case s.writer.queue <- c:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.closing:
		return store.ErrClosed
	}
	select {
	case err := <-c.done:
		return c.outcome(err)
	case <-ctx.Done():
		if c.state.CompareAndSwap(waiting, gone) {
			return context.Cause(ctx)
		}
	case <-s.writer.done: // it was queued behind the writer's last look
		if c.state.CompareAndSwap(waiting, gone) {
			return store.ErrClosed
		}
	}
	return c.outcome(<-c.done)
}

func (c *call) outcome(err error) error {
	if c.panicked != nil {
		panic(c.panicked)
	}
	if c.exited {
		runtime.Goexit()
	}
	return err
}

// A placed panic is what a function panicked with, and where. It panics once more where Update was called, and that place
// alone would not say.
type placed struct {
	value any
	stack []byte
}

func (p *placed) Error() string { return fmt.Sprintf("%v\n\n%s", p.value, p.stack) }

func (p *placed) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// place adds the place to text and to errors of the runtime. Other values may mean something to who recovers them.
func place(value any) any {
	switch value.(type) {
	case string, runtime.Error:
		return &placed{value, debug.Stack()}
	}
	return value
}
