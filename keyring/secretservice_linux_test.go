package keyring_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"runnerd/internal/redact"
	"runnerd/keyring"
	"runnerd/keyring/keyringtest"
)

const secrets = "org.freedesktop.secrets"

// need reports programs that are not installed: a skip on a laptop, a failure
// where CI is set.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is missing: apt-get install gnome-keyring dbus", p)
		}
		t.Skipf("%s is missing: apt-get install gnome-keyring dbus", p)
	}
}

// onBus runs body in a process of its own, on a session bus of its own that
// starts no service by itself. godbus has one session bus per process and finds
// it by the environment, so a bus for each test takes a process for each.
func onBus(t *testing.T, body func(*testing.T)) {
	const mark = "KEYRING_TEST_ON_BUS"
	if os.Getenv(mark) == t.Name() {
		body(t)
		return
	}
	need(t, "dbus-run-session", "gnome-keyring-daemon")
	home := t.TempDir()
	config := filepath.Join(home, "bus.conf")
	err := os.WriteFile(config, []byte(`<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen><auth>EXTERNAL</auth><policy context="default">
<allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "dbus-run-session", "--config-file="+config, "--",
		os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=50s")
	cmd.Env = append(os.Environ(), mark+"="+t.Name(), "HOME="+home, "XDG_RUNTIME_DIR="+home,
		"XDG_DATA_HOME="+filepath.Join(home, "data"), "XDG_CONFIG_HOME="+filepath.Join(home, "config"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("on its own bus: %v\n%s", err, out)
	}
	t.Logf("on its own bus:\n%s", out)
}

// startDaemon starts gnome-keyring, unlocked by a password or, without one,
// locked, and returns what stops it.
func startDaemon(t *testing.T, password string) (stop func()) {
	t.Helper()
	control, err := os.MkdirTemp(t.TempDir(), "control-*") // 0700, as it demands
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--foreground", "--components=secrets", "--control-directory=" + control}
	if password != "" {
		args = append(args, "--unlock")
	}
	cmd := exec.Command("gnome-keyring-daemon", args...)
	cmd.Stdin = strings.NewReader(password)
	cmd.Stdout, cmd.Stderr = io.Discard, t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			waitForOwner(t, false)
		}
	}
	t.Cleanup(stop)
	waitForOwner(t, true)
	return stop
}

// connect opens a connection of the test's own.
func connect(t *testing.T, opts ...dbus.ConnOption) *dbus.Conn {
	t.Helper()
	conn, err := dbus.ConnectSessionBus(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// roundTrip asks the bus itself something: what conn was sent before has come.
func roundTrip(t *testing.T, conn *dbus.Conn) {
	t.Helper()
	if err := conn.BusObject().Call("org.freedesktop.DBus.GetId", 0).Err; err != nil {
		t.Fatal(err)
	}
}

// waitForOwner waits until there is, or is no longer, a Secret Service.
func waitForOwner(t *testing.T, want bool) {
	t.Helper()
	conn, err := dbus.ConnectSessionBus()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	changed := make(chan *dbus.Signal, 16)
	conn.Signal(changed)
	if err := conn.AddMatchSignal(dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, secrets)); err != nil {
		t.Fatal(err)
	}
	for deadline := time.After(20 * time.Second); ; {
		var owned bool
		if err := conn.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, secrets).Store(&owned); err != nil {
			t.Fatal(err)
		}
		if owned == want {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("a Secret Service on the bus: not %v within 20s", want)
		}
	}
}

// open returns a store in the real keychain.
func open(t *testing.T, cfg keyring.SystemConfig) *keyring.System {
	t.Helper()
	if cfg.Service == "" {
		cfg.Service = fmt.Sprintf("runnerd-test/%x", len(t.Name())) + "/" + strings.Map(func(r rune) rune {
			if keyring.CheckName("a"+string(r)) != nil {
				return '-'
			}
			return r
		}, t.Name())
		cfg.Service = cfg.Service[:min(len(cfg.Service), keyring.MaxName)]
	}
	s, err := keyring.NewSystem(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestSecretServiceKeepsThePromises(t *testing.T) {
	onBus(t, func(t *testing.T) {
		startDaemon(t, "pw")
		keyringtest.Run(t, func(t *testing.T) keyring.Keyring {
			return open(t, keyring.SystemConfig{Timeout: 20 * time.Second})
		})
	})
}

func TestSecretServiceKeepsServicesApart(t *testing.T) {
	onBus(t, func(t *testing.T) {
		startDaemon(t, "pw")
		one := open(t, keyring.SystemConfig{Service: "runnerd/1", Timeout: 20 * time.Second})
		two := open(t, keyring.SystemConfig{Service: "runnerd/2", Timeout: 20 * time.Second})
		if err := one.Set(t.Context(), "a", redact.New("1")); err != nil {
			t.Fatal(err)
		}
		if _, err := two.Get(t.Context(), "a"); !errors.Is(err, keyring.ErrNotFound) {
			t.Errorf("the other installation: got %v, want ErrNotFound", err)
		}
		again := open(t, keyring.SystemConfig{Service: "runnerd/1", Timeout: 20 * time.Second})
		if got, err := again.Get(t.Context(), "a"); err != nil || got.Reveal() != "1" {
			t.Errorf("the same installation: %q, %v; want 1", got.Reveal(), err)
		}
	})
}

// A locked keychain is told apart from none, and one that is unlocked, or comes
// back, is used without a restart (UD-58).
func TestSecretServiceLockedGoneAndBack(t *testing.T) {
	onBus(t, func(t *testing.T) {
		s := open(t, keyring.SystemConfig{Timeout: 20 * time.Second})
		begin := time.Now()
		if _, err := s.Get(t.Context(), "a"); !errors.Is(err, keyring.ErrUnavailable) || !strings.Contains(err.Error(), "--credential-store file") {
			t.Errorf("no service: got %v, want ErrUnavailable with the remedy", err)
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("no service: noticed after %v, want 2s at most (UD-59)", took)
		}

		stop := startDaemon(t, "pw")
		if err := s.Set(t.Context(), "a", redact.New("1")); err != nil {
			t.Fatal(err)
		}
		stop()
		if _, err := s.Get(t.Context(), "a"); !errors.Is(err, keyring.ErrUnavailable) {
			t.Errorf("service gone: got %v, want ErrUnavailable", err)
		}

		stop = startDaemon(t, "")
		_, get := s.Get(t.Context(), "a")
		_, list := s.List(t.Context())
		for _, err := range []error{get, list, s.Set(t.Context(), "b", redact.New("2")), s.Delete(t.Context(), "a")} {
			if !errors.Is(err, keyring.ErrLocked) || !strings.Contains(err.Error(), "unlock the login keyring") {
				t.Errorf("locked: got %v, want ErrLocked with the remedy", err)
			}
		}
		stop()

		startDaemon(t, "pw")
		if got, err := s.Get(t.Context(), "a"); err != nil || got.Reveal() != "1" {
			t.Errorf("unlocked: %q, %v; want 1", got.Reveal(), err)
		}
	})
}

// A service that never answers holds up one call until its deadline, and none
// after it (UD-42).
func TestSecretServiceThatNeverAnswers(t *testing.T) {
	onBus(t, func(t *testing.T) {
		dumb := startDumbService(t, false)
		const timeout = 2 * time.Second // which later calls keep on a busy machine too
		s := open(t, keyring.SystemConfig{Timeout: timeout})
		begin := time.Now()
		if _, err := s.Get(t.Context(), "a"); !errors.Is(err, keyring.ErrLocked) || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("got %v, want ErrLocked: does not answer", err)
		}
		if took := time.Since(begin); took < timeout || took > 2*timeout {
			t.Errorf("told after %v, want %v", took, timeout)
		}
		if n := s.Parked(); n != 1 {
			t.Errorf("%d calls are parked, want 1", n)
		}
		dumb.giveUpName()
		startDaemon(t, "pw")
		if err := s.Set(t.Context(), "a", redact.New("1")); err != nil {
			t.Errorf("the next call: %v", err)
		}
		if got, err := s.Get(t.Context(), "a"); err != nil || got.Reveal() != "1" {
			t.Errorf("the one after: %q, %v; want 1", got.Reveal(), err)
		}
		if n := s.Parked(); n != 1 {
			t.Errorf("%d calls are parked, want the first still", n)
		}
		dumb.leave() // its caller gets NoReply, so Close finds nothing parked
	})
}

// When the bus goes away under a prompt, go-keyring panics; the daemon lives on.
func TestSecretServiceSessionEndsDuringAPrompt(t *testing.T) {
	onBus(t, func(t *testing.T) {
		dumb := startDumbService(t, true)
		s := open(t, keyring.SystemConfig{Timeout: 20 * time.Second})
		errs := make(chan error)
		go func() { _, err := s.Get(t.Context(), "a"); errs <- err }()
		<-dumb.prompted
		shared, err := dbus.SessionBus() // the connection that go-keyring uses
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, dumb.conn) // the answer to Prompt has left,
		roundTrip(t, shared)    // and has come: now go-keyring waits for a signal
		shared.Close()
		if err := <-errs; !errors.Is(err, keyring.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
		dumb.giveUpName()
		startDaemon(t, "pw")
		if err := s.Set(t.Context(), "a", redact.New("1")); err != nil {
			t.Errorf("on the next connection: %v", err)
		}
	})
}

// Two processes of one installation change the list of names at the same time.
func TestSecretServiceLosesNoNameBetweenProcesses(t *testing.T) {
	onBus(t, func(t *testing.T) {
		const each = 10
		lock := os.Getenv("KEYRING_TEST_LOCK")
		cfg := keyring.SystemConfig{Service: "runnerd/1", LockFile: lock, Timeout: 20 * time.Second}
		if lock != "" {
			s := open(t, cfg)
			for i := range each {
				name := fmt.Sprintf("p%d-%d", os.Getpid(), i)
				if err := s.Set(t.Context(), name, redact.New(name)); err != nil {
					t.Fatal(err)
				}
			}
			return
		}
		startDaemon(t, "pw")
		cfg.LockFile = filepath.Join(t.TempDir(), "keychain.lock")
		var running []*exec.Cmd
		for range 3 {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
			cmd.Env = append(os.Environ(), "KEYRING_TEST_LOCK="+cfg.LockFile)
			cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			running = append(running, cmd)
		}
		for _, cmd := range running {
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		}
		if names, err := open(t, cfg).List(t.Context()); err != nil || len(names) != 3*each {
			t.Errorf("%d names, %v; want %d", len(names), err, 3*each)
		}
	})
}

// A dumbService owns the name of the Secret Service and says nothing, or opens
// a prompt that nobody answers.
type dumbService struct {
	t        *testing.T
	conn     *dbus.Conn
	prompts  bool
	asked    atomic.Bool   // to prompt
	prompted chan struct{} // the answer to that is on its way
	release  chan struct{}
}

const promptPath = dbus.ObjectPath("/org/freedesktop/secrets/prompt/p1")

func startDumbService(t *testing.T, prompts bool) *dumbService {
	t.Helper()
	d := &dumbService{t: t, prompts: prompts, prompted: make(chan struct{}, 1), release: make(chan struct{})}
	d.conn = connect(t, dbus.WithOutgoingInterceptor(func(m *dbus.Message) {
		if m.Type == dbus.TypeMethodReply && d.asked.CompareAndSwap(true, false) {
			d.prompted <- struct{}{}
		}
	}))
	t.Cleanup(func() { close(d.release) })
	for iface, methods := range map[string]map[string]any{
		"org.freedesktop.DBus.Properties": {"Get": d.property},
		"org.freedesktop.Secret.Service":  {"Unlock": d.unlock},
	} {
		if err := d.conn.ExportMethodTable(methods, "/org/freedesktop/secrets", iface); err != nil {
			t.Fatal(err)
		}
	}
	prompt := map[string]any{"Prompt": func(string) *dbus.Error { d.asked.Store(true); return nil }}
	if err := d.conn.ExportMethodTable(prompt, promptPath, "org.freedesktop.Secret.Prompt"); err != nil {
		t.Fatal(err)
	}
	if reply, err := d.conn.RequestName(secrets, dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatal(reply, err)
	}
	return d
}

// property is the first thing that go-keyring asks for.
func (d *dumbService) property(_, _ string) (dbus.Variant, *dbus.Error) {
	if !d.prompts {
		<-d.release
	}
	return dbus.MakeVariant([]dbus.ObjectPath{"/org/freedesktop/secrets/collection/login"}), nil
}

func (d *dumbService) unlock([]dbus.ObjectPath) ([]dbus.ObjectPath, dbus.ObjectPath, *dbus.Error) {
	return nil, promptPath, nil
}

// giveUpName lets another service take its place. What it was asked stays
// unanswered, because it stays on the bus.
func (d *dumbService) giveUpName() {
	d.t.Helper()
	if _, err := d.conn.ReleaseName(secrets); err != nil {
		d.t.Fatal(err)
	}
}

// leave ends its connection.
func (d *dumbService) leave() { d.conn.Close() }
