package keyring_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"runnerd/internal/redact"
	"runnerd/keyring"
	"runnerd/keyring/keyringtest"
)

// openFile opens the store in folder with a work factor that costs nothing.
func openFile(t *testing.T, folder, passphrase string) (*keyring.File, error) {
	return keyring.OpenFile(t.Context(), keyring.FileConfig{
		Folder: folder, Passphrase: redact.New(passphrase), WorkFactor: 8, Timeout: time.Minute,
	})
}

func mustOpenFile(t *testing.T, folder, passphrase string) *keyring.File {
	t.Helper()
	f, err := openFile(t, folder, passphrase)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFileKeepsThePromises(t *testing.T) {
	keyringtest.Run(t, func(t *testing.T) keyring.Keyring {
		return mustOpenFile(t, filepath.Join(t.TempDir(), "keyring"), "pass")
	})
}

func TestFileIsThereForTheNextToOpenIt(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "keyring")
	first := mustOpenFile(t, folder, "pass")
	if err := first.Set(t.Context(), "a", redact.New("1")); err != nil {
		t.Fatal(err)
	}
	second := mustOpenFile(t, folder, "pass")
	if got, err := second.Get(t.Context(), "a"); err != nil || got.Reveal() != "1" {
		t.Fatalf("got %q, %v; want 1", got.Reveal(), err)
	}
	if err := second.Set(t.Context(), "a", redact.New("2")); err != nil {
		t.Fatal(err)
	}
	if got, err := first.Get(t.Context(), "a"); err != nil || got.Reveal() != "2" {
		t.Errorf("the first sees %q, %v; want 2", got.Reveal(), err)
	}
}

func TestFileRefusesWrongPassphrase(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "keyring")
	mustOpenFile(t, folder, "pass")
	before := contents(t, folder)
	for _, word := range []string{"Pass", "pass ", ""} {
		if _, err := openFile(t, folder, word); !errors.Is(err, keyring.ErrPassphrase) {
			t.Errorf("%q: got %v, want ErrPassphrase", word, err)
		}
	}
	if !slices.Equal(before, contents(t, folder)) {
		t.Error("a wrong passphrase changed the files")
	}
}

// Nothing that lies in the folder, ever, shows a value, a name or the passphrase.
func TestFileIsNeverPlain(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "keyring")
	f := mustOpenFile(t, folder, "canary-passphrase")
	if err := f.Set(t.Context(), "canary-name", redact.New("canary-value")); err != nil {
		t.Fatal(err)
	}
	for _, file := range contents(t, folder) {
		for _, plain := range []string{"canary", "Y2FuYXJ5", "AGE-SECRET", "age1"} {
			if strings.Contains(file, plain) {
				t.Errorf("the folder holds %s in the clear", plain)
			}
		}
	}
}

func TestFileIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("modes mean nothing on Windows")
		return
	}
	folder := filepath.Join(t.TempDir(), "keyring")
	f := mustOpenFile(t, folder, "pass")
	if err := f.Set(t.Context(), "a", redact.New("1")); err != nil {
		t.Fatal(err)
	}
	want := map[string]fs.FileMode{".": 0o700, "keyring.age": 0o600, "keyring.key.age": 0o600, "keyring.lock": 0o600}
	for name, mode := range want {
		path := filepath.Join(folder, name)
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode().Perm() != mode {
			t.Errorf("%s has mode %v, want %v", name, fi.Mode().Perm(), mode)
		}
		if name == "keyring.lock" {
			continue
		}
		if err := os.Chmod(path, mode|0o040); err != nil {
			t.Fatal(err)
		}
		reopened, err := openFile(t, folder, "pass")
		if err == nil {
			_, err = reopened.Get(t.Context(), "a")
		}
		if err == nil || !strings.Contains(err.Error(), "chmod go= "+path) {
			t.Errorf("%s open to its group: got %v, want the command that closes it", name, err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever happens to a file, it is named and stays as it is.
func TestFileReportsDamageAndOverwritesNothing(t *testing.T) {
	cut := func(b []byte) []byte { return b[:len(b)/2] }
	flip := func(b []byte) []byte { b[len(b)-3] ^= 1; return b }
	for name, c := range map[string]struct {
		file   string
		damage func([]byte) []byte
		want   error
	}{
		"values cut":     {"keyring.age", cut, keyring.ErrCorrupt},
		"values flipped": {"keyring.age", flip, keyring.ErrCorrupt},
		"values empty":   {"keyring.age", func([]byte) []byte { return nil }, keyring.ErrCorrupt},
		"values foreign": {"keyring.age", func([]byte) []byte { return []byte("hello") }, keyring.ErrCorrupt},
		"values large":   {"keyring.age", func([]byte) []byte { return make([]byte, 9<<20) }, nil},
		"key cut":        {"keyring.key.age", cut, keyring.ErrCorrupt},
		"key flipped":    {"keyring.key.age", flip, keyring.ErrCorrupt},
		"key empty":      {"keyring.key.age", func([]byte) []byte { return nil }, keyring.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "keyring")
			f := mustOpenFile(t, folder, "pass")
			if err := f.Set(t.Context(), "a", redact.New("1")); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(folder, c.file)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			data = c.damage(bytes.Clone(data))
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err = openFile(t, folder, "pass")
			errs := []error{err}
			if err == nil {
				_, get := f.Get(t.Context(), "a")
				_, list := f.List(t.Context())
				errs = []error{get, list, f.Set(t.Context(), "b", redact.New("2")), f.Delete(t.Context(), "a")}
			}
			for _, err := range errs {
				if err == nil || !strings.Contains(err.Error(), path) || c.want != nil && !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v naming %s", err, c.want, path)
				}
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, data) {
				t.Errorf("the damaged file was changed (%v)", err)
			}
		})
	}
}

