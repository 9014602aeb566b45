package clitest

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

const (
	terminate = syscall.SIGTERM
	within    = 30 * time.Second // for what takes a second, on a machine that does much else
)

type jobsKey struct{}

// A job is a program in the background.
type job struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	want := number(ts, args[0])
	err := ts.Exec(args[1], args[2:]...)
	if code := exitCode(ts, err); code != want {
		ts.Fatalf("%s ended with %d, want %d", strings.Join(args[1:], " "), code, want)
	}
}

func number(ts *testscript.TestScript, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		ts.Fatalf("%s is no exit code", s)
	}
	return n
}

func exitCode(ts *testscript.TestScript, err error) int {
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return e.ExitCode()
	}
	ts.Check(err)
	return 0
}

func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME PROGRAM ARG...")
	}
	name := args[0]
	ts.Check(ts.Exec(environ))
	var env []string
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &env))
	path, err := exec.LookPath(args[1]) // scripts leave PATH alone
	ts.Check(err)
	j := &job{cmd: exec.Command(path, args[2:]...), ended: make(chan struct{})}
	j.cmd.Dir, j.cmd.Env = ts.MkAbs("."), env
	out, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	errs, err := os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	j.cmd.Stdout, j.cmd.Stderr = out, errs
	ts.Check(j.cmd.Start())
	go func() {
		_ = j.cmd.Wait() // how it ended is in ProcessState
		_, _ = out.Close(), errs.Close()
		close(j.ended)
	}()
	ts.Defer(func() {
		_ = j.cmd.Process.Kill() // it may have ended
		<-j.ended
	})
	jobs(ts)[name] = j
}

func jobs(ts *testscript.TestScript) map[string]*job { return ts.Value(jobsKey{}).(map[string]*job) }

func find(ts *testscript.TestScript, name string) *job {
	j := jobs(ts)[name]
	if j == nil {
		ts.Fatalf("nothing was started as %s", name)
	}
	return j
}

// signals makes the command that ends a job by a signal.
func signals(s os.Signal) Command {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 2 {
			ts.Fatalf("usage: interrupt|terminate NAME CODE")
		}
		ts.Check(find(ts, args[0]).cmd.Process.Signal(s))
		ends(ts, neg, args)
	}
}

func ends(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ends NAME CODE")
	}
	j, want := find(ts, args[0]), number(ts, args[1])
	select {
	case <-j.ended:
	case <-time.After(within):
		ts.Fatalf("%s did not end within %v", args[0], within)
	}
	if code := j.cmd.ProcessState.ExitCode(); code != want {
		ts.Fatalf("%s ended with %d, want %d: %s", args[0], code, want, ts.ReadFile(args[0]+".err"))
	}
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await FILE PATTERN")
	}
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	j := jobs(ts)[strings.TrimSuffix(args[0], filepath.Ext(args[0]))]
	for deadline := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		over := time.Now().After(deadline)
		if j != nil {
			select {
			case <-j.ended:
				over = true
			default:
			}
		}
		if pattern.MatchString(ts.ReadFile(args[0])) {
			return
		}
		if over {
			ts.Fatalf("%s has no match for %q: %s", args[0], args[1], ts.ReadFile(args[0]))
		}
	}
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN PROGRAM ARG...")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
		err := ts.Exec(args[1], args[2:]...)
		if pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s: no match for %q within %v: %v", strings.Join(args[1:], " "), args[0], within, err)
		}
	}
}
