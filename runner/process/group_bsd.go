//go:build unix && !linux

package process

import (
	"errors"

	"golang.org/x/sys/unix"
)

// awaitExit blocks until the leader has ended, and leaves its number taken: Wait reaps it. A leader that cannot be watched
// has ended already.
func (g *group) awaitExit() {
	kq, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(kq) }()
	var watch [1]unix.Kevent_t
	unix.SetKevent(&watch[0], g.cmd.Process.Pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	watch[0].Fflags = unix.NOTE_EXIT
	if _, err := unix.Kevent(kq, watch[:], nil, nil); err != nil {
		return
	}
	for {
		var got [1]unix.Kevent_t
		if _, err := unix.Kevent(kq, nil, got[:], nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// sweep cannot read another process's environment here: the session's group is what is killed.
func sweep(string) {}
