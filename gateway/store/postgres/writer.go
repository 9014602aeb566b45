package postgres

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"runnerd/gateway/store"
)

// groupMax is how many functions share a commit at most.
const groupMax = 256

// A writer owns the writing connection. It takes what waits into one transaction, commits it, rings, and answers; it never
// waits for more to come.
type writer struct {
	s     *Store
	c     *conn // nil while there is none
	queue chan *call
	later []*call // what is to run again, first of all
	pass  bool    // somebody else's lock was not to be had: let others go first, once
	group *group  // the present transaction

	commits atomic.Int64
	done    chan struct{} // closed when the last function has run
}

func newWriter(s *Store, c conn) *writer {
	w := &writer{s: s, c: &c, queue: make(chan *call, groupMax), done: make(chan struct{})}
	go w.run() // until the store closes; Close waits for it
	return w
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
	if w.c != nil {
		w.c.close()
	}
}

// work goes on until the store closes.
func (w *writer) work() {
	for {
		if c := w.next(); c != nil {
			w.transact(c)
			continue
		}
		select {
		case c := <-w.queue:
			w.transact(c)
		case <-w.s.closing:
			for c := w.next(); c != nil; c = w.next() {
				w.transact(c)
			}
			return
		}
	}
}

// next is who comes first, or nil. Who has to wait for others takes turns with those who need not.
func (w *writer) next() *call {
	if len(w.later) == 0 || w.pass {
		w.pass = false
		if c := w.queued(); c != nil || len(w.later) == 0 {
			return c
		}
	}
	c := w.later[0]
	w.later = w.later[1:]
	return c
}

func (w *writer) queued() *call {
	select {
	case c := <-w.queue:
		return c
	default:
		return nil
	}
}

// follower is who shares a transaction that has begun, or nil.
func (w *writer) follower() *call {
	for i, c := range w.later {
		if !c.alone {
			w.later = slices.Delete(w.later, i, i+1)
			return c
		}
	}
	return w.queued()
}

// transact makes one transaction of c and of who waits behind it.
func (w *writer) transact(c *call) {
	if err := w.connect(); err != nil {
		// Everybody waited as long as the first: let none of them wait that time again.
		for ; c != nil; c = w.next() {
			if c.take() {
				c.done <- err
			}
		}
		return
	}
	w.group = newGroup(w.s, *w.c, c)
	defer w.finish() // also when a function ends this goroutine
	for alone := c.alone; c != nil; c = w.follower() {
		if c.take() {
			w.apply(c)
		}
		if alone || len(w.group.members) == groupMax || w.group.broken != nil {
			return
		}
	}
}

// apply runs one function and keeps or undoes what it wrote.
func (w *writer) apply(c *call) {
	t := newTx(w.group, c)
	w.group.members = append(w.group.members, t)
	returned := false
	defer func() {
		if !returned {
			if p := recover(); p != nil {
				c.panicked = place(p)
			} else {
				c.exited = true
			}
			t.again = false
		}
		t.end()
	}()
	t.err = c.fn(t)
	returned = true
}

// finish ends the transaction, rings, and answers.
func (w *writer) finish() {
	g := w.group
	if g.commit() {
		w.commits.Add(1)
		w.s.ring(g.topics)
	}
	if g.c.lost() {
		w.c = nil
		w.s.opt.Log.Warn("the connection to the database is gone", "err", g.broken)
	}
	for _, t := range g.members {
		if g.broken != nil && t.err != errUnfinished {
			w.undone(t)
		}
		if t.again && time.Since(t.call.since) < w.s.opt.busy {
			w.later = append(w.later, t.call)
			w.pass = w.pass || t.call.alone
			continue
		}
		if t.err == errTaken {
			t.err = fmt.Errorf("%w: %w", store.ErrBusy, errTaken)
		}
		t.call.done <- t.err
	}
	w.group = nil
}

// undone says what becomes of a function whose transaction was not committed. What it said itself may rest on what a
// neighbour wrote, and that is undone. Who is not to blame runs again.
func (w *writer) undone(t *tx) {
	g := w.group
	guilty := g.blamed == nil || g.blamed == t.call
	t.err = g.broken
	t.again = !guilty || g.worst == again || g.worst == loses
	t.call.alone = t.call.alone || guilty && g.worst == again
}
