package sqlite

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"runnerd/gateway/store"
)

// A writer owns the writing connection. It takes what waits into one transaction, commits it, rings, and answers; it never
// waits for more to come.
type writer struct {
	s      *Store
	c      *conn
	copier *copier
	queue  chan *call

	stored time.Time     // the clock's last committed reading
	group  []*tx         // of the present transaction
	topics []store.Topic // to ring after it
	abort  error         // why it cannot be committed
	worst  severity      // of abort
	again  int64         // pages in the log at which to look after it again

	commits atomic.Int64
	done    chan struct{} // closed when the last function has run
	failed  chan struct{} // closed after broken was set
	broken  error
}

// A call is one Update. Whoever moves state from waiting decides: the writer takes it, or its caller has gone.
type call struct {
	fn    func(store.Tx) error
	state atomic.Int32
	done  chan error // what became of it

	panicked any  // what the function panicked with
	exited   bool // the function ended its goroutine
}

const (
	waiting int32 = iota
	taken
	gone
)

func newWriter(s *Store, c *conn, k *copier) *writer {
	w := &writer{
		s: s, c: c, copier: k, queue: make(chan *call, groupMax), stored: s.clock.base,
		done: make(chan struct{}), failed: make(chan struct{}),
	}
	go w.run() // until the store closes; Close waits for it
	return w
}

// Update runs fn on the store's one writer and returns when it is durable. While it waits its turn it can be cancelled; from
// when fn begins, the answer is what happened. A panic of fn, or the end of its goroutine, comes out here.
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

// run keeps a goroutine working: a function that ends its goroutine, as t.FailNow does, ends the writer's.
func (w *writer) run() {
	defer close(w.done)
	for finished := false; !finished; {
		ended := make(chan bool)
		go func() {
			finished := false
			defer func() { ended <- finished }()
			w.work()
			finished = true
		}()
		finished = <-ended
	}
}

// work goes on until the store closes.
func (w *writer) work() {
	idle := time.NewTicker(idleEvery)
	defer idle.Stop()
	for {
		select {
		case c := <-w.queue:
			w.transact(c)
		case <-idle.C:
			w.keepTime()
		case <-w.s.closing:
			for c := w.next(); c != nil; c = w.next() {
				w.transact(c)
			}
			w.keepTime()
			return
		}
	}
}

// next is who waits, or nil.
func (w *writer) next() *call {
	select {
	case c := <-w.queue:
		return c
	default:
		return nil
	}
}

// keepTime stores the clock when no commit did: an empty group. If it cannot, the next commit will tell.
func (w *writer) keepTime() {
	if w.begin() == nil {
		w.finish()
	}
}
