//go:build unix

package sqlite

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFilesArePrivate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "gateway.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil { // somebody made it before, for all to read
		t.Fatal(err)
	}
	s := mustOpen(t, path, Options{})
	defer s.Close()
	if err := s.Update(t.Context(), begin("r1")); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 4 {
		t.Fatalf("files %q (%v)", files, err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v)", f, info.Mode(), err)
		}
	}
}
