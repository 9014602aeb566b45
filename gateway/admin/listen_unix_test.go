//go:build unix

package admin

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// serveOnce answers the next connection with a word.
func serveOnce(t *testing.T, l net.Listener) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			t.Errorf("accept: %v", err)
			return
		}
		_, err = conn.Write([]byte("hello"))
		if err := errors.Join(err, conn.Close()); err != nil {
			t.Errorf("answer: %v", err)
		}
	}()
	t.Cleanup(func() { <-done })
}

func greet(t *testing.T, dir string) string {
	t.Helper()
	conn, err := Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSocketIsReachedAndGoesWithItsListener(t *testing.T) {
	deep := t.TempDir()
	for len(deep) < 300 {
		deep = filepath.Join(deep, strings.Repeat("d", 40))
	}
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", "/tmp") // the folders of tests are long ones
	for name, dir := range map[string]string{"short": t.TempDir(), "long": deep} {
		t.Run(name, func(t *testing.T) {
			if _, err := Dial(t.Context(), dir); !errors.Is(err, ErrNotServing) {
				t.Fatalf("before: %v, want ErrNotServing", err)
			}
			l, err := Listen(t.Context(), dir, quiet())
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Lstat(filepath.Join(dir, SocketName))
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
			}
			serveOnce(t, l)
			if got := greet(t, dir); got != "hello" {
				t.Errorf("got %q", got)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			left, err := os.ReadDir(dir)
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestSecondGatewayIsRefused(t *testing.T) {
	dir := t.TempDir()
	l, err := Listen(t.Context(), dir, quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Listen(t.Context(), dir, quiet()); !errors.Is(err, ErrServing) {
		t.Errorf("got %v, want ErrServing", err)
	}
}

func TestSocketOfADeadGatewayIsReplaced(t *testing.T) {
	dir := t.TempDir()
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, SocketName), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), dir); !errors.Is(err, ErrNotServing) {
		t.Errorf("dial: %v, want ErrNotServing", err)
	}
	l, err := Listen(t.Context(), dir, quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	serveOnce(t, l)
	if got := greet(t, dir); got != "hello" {
		t.Errorf("got %q", got)
	}
}

func TestALaterGatewaysSocketIsNotRemovedByAnEarlierOne(t *testing.T) {
	dir := t.TempDir()
	first, err := Listen(t.Context(), dir, quiet())
	if err != nil {
		t.Fatal(err)
	}
	second, err := listenAt(socketPath(dir)) // as if the first had not answered in time
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if conn, err := Dial(t.Context(), dir); err != nil {
		t.Errorf("the second cannot be reached: %v", err)
	} else if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

func TestOnlyTheOwnerAndRootMayConnect(t *testing.T) {
	for _, row := range []struct {
		uid, own int
		want     bool
	}{{1000, 1000, true}, {0, 1000, true}, {1001, 1000, false}, {1000, 0, false}, {-1, 1000, false}} {
		if got := mayConnect(row.uid, row.own); got != row.want {
			t.Errorf("user %d at a gateway of user %d: %v, want %v", row.uid, row.own, got, row.want)
		}
	}
}

func TestKernelSaysWhoThePeerIs(t *testing.T) {
	dir := t.TempDir()
	l, err := listenAt(socketPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	peer, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	if uid, err := peerUser(peer); err != nil || uid != os.Getuid() {
		t.Errorf("got user %d, %v; want %d", uid, err, os.Getuid())
	}
}
