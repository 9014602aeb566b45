package sqlite

import (
	"errors"
	"fmt"
	"os"

	"runnerd/gateway/store"
)

// errHeld is what tryLock says when another process, or another opener in this one, has the lock.
var errHeld = errors.New("held")

// lock refuses a second gateway on the database at path (faults.md S11). The lock is on a file beside it, because SQLite's
// own locks on the database are lost when anything in this process closes another descriptor of it, and it goes with the
// process, however that ends. The file stays: deleting it would let two openers lock two files of one name.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := tryLock(f); err != nil {
		f.Close()
		if errors.Is(err, errHeld) {
			return nil, store.ErrLocked
		}
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f, nil
}
