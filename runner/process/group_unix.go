//go:build unix

package process

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// group is a child in a session of its own: it has no terminal, and one signal reaches it and what it started.
type group struct{ cmd *exec.Cmd }

func newGroup(cmd *exec.Cmd) *group {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return &group{cmd}
}

func (g *group) start() error { return g.cmd.Start() }

func (g *group) terminate() { g.signal(unix.SIGTERM) }

func (g *group) kill() { g.signal(unix.SIGKILL) }

func (g *group) close() {}

// signal reaches every process of the group. That there is none any more is what we want.
func (g *group) signal(s unix.Signal) { _ = unix.Kill(-g.cmd.Process.Pid, s) }

func signalName(p *os.ProcessState) string {
	if ws, ok := p.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return unix.SignalName(ws.Signal())
	}
	return ""
}
