package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestAFolderThatEverybodyMayChangeIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // there are no such modes
	}
	none := func(string) string { return "" }
	for mode, refused := range map[os.FileMode]bool{0o700: false, 0o755: false, 0o770: false, 0o777: true, 0o777 | os.ModeSticky: true, 0o702: true} {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		got, err := Folder(dir, none, "x")
		if refused != (err != nil) || err == nil && got != dir || err != nil && !strings.Contains(err.Error(), "chmod go-w "+dir) {
			t.Errorf("%v: %q, %v", mode, got, err)
		}
		if below := filepath.Join(dir, "new"); refused {
			if got, err := Folder(below, none, "x"); err != nil || got != below {
				t.Errorf("below %v: %q, %v", mode, got, err)
			}
		}
	}
}

func TestTheFolderIsWhereTheSystemKeepsData(t *testing.T) {
	home := t.TempDir()
	got, err := Folder("", func(name string) string { return map[string]string{"HOME": home, "LOCALAPPDATA": home}[name] }, "prog")
	if err != nil || !strings.HasPrefix(got, home) || filepath.Base(got) != "prog" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Folder("", func(string) string { return "" }, "prog"); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("without a home: %v", err)
	}
	if got, err := Folder("relative", func(string) string { return "" }, "prog"); err != nil || !filepath.IsAbs(got) {
		t.Errorf("%q, %v", got, err)
	}
}
