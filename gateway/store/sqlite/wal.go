package sqlite

import (
	"fmt"
	"sync/atomic"
)

// The write-ahead log, in pages of 4 KiB. A start reads what is in it, so it is kept under 16 MB (performance.md, P9).
const (
	walCopy  = 1000 // with so many that the database does not have, they are copied
	walForce = 2500 // from here the writer waits, a little, for readers that keep the log from starting anew
	walStep  = 500  // what did not work is tried again when the log has grown by so many
)

// A copier copies the log into the database beside the writer, so that a commit need not wait for it. Only the last pages,
// which came while it copied, are left to the writer: without them the log cannot start anew.
type copier struct {
	c      *conn
	busy   atomic.Bool // whoever sets it may use c
	ask    chan struct{}
	done   chan struct{}
	broken chan error // at most one
}

func newCopier(c *conn) *copier {
	k := &copier{c: c, ask: make(chan struct{}, 1), done: make(chan struct{}), broken: make(chan error, 1)}
	go k.run() // until stop
	return k
}

func (k *copier) run() {
	defer close(k.done)
	for range k.ask {
		k.copy("PASSIVE")
	}
}

// start asks for a copy, unless one is being made.
func (k *copier) start() {
	if k.busy.CompareAndSwap(false, true) {
		k.ask <- struct{}{}
	}
}

// restart copies what is left and has the log start anew, for which it waits, a little, for those who still read it.
func (k *copier) restart() {
	if k.busy.CompareAndSwap(false, true) {
		k.copy("RESTART")
	}
}

// copy ends being busy. A copy that had no space is made later; one whose sync did not work ends the store.
func (k *copier) copy(kind string) {
	if _, _, err := k.c.log(kind); err != nil {
		if s, err := judge(err); s == breaks {
			select {
			case k.broken <- fmt.Errorf("copy the log: %w", err):
			default:
			}
		}
	}
	k.busy.Store(false)
}

// stop waits for the copy that is being made.
func (k *copier) stop() error {
	close(k.ask)
	<-k.done
	return k.c.close()
}

// checkpoint keeps the log short. It runs between two transactions, after the callers were answered.
func (w *writer) checkpoint() {
	if w.broken != nil {
		return
	}
	frames, copied, err := w.c.log("NOOP")
	if err != nil || frames < walCopy {
		w.again = 0
		return
	}
	switch {
	case frames >= walForce && frames >= w.again:
		w.copier.restart()
		w.again = frames + walStep
	case frames-copied >= walCopy:
		w.copier.start()
	case frames >= w.again && w.copier.busy.CompareAndSwap(false, true):
		w.copier.copy("PASSIVE")
		w.again = frames + walStep
	}
}

// log runs a checkpoint and gives the pages in the log, and how many of them the database has.
func (c *conn) log(kind string) (frames, copied int64, err error) {
	var busy int64
	err = c.row(func(r scanner) error { return r.Scan(&busy, &frames, &copied) }, "PRAGMA wal_checkpoint("+kind+")")
	return frames, copied, err
}
