package e2e

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"
	"time"

	"runnerd/internal/testdep"
)

// keychain starts a real Secret Service on a bus of its own and gives the environment that leads to it.
func keychain(t testing.TB) []string {
	t.Helper()
	home := t.TempDir()
	environ := env(home, "XDG_RUNTIME_DIR="+t.TempDir())
	bus := exec.Command(testdep.Program(t, "dbus-daemon", "Debian's package dbus"), "--session", "--nofork", "--print-address=1")
	bus.Env = environ
	out, err := bus.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	background(t, bus)
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("dbus-daemon: %v", err)
	}
	environ = append(environ, "DBUS_SESSION_BUS_ADDRESS="+strings.TrimSpace(address))
	ring := exec.Command(testdep.Program(t, "gnome-keyring-daemon", "Debian's package gnome-keyring"), "--unlock", "--components=secrets", "--foreground")
	ring.Env, ring.Stdin = environ, strings.NewReader("a passphrase")
	background(t, ring)
	eventually(t, 20*time.Second, "the keychain answers", func() bool {
		ask := exec.Command(program(t, "runnerd"), "credential", "list", "--data", home+"/probe", "--credential-store", "system")
		ask.Env = environ
		return ask.Run() == nil
	})
	return environ
}

func background(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
}
