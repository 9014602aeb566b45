//go:build unix && !linux

package process

import "golang.org/x/sys/unix"

// Harden keeps this process from writing a core file (K08). Children inherit the limit.
func Harden() error { return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) }
