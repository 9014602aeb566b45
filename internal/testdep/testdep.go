// Package testdep finds the outside programs that tests need: a browser, vendors' command lines. A missing one skips the test
// on a laptop and fails it when CI is set, so that no part goes untested unseen.
package testdep

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// NPM is the folder where `make test` installs the vendors' command lines: $RUNNERD_TEST_NPM, or runnerd-test/npm in the
// user's cache folder.
func NPM() string {
	if dir := os.Getenv("RUNNERD_TEST_NPM"); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "runnerd-test", "npm")
}

// CLI gives the path of a vendor's command line.
func CLI(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(NPM(), "node_modules", ".bin", name)
	if _, err := os.Stat(path); err != nil {
		Missing(t, name+" from npm (make test installs it)")
	}
	return path
}

// Program gives the path of a program on PATH.
func Program(t testing.TB, name, hint string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name+" ("+hint+")")
	}
	return path
}

// Missing ends the test: skipped on a laptop, failed in CI.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal("missing in CI: " + what)
	}
	t.Skip("missing here: " + what)
}
