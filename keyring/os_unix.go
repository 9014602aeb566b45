//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package keyring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// tryLock locks f for this open file alone, without waiting.
func tryLock(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, err
		}
	}
}

// checkPrivate reports a file or folder that is not ours alone.
func checkPrivate(path string, fi fs.FileInfo) error {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, not to us (%d)", path, st.Uid, os.Geteuid())
	}
	if open := fi.Mode().Perm() & 0o077; open != 0 {
		return fmt.Errorf("%s has mode %04o: others may reach it; run `chmod go= %s`", path, fi.Mode().Perm(), path)
	}
	return nil
}

// openNow opens path for reading without waiting for the writer of a pipe.
func openNow(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
}

// moveOver renames from to to, replacing it, so that either name survives a
// loss of power: the folder is synced too.
func moveOver(from, to, folder string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
