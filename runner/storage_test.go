package runner_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"runnerd/internal/wire"
	"runnerd/runner"
	"runnerd/runner/journal"
)

func TestR18DeletedJournalNeverRunsAnOldFrame(t *testing.T) {
	inWorld(t, func(w *world) {
		release := make(chan struct{})
		w.backend.run = blockUntil(release)
		w.start()
		old := w.gateway.offer("s")
		w.becomes("s", "accepted")
		close(release)
		w.pipe.set(errDown, false)
		w.pipe.reset()
		w.halt()
		if err := os.Remove(filepath.Join(w.dir, "journal")); err != nil {
			t.Fatal(err)
		}
		w.pipe.set(nil, false)
		w.start()
		if s := w.gateway.view("s"); s.state != "lost" {
			t.Errorf("step is %s, want lost: the journal is another", s.state)
		}
		w.gateway.with(func() { w.gateway.steps["s"].state = "offered" }) // a gateway that forgot
		w.pipe.reset()
		pass(time.Minute)
		if last := w.gateway.lastID(); last != "1" || w.backend.ran("s") != 1 {
			t.Errorf("cursor %s, want the gateway's 1; %d turns (%v)", last, w.backend.ran("s"), old.ref)
		}
		w.gateway.offer("next")
		w.becomes("next", "done")
	})
}

func TestS12SecondProcessRefusesToStart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		second, err := runner.New(runner.Config{
			Dir: w.dir, Credentials: w.store, Client: &http.Client{}, Providers: w.backend, Log: w.runnerLog(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Run(w.Context()); !errors.Is(err, journal.ErrInUse) {
			t.Errorf("second Run = %v, want ErrInUse", err)
		}
	})
}

func TestS13FolderThatOthersMayEnterRefusesToStart(t *testing.T) {
	inWorld(t, func(w *world) {
		if err := os.Chmod(w.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		w.launch()
		if err := <-w.ended; !errors.Is(err, journal.ErrPermissions) || !strings.Contains(err.Error(), "chmod 700") {
			t.Errorf("Run = %v, want ErrPermissions with its remedy", err)
		}
		w.stop = nil
	})
}

// tight is a real folder whose files may grow only so far.
type tight struct {
	dir  string
	room *atomic.Int64
}

func (d tight) Open(name string) (journal.File, error) {
	f, err := os.OpenFile(filepath.Join(d.dir, name), os.O_RDWR|os.O_CREATE, 0o600)
	return tightFile{f, d.room}, err
}
func (d tight) Rename(a, b string) error {
	return os.Rename(filepath.Join(d.dir, a), filepath.Join(d.dir, b))
}
func (d tight) Remove(name string) error { return os.Remove(filepath.Join(d.dir, name)) }
func (d tight) Sync() error              { return nil }

type tightFile struct {
	*os.File
	room *atomic.Int64
}

func (f tightFile) WriteAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.room.Load() {
		return 0, syscall.ENOSPC
	}
	return f.File.WriteAt(p, off)
}

func (f tightFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func TestS02FullDiskMeansNoNewStepsUntilThereIsRoom(t *testing.T) {
	inWorld(t, func(w *world) {
		var room atomic.Int64
		room.Store(512 << 10)
		w.change = func(cfg *runner.Config) {
			cfg.Journal = journal.Options{Disk: tight{w.dir, &room}}
		}
		w.start()
		w.gateway.offer("s")
		if s := w.becomes("s", "refused"); s.refusal.Code != wire.CodeBusy || !strings.Contains(s.refusal.Message, "room") {
			t.Errorf("refused with %+v", s.refusal)
		}
		pass(time.Minute)
		if r := w.lastReport(); r.Capacity.Free != 0 || r.Capacity.Max == 0 {
			t.Errorf("capacity %+v with a full disk", r.Capacity)
		}
		room.Store(64 << 20)
		pass(time.Minute)
		if r := w.lastReport(); r.Capacity.Free == 0 {
			t.Errorf("capacity %+v though there is room again", r.Capacity)
		}
		w.gateway.offer("s2")
		w.becomes("s2", "done")
	})
}

func TestS06DamagedResultIsNotDelivered(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answer(http.MethodPost, "/results", portal)
		w.start()
		w.gateway.offer("s")
		w.becomes("s", "accepted")
		w.until("finished", func() bool { return w.runner.Status().Outbox.Pending == 1 })
		path := filepath.Join(w.dir, "journal")
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		i := strings.Index(string(b), "done s")
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil || i < 0 {
			t.Fatal(i, err)
		}
		if _, err := f.WriteAt([]byte{b[i] ^ 1}, int64(i)); err != nil {
			t.Fatal(err)
		}
		f.Close()
		w.answer("", "", nil)
		if s := w.becomes("s", "done"); code(t, s.result) != wire.CodeOutcomeUnknown {
			t.Errorf("delivered %s", s.result)
		}
	})
}
