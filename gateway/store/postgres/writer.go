package postgres

import (
	"fmt"
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

// next is who comes first, or nil.
func (w *writer) next() *call {
	pass := w.pass
	w.pass = false
	if len(w.later) > 0 && !pass {
		return w.again()
	}
	select {
	case c := <-w.queue:
		return c
	default:
		return w.again()
	}
}

func (w *writer) again() *call {
	if len(w.later) == 0 {
		return nil
	}
	c := w.later[0]
	w.later = w.later[1:]
	return c
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
	w.group = newGroup(w.s, *w.c, c.needs)
	defer w.finish() // also when a function ends this goroutine
	for ; c != nil; c = w.next() {
		if c.take() {
			w.apply(c)
		}
		if len(w.group.members) == groupMax || w.group.broken != nil {
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
	w.pass = g.worst == again
	for _, t := range g.members {
		if g.broken != nil {
			// What it said itself may rest on what a neighbour wrote, and that is undone.
			t.err, t.again = g.broken, t.err != errUnfinished && (g.worst == again || g.worst == loses)
		}
		w.pass = w.pass || t.again && t.err != errTaken
		if t.again && time.Since(t.call.since) < w.s.opt.busy {
			w.later = append(w.later, t.call)
			continue
		}
		if t.err == errTaken {
			t.err = fmt.Errorf("%w: %w", store.ErrBusy, errTaken)
		}
		t.call.done <- t.err
	}
	w.group = nil
}
