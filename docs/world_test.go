//go:build unix

package docs

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"runnerd/internal/redact"
	"runnerd/internal/testdep"
	"runnerd/keyring"
)

// patience is for what takes a second, on a machine that does much else.
const patience = 90 * time.Second

// A world is where one document's commands are run: an empty home, a gateway's address that nobody else has, and both
// programs, which README.md installs.
type world struct {
	t     *testing.T
	url   string
	home  string
	work  string // where commands are run that are not about the source
	env   []string
	code  string // of the last pairing
	ended []func()
}

const passphrase = "a long passphrase"

// programs installs both, once, as the README does.
var programs = sync.OnceValues(func() (string, error) {
	bin, err := os.MkdirTemp("", "docs-bin-*")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "install", "./cmd/gateway", "./cmd/runnerd")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOBIN="+bin, "GOFLAGS=-buildvcs=false")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = errors.Join(err, errors.New(string(out)))
	}
	return bin, err
})

func TestMain(m *testing.M) {
	result := m.Run()
	if bin, err := programs(); err == nil {
		_ = os.RemoveAll(bin)
	}
	os.Exit(result)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	testdep.Program(t, "sh", "a POSIX shell")
	testdep.Program(t, "curl", "Debian package curl")
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	// The home's path is short, since sockets lie below it.
	home, err := os.MkdirTemp("", "docs-*")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, url: "http://" + address, home: home, work: filepath.Join(home, "work")}
	w.env = append(goEnv(t), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "GOBIN="+bin, "HOME="+home, "TMPDIR="+os.TempDir(),
		"GOFLAGS=-buildvcs=false", "RUNNERD_OLLAMA_URL=-", "RUNNERD_CREDENTIAL_STORE=file", "RUNNERD_PASSPHRASE_FILE="+filepath.Join(home, "passphrase"))
	t.Cleanup(func() {
		for _, end := range w.ended {
			end()
		}
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	w.furnish()
	return w
}

// furnish makes what the documents take for granted: a workflow's file, and a credential store that opens quickly.
func (w *world) furnish() {
	w.t.Helper()
	flow := `{"id":"greet","name":"Greet","version":"1.0.0","nodes":[{"id":"say","typeId":"core.ai.callPrompt","name":"Say","position":{"x":0,"y":0},"config":{"prompt":"hello"},"inputs":{}}],` +
		`"edges":[],"triggers":[],"variables":[],"metadata":{"tags":[],"status":"draft"},"settings":{"timeout":60000,"maxRetries":0,"enableLogging":true,"enableMetrics":false}}`
	for path, text := range map[string]string{"work/flows/greet.json": flow, "passphrase": passphrase} {
		path = filepath.Join(w.home, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			w.t.Fatal(err)
		}
	}
	_, err := keyring.OpenFile(w.t.Context(), keyring.FileConfig{
		Folder: filepath.Join(w.home, ".local/share/runnerd/credentials"), Passphrase: redact.New(passphrase), WorkFactor: 8,
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// goEnv keeps what go has built and fetched already, though the home is another.
func goEnv(t *testing.T) (env []string) {
	t.Helper()
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, name+"="+strings.TrimSpace(string(out)))
	}
	return env
}

// command makes a shell that runs one line, in a group of its own.
func (w *world) command(ctx context.Context, line, dir string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = dir, w.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// run runs a line to its end and gives what it printed.
func (w *world) run(line, stdin string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	cmd := w.command(ctx, line, w.work)
	if strings.HasPrefix(line, "go ") {
		cmd.Dir = root
	}
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil {
		w.t.Fatalf("%s: %v\n%s%s", line, err, out.String(), errs.String())
	}
	return out.String()
}

// A job is a line in the background.
type job struct {
	w     *world
	line  string
	cmd   *exec.Cmd
	ended chan struct{}
	mu    sync.Mutex
	out   bytes.Buffer
}

// Write keeps what the job prints.
func (j *job) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.out.Write(p)
}

func (j *job) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.out.String()
}

// start runs a line in the background, until the document is through.
func (w *world) start(line, dir string) *job {
	w.t.Helper()
	j := &job{w: w, line: line, cmd: w.command(context.WithoutCancel(w.t.Context()), line, dir), ended: make(chan struct{})}
	j.cmd.Stdout, j.cmd.Stderr = j, j
	if err := j.cmd.Start(); err != nil {
		w.t.Fatalf("%s: %v", line, err)
	}
	go func() {
		_ = j.cmd.Wait() // how it ended is in ProcessState
		close(j.ended)
	}()
	w.ended = append(w.ended, func() {
		_ = syscall.Kill(-j.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		<-j.ended
	})
	return j
}

// until polls; a job that ended will not bring what is waited for.
func (w *world) until(what string, j *job, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		over := time.Now().After(deadline)
		if j != nil {
			select {
			case <-j.ended:
				over = true
			default:
			}
		}
		if ok() {
			return
		}
		if over {
			text := ""
			if j != nil {
				text = j.line + ": " + j.text()
			}
			w.t.Fatalf("in vain: %s\n%s", what, text)
		}
	}
}

func (w *world) answers() bool {
	res, err := http.Get(w.url + "/.well-known/openwop")
	if err != nil {
		return false
	}
	return res.Body.Close() == nil && res.StatusCode == http.StatusOK
}

var userCode = regexp.MustCompile(`(?:confirm the code  |"userCode":")([A-Z]{4}-[A-Z]{4})`)

// pair starts a pairing and reads its code. settle approves it and waits for its end.
func (w *world) pair(line string) *job {
	w.t.Helper()
	j := w.start(line, w.work)
	w.until("a code to confirm", j, func() bool {
		m := userCode.FindStringSubmatch(j.text())
		if m != nil {
			w.code = m[1]
		}
		return m != nil
	})
	return j
}

func (w *world) settle(j *job) {
	w.t.Helper()
	w.run("gateway runner approve "+w.code+" --user ada", "")
	w.over(j)
}

func (w *world) wait(j *job) {
	w.t.Helper()
	select {
	case <-j.ended:
	case <-time.After(patience):
		w.t.Fatalf("%s does not end: %s", j.line, j.text())
	}
}

// over waits until a job has ended well.
func (w *world) over(j *job) {
	w.t.Helper()
	w.wait(j)
	if c := j.cmd.ProcessState.ExitCode(); c != 0 {
		w.t.Fatalf("%s ended with %d: %s", j.line, c, j.text())
	}
}
