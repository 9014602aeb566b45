package admin

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// peerUser asks the kernel whose the other end is.
func peerUser(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, credErr); err != nil {
		return -1, err
	}
	return int(cred.Uid), nil
}
