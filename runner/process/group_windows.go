package process

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// group is a child in a Job Object that kills everything in it when it is closed. The child joins before its first
// instruction runs, so that nothing it starts is outside (UD-34).
type group struct {
	cmd   *exec.Cmd
	job   windows.Handle
	child windows.Handle
}

func newGroup(cmd *exec.Cmd) *group {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		HideWindow:    true,
		CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_NO_WINDOW,
	}
	return &group{cmd: cmd}
}

func (g *group) start() error {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return fmt.Errorf("create job object: %w", err)
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info))); err != nil {
		_ = windows.CloseHandle(job)
		return fmt.Errorf("limit job object: %w", err)
	}
	g.job = job
	if err := g.cmd.Start(); err != nil {
		g.close()
		return err
	}
	if err := g.join(); err != nil {
		_ = g.cmd.Process.Kill()
		_ = g.cmd.Wait() // it never ran
		g.close()
		return err
	}
	return nil
}

func (g *group) join() error {
	const rights = windows.PROCESS_SET_QUOTA | windows.PROCESS_TERMINATE | windows.PROCESS_SUSPEND_RESUME | windows.SYNCHRONIZE
	h, err := windows.OpenProcess(rights, false, uint32(g.cmd.Process.Pid))
	if err != nil {
		return fmt.Errorf("open child: %w", err)
	}
	g.child = h
	if err := windows.AssignProcessToJobObject(g.job, h); err != nil {
		return fmt.Errorf("assign child to job object: %w", err)
	}
	if status, _, _ := windows.NewLazySystemDLL("ntdll.dll").NewProc("NtResumeProcess").Call(uintptr(h)); status != 0 {
		return fmt.Errorf("resume child: status %#x", status)
	}
	return nil
}

// terminate ends the whole job: a console program without a console hears no gentler word.
func (g *group) terminate() { g.kill() }

func (g *group) kill() { _ = windows.TerminateJobObject(g.job, 1) } // it may be empty, which is what we want

func (g *group) awaitExit() { _, _ = windows.WaitForSingleObject(g.child, windows.INFINITE) }

func (g *group) close() {
	for _, h := range []*windows.Handle{&g.job, &g.child} {
		if *h != 0 {
			_ = windows.CloseHandle(*h)
			*h = 0
		}
	}
}

func sweep(string) {}

func signalName(*os.ProcessState) string { return "" }
