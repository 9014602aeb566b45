//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package sqlite

import (
	"errors"
	"os"
)

// tryLock has nothing to lock with here, and without a lock two gateways could share a store.
func tryLock(*os.File) error { return errors.ErrUnsupported }
