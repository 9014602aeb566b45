package keyring

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

// tryLock locks the first byte of f, without waiting.
func tryLock(f *os.File) (bool, error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

// checkPrivate reports nothing: modes mean nothing here. What lies in a
// person's profile has an access list that admits that person, the
// administrators and the system.
func checkPrivate(string, fs.FileInfo) error { return nil }

func openNow(path string) (*os.File, error) { return os.Open(path) }

// moveOver renames from to to, replacing it, and returns when that is on the
// disk. A virus scanner or an indexer may hold either file for a moment, which
// fails the rename though nothing is wrong.
func moveOver(from, to, _ string) error {
	src, err := windows.UTF16PtrFromString(from)
	if err != nil {
		return err
	}
	dst, err := windows.UTF16PtrFromString(to)
	if err != nil {
		return err
	}
	for wait := 10 * time.Millisecond; ; wait *= 2 {
		err := windows.MoveFileEx(src, dst, windows.MOVEFILE_REPLACE_EXISTING|windows.MOVEFILE_WRITE_THROUGH)
		held := errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_SHARING_VIOLATION)
		if !held || wait > time.Second {
			return err
		}
		time.Sleep(wait)
	}
}
