package sqlite

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"runnerd/gateway/store"
)

// Functions share a commit up to so many, and up to so many bytes of documents: a group is not to fill the log.
const (
	groupMax   = 256
	groupBytes = 2 << 20
)

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
		if len(w.group) == groupMax || w.c.bytes > groupBytes || w.abort != nil {
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
				c.panicked = place(p)
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
	select {
	case err := <-w.copier.broken:
		return w.fail(err)
	default:
	}
	w.abort, w.worst, w.c.bytes = nil, harmless, 0
	if _, err := w.c.exec("BEGIN IMMEDIATE"); err != nil {
		s, err := judge(err)
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
		s, err := judge(err)
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
	s, err := judge(err)
	if s > w.worst {
		w.abort, w.worst = err, s
	}
	return err
}

// must runs a statement of the writer's own, which may not fail alone.
func (w *writer) must(text string, args ...any) {
	if _, err := w.c.exec(text, args...); err != nil && w.abort == nil {
		s, err := judge(err)
		w.abort, w.worst = err, max(s, aborts)
	}
}

// fail breaks the store: from here on every Update fails.
func (w *writer) fail(err error) error {
	w.broken = fmt.Errorf("%w: %w", store.ErrBroken, err)
	close(w.failed)
	return w.broken
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
