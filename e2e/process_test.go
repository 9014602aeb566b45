package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// programs are built once for all tests, with the crash points compiled in: a point that no environment names does nothing.
type programs struct {
	dir string
	err error
}

var build = sync.OnceValue(func() programs {
	dir, err := os.MkdirTemp("", "e2e-bin-*")
	if err != nil {
		return programs{err: err}
	}
	out, err := exec.Command("go", "build", "-tags", "faultpoint", "-o", dir+string(os.PathSeparator), "runnerd/cmd/gateway", "runnerd/cmd/runnerd").CombinedOutput()
	if err != nil {
		err = errors.Join(err, errors.New(string(out)))
	}
	return programs{dir, err}
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir := build().dir; dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func program(t testing.TB, name string) string {
	t.Helper()
	p := build()
	if p.err != nil {
		t.Fatalf("build: %v", p.err)
	}
	return filepath.Join(p.dir, name)
}

// A proc is a running program. What it prints is kept.
type proc struct {
	t      testing.TB
	cmd    *exec.Cmd
	lines  chan string // of stdout
	ended  chan struct{}
	stdin  io.WriteCloser
	mu     sync.Mutex
	stdout strings.Builder
	stderr strings.Builder
}

// env is what a child gets: a home of its own and nothing of the developer's.
func env(home string, more ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_DATA_HOME=" + filepath.Join(home, "data"), "TMPDIR=" + os.TempDir(),
		"RUNNERD_OLLAMA_URL=-",
	}, more...)
}

// start runs a program and ends it with the test.
func start(t testing.TB, environ []string, name string, args ...string) *proc {
	t.Helper()
	p := &proc{t: t, cmd: exec.Command(program(t, name), args...), lines: make(chan string, 1000), ended: make(chan struct{})}
	p.cmd.Env = environ
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { p.read(out, &p.stdout, p.lines) })
	wg.Go(func() { p.read(errs, &p.stderr, nil) })
	go func() {
		wg.Wait()
		_ = p.cmd.Wait() // how it ended is in ProcessState
		close(p.lines)
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s %s\nstdout: %s\nstderr: %s", name, strings.Join(args, " "), tailOf(p.text(&p.stdout)), tailOf(p.text(&p.stderr)))
		}
	})
	return p
}

func tailOf(s string) string { return s[max(0, len(s)-6000):] }

func (p *proc) read(r io.Reader, into *strings.Builder, lines chan<- string) {
	for s := bufio.NewReader(r); ; {
		line, err := s.ReadString('\n')
		p.mu.Lock()
		into.WriteString(line)
		p.mu.Unlock()
		if lines != nil && strings.TrimSpace(line) != "" {
			select {
			case lines <- line:
			default: // nobody reads so many
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proc) text(b *strings.Builder) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.String()
}

// line reads the next line of stdout as JSON.
func (p *proc) line(into any) {
	p.t.Helper()
	select {
	case l, ok := <-p.lines:
		if !ok {
			p.t.Fatalf("%s ended: %s", filepath.Base(p.cmd.Path), tailOf(p.text(&p.stderr)))
		}
		if err := json.Unmarshal([]byte(l), into); err != nil {
			p.t.Fatalf("stdout is not a line of JSON: %v: %q", err, l)
		}
	case <-time.After(40 * time.Second):
		p.t.Fatalf("%s printed nothing: %s", filepath.Base(p.cmd.Path), tailOf(p.text(&p.stderr)))
	}
}

// kill is kill -9.
func (p *proc) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// stop asks politely and returns the exit code.
func (p *proc) stop() int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
	return p.wait(75 * time.Second)
}

func (p *proc) wait(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		p.t.Fatalf("%s did not end: %s", filepath.Base(p.cmd.Path), tailOf(p.text(&p.stderr)))
		return -1
	}
}

// call runs a program to its end and reads its one line of JSON.
func call(t testing.TB, environ []string, stdin string, into any, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t, name), args...)
	cmd.Env, cmd.Stdin = environ, strings.NewReader(stdin)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, errs.String())
	}
	if into != nil {
		if err := json.Unmarshal(out, into); err != nil {
			t.Fatalf("%s %s: %v: %q", name, strings.Join(args, " "), err, out)
		}
	}
}

// eventually polls until ok.
func eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}
