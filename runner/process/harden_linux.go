package process

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Harden keeps this process's memory to itself: it writes no core file, and no other process of the same user may read it
// (K08, K09). Children inherit the limit on core files.
func Harden() error {
	return errors.Join(
		unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}),
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0),
	)
}
