package keyring

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// noBus takes the session bus away, and puts a dbus-launch into the path that
// leaves a trace. It returns where the trace would be.
func noBus(t *testing.T) (trace string) {
	t.Helper()
	dir := t.TempDir()
	trace = filepath.Join(dir, "launched")
	script := "#!/bin/sh\n: > " + trace + "\necho DBUS_SESSION_BUS_ADDRESS=unix:path=/nowhere\n"
	if err := os.WriteFile(filepath.Join(dir, "dbus-launch"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	t.Setenv("XDG_RUNTIME_DIR", dir)
	return trace
}

// Without a session bus the answer comes at once and nothing is started (UD-59).
func TestSystemWithoutSessionBus(t *testing.T) {
	trace := noBus(t)
	b := osBackend("runnerd/1").(goKeyring)
	b.reach = func() error { return findBus(t.TempDir()) } // a desktop has one in /run/user
	s := newSystem(SystemConfig{Service: "runnerd/1"}, b, osLimits())
	begin := time.Now()
	_, err := s.List(t.Context())
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "no D-Bus session bus") ||
		!strings.Contains(err.Error(), "--credential-store file") {
		t.Errorf("got %v, want ErrUnavailable with the remedy", err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("noticed after %v, want 2s at most", took)
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("dbus-launch was run")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// An address behind which there is no bus is as good as none.
func TestSystemWithDeadSessionBus(t *testing.T) {
	noBus(t)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "gone"))
	s, err := NewSystem(SystemConfig{Service: "runnerd/1"})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if _, err := s.List(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("noticed after %v, want 2s at most", took)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestFindBusLooksWhereBusesAre(t *testing.T) {
	socket := func(t *testing.T, dir string) {
		l, err := net.Listen("unix", filepath.Join(dir, "bus"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T, userDir, runtimeDir string)
		address string // what the environment says afterwards, for godbus to read; % is the runtime folder
		found   bool
	}{
		"nowhere": {func(*testing.T, string, string) {}, "", false},
		"in the environment": {func(t *testing.T, _, _ string) {
			t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/x")
		}, "unix:path=/x", true},
		"to be launched": {func(t *testing.T, _, _ string) {
			t.Setenv("DBUS_SESSION_BUS_ADDRESS", "autolaunch:")
		}, "autolaunch:", false},
		"in the user's folder": {func(t *testing.T, u, _ string) { socket(t, u) }, "", true},
		"in XDG_RUNTIME_DIR":   {func(t *testing.T, _, r string) { socket(t, r) }, "unix:path=%/bus", true},
		"a file is not a socket": {func(t *testing.T, _, r string) {
			if err := os.WriteFile(filepath.Join(r, "bus"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			noBus(t)
			userDir, runtimeDir := short(t), short(t)
			t.Setenv("XDG_RUNTIME_DIR", runtimeDir)
			c.prepare(t, userDir, runtimeDir)
			if err := findBus(userDir); (err == nil) != c.found {
				t.Errorf("got %v, want found %v", err, c.found)
			}
			want := strings.ReplaceAll(c.address, "%", dbus.EscapeBusAddressValue(runtimeDir))
			if got := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); got != want {
				t.Errorf("address %q, want %q", got, want)
			}
		})
	}
}

// short makes a folder whose name leaves room for a socket's.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestClassifyDBusNamesErrors(t *testing.T) {
	named := func(name string) error { return dbus.Error{Name: name, Body: []any{"the text"}} }
	for name, c := range map[string]struct{ got, want error }{
		"locked item":          {named("org.freedesktop.Secret.Error.IsLocked"), ErrLocked},
		"access denied":        {named("org.freedesktop.DBus.Error.AccessDenied"), ErrLocked},
		"dismissed":            {fmt.Errorf("failed to unlock correct collection '%v'", "/x"), ErrLocked},
		"no collection":        {named("org.freedesktop.Secret.Error.NoSuchObject"), ErrUnavailable},
		"no service":           {named("org.freedesktop.DBus.Error.ServiceUnknown"), ErrUnavailable},
		"service cannot start": {named("org.freedesktop.DBus.Error.Spawn.ChildExited"), ErrUnavailable},
		"service died":         {named("org.freedesktop.DBus.Error.NoReply"), ErrUnavailable},
		"bus closed":           {dbus.ErrClosed, ErrUnavailable},
	} {
		if err := classifyDBus(c.got); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}
