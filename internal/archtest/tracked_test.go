package archtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// needles are texts that only the machine of an author could have put into a file. They are put together here, so that this
// file holds none of them. What is too short or too common to mean one machine is left out.
func needles(t testing.TB) []string {
	found := []string{"/wo" + "rk/main", "/wo" + "rk/shared", "/wo" + "rk/.", "/ro" + "ot/", "registry" + ".npmjs", "proxy" + ".golang.org"}
	top := moduleRoot(t)
	home, _ := os.UserHomeDir()
	for _, s := range []string{top, home + string(filepath.Separator)} {
		if len(s) > 5 {
			found = append(found, s)
		}
	}
	return found
}

func TestNoTrackedTextNamesAPathOfThisMachine(t *testing.T) {
	looked := 0
	for _, name := range tracked(t) {
		text, err := os.ReadFile(filepath.Join(moduleRoot(t), filepath.FromSlash(name)))
		if err != nil || !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
			continue // deleted and not yet committed, or no text
		}
		looked++
		for _, line := range machinePaths(string(text), needles(t)) {
			t.Errorf("%s: %s", name, line)
		}
	}
	if looked == 0 {
		t.Error("no file was looked at")
	}
}

// machinePaths returns the lines of text that hold a needle.
func machinePaths(text string, needles []string) (found []string) {
	for line := range strings.Lines(text) {
		if slices.ContainsFunc(needles, func(n string) bool { return strings.Contains(line, n) }) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// tracked lists what git tracks, or every Go file where there is no git.
func tracked(t *testing.T) (names []string) {
	cmd := exec.Command("git", "ls-files", "-z")
	cmd.Dir = moduleRoot(t)
	if out, err := cmd.Output(); err == nil && len(out) > 0 {
		return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	}
	for _, s := range sources(t) {
		names = append(names, s.path)
	}
	return names
}
