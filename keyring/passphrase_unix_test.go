//go:build unix

package keyring_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"runnerd/keyring"
)

func TestReadPassphraseFile(t *testing.T) {
	dir := t.TempDir()
	write := func(t *testing.T, content string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), "pass")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // past the umask
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct {
		path    func(*testing.T) string
		want    string
		wantErr string
	}{
		"one newline goes":     {func(t *testing.T) string { return write(t, "two words\n", 0o600) }, "two words", ""},
		"a Windows ending too": {func(t *testing.T) string { return write(t, "word\r\n", 0o600) }, "word", ""},
		"one only":             {func(t *testing.T) string { return write(t, "word\n\n", 0o600) }, "word\n", ""},
		"none is needed":       {func(t *testing.T) string { return write(t, " word ", 0o600) }, " word ", ""},
		"read-only is enough":  {func(t *testing.T) string { return write(t, "word", 0o400) }, "word", ""},
		"by a link": {func(t *testing.T) string {
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(write(t, "word", 0o600), link); err != nil {
				t.Fatal(err)
			}
			return link
		}, "word", ""},
		"empty":           {func(t *testing.T) string { return write(t, "", 0o600) }, "", "it is empty"},
		"a newline":       {func(t *testing.T) string { return write(t, "\n", 0o600) }, "", "it is empty"},
		"open to a group": {func(t *testing.T) string { return write(t, "word", 0o640) }, "", "chmod go="},
		"open to others":  {func(t *testing.T) string { return write(t, "word", 0o604) }, "", "chmod go="},
		"written by any":  {func(t *testing.T) string { return write(t, "word", 0o602) }, "", "chmod go="},
		"too large":       {func(t *testing.T) string { return write(t, strings.Repeat("w", 4097), 0o600) }, "", "larger than 4096"},
		"missing":         {func(*testing.T) string { return filepath.Join(dir, "missing") }, "", "no such file"},
		"a folder":        {func(*testing.T) string { return dir }, "", "not a regular file"},
		"a pipe without a writer": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "pipe")
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, "", "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			path := c.path(t)
			got, err := keyring.ReadPassphraseFile(path)
			if c.wantErr == "" {
				if err != nil || got.Reveal() != c.want {
					t.Errorf("got %q, %v; want %q", got.Reveal(), err, c.want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.wantErr) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %q and the path", err, c.wantErr)
			}
			if got.Reveal() != "" || err != nil && strings.Contains(err.Error(), "word") {
				t.Errorf("a refused file gave %q, %v", got.Reveal(), err)
			}
		})
	}
}

func TestReadPassphraseFileOfSomebodyElse(t *testing.T) {
	path, owner := "/etc/passwd", "user 0"
	if os.Geteuid() == 0 { // who can give a file away
		path, owner = filepath.Join(t.TempDir(), "pass"), "user 12345"
		if err := os.WriteFile(path, []byte("word"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := keyring.ReadPassphraseFile(path); err == nil || !strings.Contains(err.Error(), "belongs to "+owner) {
		t.Errorf("got %v, want a refusal", err)
	}
}
