package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"runnerd/gateway/store"
)

// groupMax is how many functions share a commit at most.
const groupMax = 256

// A writer is the goroutine that owns the writing connection. It takes what waits into one transaction, commits it, rings,
// and answers; it never waits for more to come. A function runs on its caller's goroutine, to which the writer lends the
// transaction and then waits: so a panic, or the end of the goroutine, happens where it belongs.
type writer struct {
	s      *Store
	c      *conn
	queue  chan *call
	stored time.Time // the clock's last committed reading
	group  []*tx     // of the present transaction
	topics []store.Topic
	abort  error    // why the present transaction cannot be committed
	worst  severity // of abort

	done   chan struct{} // closed when the goroutine has ended
	failed chan struct{} // closed after broken was set
	broken error
}

// A call is one Update. Whoever moves state from waiting decides: the writer takes it, or its caller has gone.
type call struct {
	state atomic.Int32
	turn  chan *tx      // the transaction, or nil if there is none to be had
	back  chan struct{} // the function has ended
	done  chan error    // what became of it
}

const (
	waiting int32 = iota
	taken
	gone
)

func newWriter(s *Store, c *conn) *writer {
	w := &writer{
		s: s, c: c, queue: make(chan *call, groupMax), stored: s.clock.base,
		done: make(chan struct{}), failed: make(chan struct{}),
	}
	go w.run() // until the store closes; Close waits for it
	return w
}

// Update runs fn on the store's one writer, in the caller's goroutine, and returns when it is durable. While it waits it can
// be cancelled; from when fn begins, the answer is what happened.
func (s *Store) Update(ctx context.Context, fn func(store.Tx) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c := &call{turn: make(chan *tx, 1), back: make(chan struct{}, 1), done: make(chan error, 1)}
	select {
	case s.writer.queue <- c:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.closing:
		return store.ErrClosed
	}
	var t *tx
	select {
	case t = <-c.turn:
	case <-ctx.Done():
		if c.state.CompareAndSwap(waiting, gone) {
			return context.Cause(ctx)
		}
		t = <-c.turn
	case <-s.writer.done: // it was queued behind the writer's last look
		if c.state.CompareAndSwap(waiting, gone) {
			return store.ErrClosed
		}
		t = <-c.turn
	}
	if t != nil {
		t.run(fn, c.back)
	}
	return <-c.done
}

// run is the writer's goroutine.
func (w *writer) run() {
	defer close(w.done)
	idle := time.NewTicker(idleEvery)
	defer idle.Stop()
	for {
		select {
		case c := <-w.queue:
			w.commit(c)
		case <-idle.C:
			w.keepTime()
		case <-w.s.closing:
			for c := w.next(); c != nil; c = w.next() {
				w.commit(c)
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

// commit makes one transaction of c and of who waits behind it.
func (w *writer) commit(c *call) {
	err := w.begin()
	if err != nil {
		// Everybody waited as long as the first: let none of them wait that time again.
		for ; c != nil; c = w.next() {
			c.refuse(err)
		}
		return
	}
	for ; c != nil; c = w.next() {
		if c.state.CompareAndSwap(waiting, taken) {
			w.lend(c)
		}
		if len(w.group) == groupMax || w.abort != nil {
			break
		}
	}
	err = w.end()
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

// lend gives the transaction to a caller until its function has ended, and keeps or undoes what that wrote.
func (w *writer) lend(c *call) {
	t := &tx{reader: reader{s: w.s, c: w.c, fault: w.fault}, call: c}
	w.group = append(w.group, t)
	c.turn <- t
	<-c.back
	if t.saved && t.err != nil {
		w.must("ROLLBACK TO fn")
	}
	if t.saved {
		w.must("RELEASE fn")
	}
	if t.err == nil {
		w.topics = append(w.topics, t.topics...)
	}
}

// end commits, if there is something to commit, and gives the error that all of the group share.
func (w *writer) end() error {
	var wrote bool
	for _, t := range w.group {
		wrote = wrote || t.saved && t.err == nil
	}
	now := w.s.clock.now()
	keep := wrote && now.Sub(w.stored) >= persistEvery
	if keep {
		w.must("UPDATE clock SET at = ? WHERE one = 1", micros(now))
	}
	if wrote && w.abort == nil {
		_, err := w.c.exec("COMMIT")
		if err == nil {
			if keep {
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

// keepTime stores the clock when no commit did.
func (w *writer) keepTime() {
	now := w.s.clock.now()
	if now.Sub(w.stored) < persistEvery || w.begin() != nil {
		return
	}
	w.must("UPDATE clock SET at = ? WHERE one = 1", micros(now))
	if w.abort == nil {
		if _, err := w.c.exec("COMMIT"); err == nil {
			w.stored = now
			return
		}
	}
	w.c.exec("ROLLBACK") // a reading that was not stored is stored with the next commit; that one will tell what is wrong
}

// refuse answers a call that got no transaction.
func (c *call) refuse(err error) {
	if c.state.CompareAndSwap(waiting, taken) {
		c.turn <- nil
		c.done <- err
	}
}

func (w *writer) close() error {
	return errors.Join(w.c.close())
}
