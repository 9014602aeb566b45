package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"runnerd/gateway/store"
)

// A severity says what an error means for those who share a transaction with it.
type severity int

const (
	harmless severity = iota // of one function: what it did is undone, the transaction goes on
	again                    // of one function, which may run again: somebody else was in its way
	aborts                   // of the transaction: nothing of it will be written
	loses                    // of the connection; its transaction is undone unless it was being committed
)

// judge gives a driver's error the name that callers act on, if it has one, and its severity. The error itself stays in the
// chain.
func judge(err error, lost bool) (severity, error) {
	if errors.Is(err, errStale) {
		return again, err
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		if lost {
			return loses, fmt.Errorf("%w: %w", store.ErrBusy, err)
		}
		return aborts, err // a value that the driver could not write or read: a mistake of ours
	}
	busy := fmt.Errorf("%w: %w", store.ErrBusy, err)
	switch e.Code {
	case "40001", "40P01", "55P03": // serialization failure, deadlock, a lock that was not to be had in time
		return again, busy
	case "23505": // unique_violation
		return harmless, fmt.Errorf("%w: %w", store.ErrConflict, err)
	case "53100": // disk_full
		return harmless, fmt.Errorf("%w: %w", store.ErrFull, err)
	case "25006", // the server has become a standby
		"25P03",                            // it stood still for too long in a transaction
		"57P01", "57P02", "57P03", "57P05": // the server stops or starts, or ends idle sessions
		return loses, busy
	case "57014": // query_canceled
		return harmless, busy
	}
	switch {
	case lost || strings.HasPrefix(e.Code, "08"): // connection exceptions
		return loses, busy
	case strings.HasPrefix(e.Code, "53"): // connections, memory: the rest of what a server may lack
		return harmless, busy
	}
	return harmless, err // a mistake in a statement, say: ours, and of nobody else in the transaction
}
