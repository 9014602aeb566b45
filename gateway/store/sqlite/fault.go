package sqlite

import (
	"errors"
	"fmt"

	sqlite3 "modernc.org/sqlite/lib"

	"runnerd/gateway/store"
)

// A severity says what an error means for those who share a transaction with it.
type severity int

const (
	harmless severity = iota // of one statement: SQLite undid it, the transaction goes on
	aborts                   // of the transaction: nothing of it will be written, later ones may be
	breaks                   // of the store: what is on the disk is not known any more
)

// A coded error is the driver's.
type coded interface {
	error
	Code() int // with what it is and, above the lowest byte, why
}

// judge gives a driver's error the name that callers act on, if it has one, and its severity. The error itself stays in the
// chain.
func judge(err error) (severity, error) {
	e, ok := errors.AsType[coded](err)
	if !ok {
		return harmless, err
	}
	switch e.Code() {
	case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_ROWID:
		return harmless, fmt.Errorf("%w: %w", store.ErrConflict, err)
	case sqlite3.SQLITE_IOERR_SHMSIZE: // the index of the write-ahead log could not grow
		return aborts, fmt.Errorf("%w: %w", store.ErrFull, err)
	case sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_NOMEM, sqlite3.SQLITE_IOERR_CORRUPTFS:
		return aborts, err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return aborts, fmt.Errorf("%w: %w", store.ErrFull, err)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return aborts, fmt.Errorf("%w: %w", store.ErrBusy, err)
	case sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return aborts, err
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL:
		return breaks, err
	}
	return harmless, err // a mistake in a statement, say: ours, and of nobody else in the transaction
}
