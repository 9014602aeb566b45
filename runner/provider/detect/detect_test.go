//go:build unix

package detect_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"runnerd/runner/provider/detect"
)

func program(t *testing.T, mode os.FileMode, path ...string) string {
	t.Helper()
	p := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte("#!/bin/sh\n"), mode); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestUD44_AProgramIsFoundWhereItIs(t *testing.T) {
	home, other := t.TempDir(), t.TempDir()
	nvm := program(t, 0o755, home, ".nvm/versions/node/v20.1.0/bin/zz-claude")
	newer := program(t, 0o755, home, ".nvm/versions/node/v22.1.0/bin/zz-codex")
	program(t, 0o755, home, ".nvm/versions/node/v20.1.0/bin/zz-codex")
	local := program(t, 0o755, home, ".local/bin/zz-gemini")
	onPath := program(t, 0o755, other, "zz-gemini")
	program(t, 0o644, other, "zz-plain")
	viaShell := program(t, 0o755, t.TempDir(), "zz-shell")
	shell := filepath.Join(other, "login-shell")
	if err := os.WriteFile(shell, []byte("#!/bin/sh\necho welcome to this machine\nfor a; do :; done\n[ \"$a\" = 'command -v zz-shell' ] && echo "+viaShell+"\n[ \"$a\" = 'command -v zz-alias' ] && echo alias zz-alias=/bin/true\ntrue\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, program, configured, path, want string
	}{
		{"configured path first", "zz-gemini", local, other, local},
		{"configured path that is wrong is an error", "zz-gemini", "/nowhere/zz", other, ""},
		{"PATH before known folders", "zz-gemini", "", other, onPath},
		{"known folder", "zz-gemini", "", "/nowhere", local},
		{"version manager", "zz-claude", "", "", nvm},
		{"newest of a version manager", "zz-codex", "", "", newer},
		{"login shell", "zz-shell", "", "", viaShell},
		{"an alias is no program", "zz-alias", "", "", ""},
		{"not executable", "zz-plain", "", other, ""},
		{"relative PATH entry", "zz-gemini", "", ".", local},
		{"nowhere", "zz-nothing", "", other, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := detect.Finder{Environ: []string{"HOME=" + home, "PATH=" + c.path, "SHELL=" + shell}}
			got, err := f.Find(t.Context(), c.program, c.configured)
			if got != c.want || (c.want == "") != errors.Is(err, detect.ErrNotFound) {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestUD45_ALoginShellThatHangsIsLeftAlone(t *testing.T) {
	shell := filepath.Join(t.TempDir(), "sh")
	if err := os.WriteFile(shell, []byte("#!/bin/sh\nsleep 60\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	_, err := detect.Finder{Environ: []string{"SHELL=" + shell}}.Find(t.Context(), "zz-nothing", "")
	if !errors.Is(err, detect.ErrNotFound) || time.Since(begin) > 2*detect.ShellProbe {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
}
