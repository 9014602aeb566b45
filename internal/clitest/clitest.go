package clitest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// environ is the program by which start learns the environment that a script has made: testscript does not show it.
const environ = "clitest-environ"

// Main is a test binary's main function: it is the test, or one of the programs when a script runs one.
func Main(m *testing.M, programs map[string]func()) {
	programs[environ] = func() {
		if err := json.NewEncoder(os.Stdout).Encode(os.Environ()); err != nil {
			panic(err)
		}
	}
	testscript.Main(m, programs)
}

// A Command is one that scripts of a package have besides those of all.
type Command = func(ts *testscript.TestScript, neg bool, args []string)

// Run runs every script of testdata/script. prepare, if given, adds to a script's environment.
func Run(t *testing.T, prepare func(*testscript.Env) error, more map[string]Command) {
	t.Helper()
	commands := map[string]Command{
		"exits": exits, "start": start, "await": await, "until": until, "ends": ends, "json": members, "jsonlines": jsonLines, "empty": empty,
		"interrupt": signals(os.Interrupt), "terminate": signals(terminate),
	}
	maps.Copy(commands, more)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"), RequireUniqueNames: true, RequireExplicitExec: true, Cmds: commands,
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			e.Setenv("HOME", home)
			e.Setenv("USERPROFILE", home)
			e.Setenv("GORACE", "atexit_sleep_ms=0") // else each program sleeps for a second as it ends
			e.Setenv("RUNNERD_OLLAMA_URL", "-")     // not the developer's
			e.Values[jobsKey{}] = map[string]*job{}
			e.Defer(func() {
				for _, name := range append(entries(home), entries(filepath.Join(e.WorkDir, ".tmp"))...) {
					e.T().(testing.TB).Errorf("written outside of --data, and left: %s", name)
				}
			})
			if err := os.Mkdir(home, 0o700); err != nil {
				return err
			}
			if prepare == nil {
				return nil
			}
			return prepare(e)
		},
	})
}

// entries lists what is in a folder and below.
func entries(dir string) (names []string) {
	_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error { // a folder that is not there is empty
		if err == nil && path != dir {
			names = append(names, path)
		}
		return nil
	})
	return names
}

// empty fails when there is something in a folder; ! empty when there is nothing.
func empty(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: empty FOLDER...")
	}
	for _, dir := range args {
		if found := entries(ts.MkAbs(dir)); (len(found) == 0) == neg {
			ts.Fatalf("in %s there is %v", dir, found)
		}
	}
}
