package sqlite

// The write-ahead log in pages of 4 KiB: a start reads what is in it, so it is kept under 16 MB (performance.md, P9).
const (
	walCopy  = 1000 // from here its pages are copied into the database, so that it can start anew
	walForce = 3000 // from here the writer waits, a little, for readers that keep it from starting anew
)

// checkpoint keeps the log short. It runs between two transactions, after the callers were answered.
func (w *writer) checkpoint() {
	if w.broken != nil {
		return
	}
	frames, _, err := w.log("PRAGMA wal_checkpoint(NOOP)")
	if err != nil || frames < walCopy {
		return
	}
	if frames < walForce {
		w.log("PRAGMA wal_checkpoint(PASSIVE)")
		return
	}
	w.c.exec("PRAGMA busy_timeout = 100")
	w.log("PRAGMA wal_checkpoint(RESTART)")
	w.c.exec("PRAGMA busy_timeout = 5000")
}

// log runs a checkpoint and gives the pages in the log, and how many of them the database has. What goes wrong here shows
// again in a commit: the log only grows meanwhile.
func (w *writer) log(text string) (frames, copied int64, err error) {
	var busy int64
	err = w.c.row(func(r scanner) error { return r.Scan(&busy, &frames, &copied) }, text)
	return frames, copied, err
}
