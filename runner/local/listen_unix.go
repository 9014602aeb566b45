//go:build unix

package local

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

func runtimeFolder() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" && len(dir) < 60 {
		return filepath.Join(dir, "runnerd")
	}
	return filepath.Join("/tmp", "runnerd-"+strconv.Itoa(os.Geteuid()))
}

// checkPrivate makes sure that a folder is the owner's alone: in another's, a socket could be put in the place of ours.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) != os.Geteuid() || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not private; run: chmod 700 %q", dir, dir)
	}
	return nil
}

// checkPeer refuses a caller of another user. The system's own administrator may call.
func checkPeer(c net.Conn) error {
	unix, ok := c.(*net.UnixConn)
	if !ok {
		return errors.New("not a Unix socket")
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return err
	}
	var uid int
	var failed error
	if err := raw.Control(func(fd uintptr) { uid, failed = peerUser(int(fd)) }); err != nil || failed != nil {
		return fmt.Errorf("caller is not known: %w", errors.Join(err, failed))
	}
	if uid != os.Geteuid() && uid != 0 {
		return fmt.Errorf("caller is user %d", uid)
	}
	return nil
}
