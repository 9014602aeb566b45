package local_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/runner/local"
)

// daemon is a runner that writes down what it is told.
type daemon struct {
	status local.Status
	told   []string
	hang   chan struct{}
	err    error
}

func (d *daemon) Status() local.Status {
	if d.hang != nil {
		<-d.hang
	}
	return d.status
}

func (d *daemon) note(what string) error {
	d.told = append(d.told, what)
	return d.err
}

func (d *daemon) Pause(context.Context) error  { return d.note("pause") }
func (d *daemon) Resume(context.Context) error { return d.note("resume") }
func (d *daemon) Drain(context.Context) error  { return d.note("drain") }
func (d *daemon) Reload(context.Context) error { return d.note("reload") }
func (d *daemon) Logout(_ context.Context, force bool) error {
	if force {
		return d.note("logout by force")
	}
	return d.note("logout")
}

func folder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// serve runs a daemon's socket until the test ends.
func serve(t *testing.T, dir string, d *daemon) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	l, err := local.Listen(dir, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- local.Serve(ctx, l, d, log) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func TestCommandsReachTheRunner(t *testing.T) {
	dir := folder(t)
	d := &daemon{status: local.Status{RunnerID: "rnr_1", State: "ready", Link: local.Link{State: local.Online}}}
	serve(t, dir, d)
	c := local.Dial(dir)
	got, err := c.Status(t.Context())
	if diff := cmp.Diff(d.status, got); err != nil || diff != "" {
		t.Errorf("status: %v (-want +got):\n%s", err, diff)
	}
	for _, call := range []func(context.Context) error{c.Pause, c.Resume, c.Drain, c.Reload} {
		if err := call(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(c.Logout(t.Context(), false), c.Logout(t.Context(), true)); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"pause", "resume", "drain", "reload", "logout", "logout by force"}, d.told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	d.err = errors.New("the gateway cannot be reached")
	if err := c.Logout(t.Context(), false); err == nil || !strings.Contains(err.Error(), "the gateway cannot be reached") {
		t.Errorf("a refusal comes back as %v", err)
	}
}

func TestUD05ACallEndsWithinFiveSecondsThoughTheRunnerHangs(t *testing.T) {
	dir := folder(t)
	d := &daemon{hang: make(chan struct{})}
	serve(t, dir, d)
	t.Cleanup(func() { close(d.hang) })
	began := time.Now()
	_, err := local.Dial(dir).Status(t.Context())
	if !errors.Is(err, local.ErrHangs) {
		t.Errorf("status of a runner that hangs: %v", err)
	}
	if took := time.Since(began); took > 6*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestNobodyIsRunning(t *testing.T) {
	dir := folder(t)
	if _, err := local.Dial(dir).Status(t.Context()); !errors.Is(err, local.ErrNotRunning) {
		t.Errorf("no socket: %v", err)
	}
	l, err := net.Listen("unix", local.Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // as after a crash
	l.Close()
	if _, err := local.Dial(dir).Status(t.Context()); !errors.Is(err, local.ErrNotRunning) {
		t.Errorf("a crashed runner's socket: %v", err)
	}
	d := &daemon{status: local.Status{State: "ready"}}
	serve(t, dir, d) // takes the leftover's place
	if _, err := local.Dial(dir).Status(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestH10NothingListensOnTheNetworkAndTheSocketIsPrivate(t *testing.T) {
	dir := folder(t)
	l, err := local.Listen(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l.Addr().Network() != "unix" {
		t.Errorf("listens on %s", l.Addr().Network())
	}
	info, err := os.Lstat(local.Path(dir))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	if _, err := local.Listen(dir, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("opened in a folder that others may enter")
	}
	if _, err := local.Dial(dir).Status(t.Context()); err == nil || errors.Is(err, local.ErrNotRunning) {
		t.Errorf("called a socket in a folder that others may enter: %v", err)
	}
}

func TestSocketOfALongPathIsElsewhereAndPrivate(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "")
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if path := local.Path(dir); len(path) > 100 || strings.HasPrefix(path, dir) {
		t.Errorf("path %s", path)
	}
	if local.Path(dir) != local.Path(dir+"/") || local.Path(dir) == local.Path(dir+"x") {
		t.Error("the path does not name the folder")
	}
	serve(t, dir, &daemon{status: local.Status{State: "paused"}})
	if s, err := local.Dial(dir).Status(t.Context()); err != nil || s.State != "paused" {
		t.Errorf("%+v, %v", s, err)
	}
}
