package local_test

import (
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"runnerd/internal/testdep"
	"runnerd/runner/local"
)

// TestH11 runs itself as another user. Even where the folder's mode would let that one in, the caller's identity does not.
func TestH11AnotherUserIsTurnedAway(t *testing.T) {
	if path := os.Getenv("TEST_H11_SOCKET"); path != "" {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err) // the way is open: only the identity is left
		}
		defer c.Close()
		_, _ = io.WriteString(c, "GET /status HTTP/1.1\r\nHost: runner\r\n\r\n")
		if b, _ := io.ReadAll(c); len(b) > 0 {
			t.Fatalf("another user was answered: %s", b)
		}
		t.Log("TURNED AWAY")
		return
	}
	if os.Geteuid() != 0 {
		testdep.Missing(t, "the right to become another user")
	}
	dir := folder(t)
	serve(t, dir, &daemon{status: local.Status{State: "ready"}})
	path := local.Path(dir)
	for d := dir; len(d) > len(os.TempDir()); d = d[:strings.LastIndexByte(d, '/')] { // open the way, against all advice
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := "/tmp/h11-" + strings.ReplaceAll(t.Name(), "/", "-")
	b, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(program, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(program)
	c := exec.CommandContext(t.Context(), program, "-test.run", "^TestH11AnotherUserIsTurnedAway$", "-test.v")
	c.Env, c.Dir = []string{"TEST_H11_SOCKET=" + path}, "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "TURNED AWAY") {
		t.Errorf("as another user: %v\n%s", err, out)
	}
}
