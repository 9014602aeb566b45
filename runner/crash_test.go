//go:build unix

package runner_test

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"runnerd/internal/wire"
)

// A process is a real runner in a process of its own, with a real gateway's worth of HTTP between.
type process struct {
	testing.TB
	gateway *gateway
	program string
	dir     string
	cmd     *exec.Cmd
	log     *strings.Builder
	exited  chan error
}

// newProcess builds the runner for crash tests and pairs it.
func newProcess(t testing.TB, program string) *process {
	t.Helper()
	p := &process{TB: t, gateway: newGateway(t), program: program, dir: filepath.Join(t.TempDir(), "data")}
	server := httptest.NewServer(p.gateway)
	t.Cleanup(func() {
		p.kill(syscall.SIGKILL)
		server.CloseClientConnections()
		server.Close()
	})
	writeIdentity(t, p.dir, server.URL)
	for name, text := range map[string]string{
		"secret-runner.bearer": "bearer-0-of-the-runner", "secret-runner.refresh": refreshToken(0),
	} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func buildCrashRunner(t testing.TB) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "crashrunner")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "faultpoint", "-o", program, "runnerd/runner/internal/crashrunner")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}

// start starts the process; point, when not empty, is where it will die.
func (p *process) start(point string) {
	p.Helper()
	p.log = &strings.Builder{}
	p.cmd = exec.Command(p.program, p.dir)
	p.cmd.Env = append(os.Environ(), "RUNNERD_FAULT_POINT="+point)
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		p.Fatal(err)
	}
	exited := make(chan error, 1)
	p.exited = exited
	cmd := p.cmd
	go func() { exited <- cmd.Wait() }()
}

// kill sends a signal and waits for the end.
func (p *process) kill(s syscall.Signal) error {
	if p.cmd == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(s)
	return p.ended()
}

// ended waits for the process to end.
func (p *process) ended() error {
	p.Helper()
	select {
	case err := <-p.exited:
		p.cmd = nil
		return err
	case <-time.After(time.Minute):
		p.Fatalf("the process does not end\n%s", p.log)
		return nil
	}
}

// until polls, since real processes have real time.
func (p *process) until(what string, ok func() bool) {
	p.Helper()
	for deadline := time.Now().Add(40 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	p.Fatalf("never %s", what)
}

func (p *process) is(step string, states ...string) gstep {
	p.Helper()
	p.until(step+" is "+strings.Join(states, " or "), func() bool {
		return strings.Contains(" "+strings.Join(states, " ")+" ", " "+p.gateway.view(step).state+" ")
	})
	return p.gateway.view(step)
}

// turns counts how often a step was really run.
func (p *process) turns(step string) int {
	b, err := os.ReadFile(filepath.Join(p.dir, "turns"))
	if err != nil && !os.IsNotExist(err) {
		p.Fatal(err)
	}
	return strings.Count(string(b), step+"\n")
}

// The runner is killed at every moment of a step's life (faults R02 to R13, UD-24): the step is run once at most, what was
// finished arrives, and what nobody knows the end of is called so.
func TestCrash_UD24(t *testing.T) {
	program := buildCrashRunner(t)
	for point, c := range map[string]struct {
		when  string
		code  wire.Code // of the result; empty: the real one arrives
		turns int
	}{
		"R02": {when: "frame parsed, before the journal", turns: 1},
		"R03": {when: "accept sent, permit not read", turns: 1},
		"R04": {when: "permit read, before started is synced", turns: 1},
		"R05": {when: "keychain read, before started is synced", turns: 1},
		"R06": {when: "started synced, before the child exists", code: wire.CodeOutcomeUnknown, turns: 0},
		"R07": {when: "child just started", code: wire.CodeOutcomeUnknown, turns: 1},
		"R08": {when: "child in the middle of output", code: wire.CodeOutcomeUnknown, turns: 1},
		"R09": {when: "child ended, before redaction", code: wire.CodeOutcomeUnknown, turns: 1},
		"R10": {when: "in the middle of writing the outbox entry", code: wire.CodeOutcomeUnknown, turns: 1},
		"R11": {when: "outbox synced, before the POST", turns: 1},
		"R12": {when: "POST sent, before the answer", turns: 1},
		"R13": {when: "verdict read, before the entry is cleared", turns: 1},
	} {
		t.Run(point+" "+c.when, func(t *testing.T) {
			t.Parallel()
			p := newProcess(t, program)
			p.start(point)
			p.until("connected", func() bool { return get(p.gateway, func() bool { return p.gateway.streams > 0 }) })
			p.gateway.offer("s")
			if err := p.ended(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatalf("the process ended with %v, want it killed\n%s", err, p.log)
			}
			p.start("")
			s := p.is("s", "done")
			if code(t, s.result) != c.code || c.code == "" && text(t, s.result) != "done s" {
				t.Errorf("result %s, want code %q", s.result, c.code)
			}
			p.gateway.offer("after")
			p.is("after", "done")
			if n := p.turns("s"); n != c.turns {
				t.Errorf("%d turns, want %d", n, c.turns)
			}
			if err := p.kill(syscall.SIGTERM); err != nil {
				t.Errorf("stopped with %v", err)
			}
			if left, err := filepath.Glob(filepath.Join(p.dir, "tmp", "*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
}

// A process that is killed again and again, a little later each time, never takes a second turn.
func TestCrash_R03_KilledAtManyMomentsTakesOneTurn(t *testing.T) {
	p := newProcess(t, buildCrashRunner(t))
	for i := range 12 {
		name := "s" + string(rune('a'+i))
		p.start("")
		streams := get(p.gateway, func() int { return len(p.gateway.opened) })
		p.until("connected", func() bool { return get(p.gateway, func() bool { return len(p.gateway.opened) > streams }) })
		p.gateway.offer(name)
		time.Sleep(time.Duration(i) * 3 * time.Millisecond)
		_ = p.kill(syscall.SIGKILL)
	}
	p.start("")
	for i := range 12 {
		name := "s" + string(rune('a'+i))
		if s := p.is(name, "done", "lost"); s.state == "done" && code(t, s.result) == "" && p.turns(name) != 1 {
			t.Errorf("%s: a result after %d turns", name, p.turns(name))
		}
		if n := p.turns(name); n > 1 {
			t.Errorf("%s took %d turns", name, n)
		}
	}
}

// The process stands still (SIGSTOP) past its step's end and then goes on.
func TestR16_StoppedProcessDeliversLateAndRunsNothingTwice(t *testing.T) {
	p := newProcess(t, buildCrashRunner(t))
	p.gateway.with(func() { p.gateway.permit = time.Second })
	p.start("")
	p.until("connected", func() bool { return get(p.gateway, func() bool { return p.gateway.streams > 0 }) })
	p.gateway.offer("s", func(d *wire.Dispatch) {
		d.Inputs = json.RawMessage(`{"messages":[{"role":"user","content":"1m"}]}`)
	})
	p.until("it runs", func() bool { return p.turns("s") == 1 })
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	p.until("its time is over", func() bool { return time.Since(stopped) > 1500*time.Millisecond })
	p.gateway.with(func() { p.gateway.steps["s"].state = "lost" })
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.until("the late result came", func() bool { return p.gateway.view("s").result != nil })
	if s := p.gateway.view("s"); s.state != "lost" || code(t, s.result) != wire.CodeStepTimeout && code(t, s.result) != wire.CodeCancelled {
		t.Errorf("step %s %s", s.state, s.result)
	}
	if n := p.turns("s"); n != 1 {
		t.Errorf("%d turns", n)
	}
}
