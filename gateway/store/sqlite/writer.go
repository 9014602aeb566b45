package sqlite

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"runnerd/gateway/store"
)

// groupMax is how many functions share a commit at most.
const groupMax = 256

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

	panicked *unwound // the function panicked
	exited   bool     // the function ended its goroutine
}

const (
	waiting int32 = iota
	taken
	gone
)

// An unwound is the value that a function panicked with, and where: it panics once more where Update was called, and that
// place alone would not say.
type unwound struct {
	value any
	stack []byte
}

func (u *unwound) Error() string { return fmt.Sprintf("%v\n\n%s", u.value, u.stack) }

func (u *unwound) Unwrap() error {
	err, _ := u.value.(error)
	return err
}

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

// transact makes one transaction of c and of who waits behind it.
func (w *writer) transact(c *call) {
	if err := w.begin(); err != nil {
		// Everybody waited as long as the first: let none of them wait that time again.
		for ; c != nil; c = w.next() {
			if c.state.CompareAndSwap(waiting, taken) {
				c.done <- err
			}
		}
		return
	}
	defer w.finish() // also when a function ends this goroutine
	for ; c != nil; c = w.next() {
		if c.state.CompareAndSwap(waiting, taken) {
			w.apply(c)
		}
		if len(w.group) == groupMax || w.abort != nil {
			break
		}
	}
}

// apply runs one function and keeps or undoes what it wrote.
func (w *writer) apply(c *call) {
	t := &tx{reader: reader{s: w.s, c: w.c, fault: w.fault}, call: c, err: errUnfinished}
	w.group = append(w.group, t)
	returned := false
	defer func() {
		if !returned {
			if p := recover(); p != nil {
				c.panicked = &unwound{p, debug.Stack()}
			} else {
				c.exited = true
			}
		}
		t.reader.end()
		if t.saved && t.err != nil {
			w.must("ROLLBACK TO fn")
		}
		if t.saved {
			w.must("RELEASE fn")
		}
		if t.err == nil {
			w.topics = append(w.topics, t.topics...)
		}
	}()
	t.err = c.fn(t)
	returned = true
}

// finish ends the transaction, rings, and answers.
func (w *writer) finish() {
	err := w.commit()
	if err == nil && len(w.topics) > 0 {
		w.s.opt.Ring(w.topics...)
	}
	for _, t := range w.group {
		if err != nil {
			t.err = err // its own error may rest on what a neighbour wrote, and that is undone
		}
		t.call.done <- t.err
	}
	clear(w.group)
	w.group, w.topics = w.group[:0], w.topics[:0]
	w.checkpoint()
}

func (w *writer) begin() error {
	if w.broken != nil {
		return w.broken
	}
	w.abort, w.worst = nil, harmless
	if _, err := w.c.exec("BEGIN IMMEDIATE"); err != nil {
		err, s := judge(err)
		if s != aborts {
			return w.fail(err)
		}
		return err
	}
	return nil
}

// commit makes durable what the group wrote, if anything, or gives the error that all of the group share.
func (w *writer) commit() error {
	var wrote bool
	for _, t := range w.group {
		wrote = wrote || t.saved && t.err == nil
	}
	now := w.s.clock.now()
	late := now.Sub(w.stored) >= persistEvery && (wrote || len(w.group) == 0)
	if late {
		w.must("UPDATE clock SET at = ? WHERE one = 1", micros(now))
	}
	if (wrote || late) && w.abort == nil {
		_, err := w.c.exec("COMMIT")
		if err == nil {
			w.commits.Add(1)
			if late {
				w.stored = now
			}
			return nil
		}
		err, s := judge(err)
		if s != aborts {
			s = breaks // a sync that did not work, most likely; a later one that does proves nothing (faults.md S03)
		}
		w.abort, w.worst = fmt.Errorf("commit: %w", err), s
	}
	// SQLite may have rolled back by itself, and then says that there is nothing to roll back.
	if _, err := w.c.exec("ROLLBACK"); err != nil && w.abort == nil {
		w.abort, w.worst = err, breaks
	}
	if w.worst == breaks {
		return w.fail(w.abort)
	}
	return w.abort
}

// fault is what every error of the driver passes through: it gets its name, and the transaction its end if need be.
func (w *writer) fault(err error) error {
	if err == nil {
		return nil
	}
	err, s := judge(err)
	if s > w.worst {
		w.abort, w.worst = err, s
	}
	return err
}

// must runs a statement of the writer's own, which may not fail alone.
func (w *writer) must(text string, args ...any) {
	if _, err := w.c.exec(text, args...); err != nil && w.abort == nil {
		err, s := judge(err)
		w.abort, w.worst = err, max(s, aborts)
	}
}

// fail breaks the store: from here on every Update fails.
func (w *writer) fail(err error) error {
	w.broken = fmt.Errorf("%w: %w", store.ErrBroken, err)
	close(w.failed)
	return w.broken
}

// keepTime stores the clock when no commit did: an empty group. If it cannot, the next commit will tell.
func (w *writer) keepTime() {
	if w.begin() == nil {
		w.finish()
	}
}
