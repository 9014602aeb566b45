package sqlite

import "sync/atomic"

// The write-ahead log, in pages of 4 KiB. A start reads what is in it, so it is kept under 16 MB (performance.md, P9).
const (
	walCopy  = 1000 // with so many that the database does not have, they are copied
	walForce = 2500 // from here the writer waits, a little, for readers that keep the log from starting anew
	walStep  = 500  // what did not work is tried again when the log has grown by so many
)

// A copier copies the log into the database beside the writer, so that a commit need not wait for it. Only the last pages,
// which came while it copied, are left to the writer: without them the log cannot start anew.
type copier struct {
	c    *conn
	busy atomic.Bool
	ask  chan struct{}
	done chan struct{}
}

func newCopier(c *conn) *copier {
	k := &copier{c: c, ask: make(chan struct{}, 1), done: make(chan struct{})}
	go k.run() // until stop
	return k
}

func (k *copier) run() {
	defer close(k.done)
	for range k.ask {
		k.c.log("PASSIVE")
		k.busy.Store(false)
	}
}

// start asks for a copy, unless one is being made.
func (k *copier) start() {
	if k.busy.CompareAndSwap(false, true) {
		k.ask <- struct{}{}
	}
}

// stop waits for the copy that is being made.
func (k *copier) stop() error {
	close(k.ask)
	<-k.done
	return k.c.close()
}

// restart copies what is left and has the log start anew, for which it waits, a little, for those who still read it.
func (k *copier) restart() {
	if k.busy.CompareAndSwap(false, true) {
		k.c.log("RESTART")
		k.busy.Store(false)
	}
}

// checkpoint keeps the log short. It runs between two transactions, after the callers were answered. What goes wrong here
// shows again in a commit: the log only grows meanwhile.
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
	case frames >= w.again && !w.copier.busy.Load():
		w.c.log("PASSIVE")
		w.again = frames + walStep
	}
}

// log runs a checkpoint and gives the pages in the log, and how many of them the database has.
func (c *conn) log(kind string) (frames, copied int64, err error) {
	var busy int64
	err = c.row(func(r scanner) error { return r.Scan(&busy, &frames, &copied) }, "PRAGMA wal_checkpoint("+kind+")")
	return frames, copied, err
}
