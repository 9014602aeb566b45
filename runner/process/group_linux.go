package process

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"runnerd/internal/wire"
)

// awaitExit blocks until the leader has ended, and leaves its number taken: Wait reaps it.
func (g *group) awaitExit() {
	for {
		err := unix.Waitid(unix.P_PID, g.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// sweep kills every process that carries the mark until none is left, so that one born during a pass does not survive it
// (UD-33).
func sweep(mark string) {
	needle := []byte(markName + "=" + mark)
	for end := time.Now().Add(wire.KillAfter); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		found := false
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return
		}
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil || pid == os.Getpid() {
				continue
			}
			env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
			if err == nil && hasVar(env, needle) {
				found = true
				_ = unix.Kill(pid, unix.SIGKILL) // it may have ended since
			}
		}
		if !found {
			return
		}
	}
}

func hasVar(environ, needle []byte) bool {
	for v := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.Equal(v, needle) {
			return true
		}
	}
	return false
}