func TestFileDoesNotReplaceALostKey(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "keyring")
	f := mustOpenFile(t, folder, "pass")
	if err := f.Set(t.Context(), "a", redact.New("1")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(folder, "keyring.key.age")); err != nil {
		t.Fatal(err)
	}
	if _, err := openFile(t, folder, "pass"); !errors.Is(err, keyring.ErrCorrupt) {
		t.Errorf("got %v, want ErrCorrupt", err)
	}
	if _, err := os.Stat(filepath.Join(folder, "keyring.key.age")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a new key was made (%v)", err)
	}
}

func TestFileDropsWhatAnInterruptedWriteLeft(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "keyring")
	mustOpenFile(t, folder, "pass")
	left := filepath.Join(folder, "keyring.age.new-123")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustOpenFile(t, folder, "pass")
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there (%v)", err)
	}
}

// TestFileLosesNothingBetweenProcesses runs itself in several processes, which
// write to one store at the same time; the first to come makes the key.
func TestFileLosesNothingBetweenProcesses(t *testing.T) {
	const processes, each = 4, 8
	if folder := os.Getenv("KEYRING_TEST_FOLDER"); folder != "" {
		f := mustOpenFile(t, folder, "pass")
		for i := range each {
			name := fmt.Sprintf("p%s-%d", os.Getenv("KEYRING_TEST_PROCESS"), i)
			if err := f.Set(t.Context(), name, redact.New(name)); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	folder := filepath.Join(t.TempDir(), "keyring")
	var running []*exec.Cmd
	for p := range processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFileLosesNothingBetweenProcesses$")
		cmd.Env = append(os.Environ(), "KEYRING_TEST_FOLDER="+folder, fmt.Sprint("KEYRING_TEST_PROCESS=", p))
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
	names, err := mustOpenFile(t, folder, "pass").List(t.Context())
	if err != nil || len(names) != processes*each {
		t.Errorf("%d names, %v; want %d", len(names), err, processes*each)
	}
}

// TestFileSurvivesKilledWriters kills a process that writes without a pause,
// which is itself. What it was told is stored must be there, and readable.
func TestFileSurvivesKilledWriters(t *testing.T) {
	if folder := os.Getenv("KEYRING_TEST_FOLDER"); folder != "" {
		f := mustOpenFile(t, folder, "pass")
		for i := 0; ; i++ {
			if err := f.Set(t.Context(), "count", redact.New(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			fmt.Println("stored", i)
		}
	}
	folder := filepath.Join(t.TempDir(), "keyring")
	for round := range 8 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFileSurvivesKilledWriters$")
		cmd.Env = append(os.Environ(), "KEYRING_TEST_FOLDER="+folder)
		cmd.Stderr = t.Output()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		told := -1
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, err := fmt.Sscanf(lines.Text(), "stored %d", &told); err != nil {
				t.Fatalf("%q: %v", lines.Text(), err)
			}
			if told >= 3*round {
				_ = cmd.Process.Kill() // wherever it is in the next; what it has said is still read
			}
		}
		_ = cmd.Wait()
		got, err := mustOpenFile(t, folder, "pass").Get(t.Context(), "count")
		if err != nil {
			t.Fatal(err)
		}
		if stored, err := strconv.Atoi(got.Reveal()); err != nil || stored < told || stored > told+1 {
			t.Errorf("round %d: %q is stored after %d was reported", round, got.Reveal(), told)
		}
	}
	if left, err := filepath.Glob(filepath.Join(folder, "*.new-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// contents returns every file below folder.
func contents(t *testing.T, folder string) []string {
	t.Helper()
	var all []string
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(folder, path))
		all = append(all, path+"\n"+string(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
