// Package detect finds a vendor's program on this machine, also when the daemon was started with a bare PATH (UD-44): the
// configured path, then PATH, then the folders where installers put such programs, then one question to the login shell.
package detect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// ShellProbe is how long the login shell may take to answer.
const ShellProbe = 3 * time.Second

// ErrNotFound says that the program is nowhere; its text lists where was looked.
var ErrNotFound = errors.New("not found")

// A Finder looks for programs. Its members are what it needs of the process.
type Finder struct {
	Environ []string
}

// Find returns the absolute path of a real, executable file.
func (f Finder) Find(ctx context.Context, name, configured string) (string, error) {
	if configured != "" {
		if err := executable(configured); err != nil {
			return "", fmt.Errorf("%w: the configured path %s: %w", ErrNotFound, configured, err)
		}
		return configured, nil
	}
	var looked []string
	for _, dir := range append(filepath.SplitList(f.get("PATH")), f.known()...) {
		if !filepath.IsAbs(dir) {
			continue // a relative entry would run what lies in the working folder
		}
		looked = append(looked, dir)
		for _, ext := range extensions() {
			if p := filepath.Join(dir, name+ext); executable(p) == nil {
				return p, nil
			}
		}
	}
	if p := f.askShell(ctx, name); p != "" {
		return p, nil
	}
	return "", fmt.Errorf("%w: %s is not in %s", ErrNotFound, name, strings.Join(looked, ", "))
}

func (f Finder) get(name string) string {
	for _, kv := range f.Environ {
		if k, v, _ := strings.Cut(kv, "="); k == name || runtime.GOOS == "windows" && strings.EqualFold(k, name) {
			return v
		}
	}
	return ""
}

// known are the folders of installers, the newest version of a version manager first.
func (f Finder) known() []string {
	home := f.get("HOME")
	if runtime.GOOS == "windows" {
		home = f.get("USERPROFILE")
		return []string{
			filepath.Join(home, ".local", "bin"),
			filepath.Join(f.get("APPDATA"), "npm"),
			filepath.Join(f.get("LOCALAPPDATA"), "Programs"),
			filepath.Join(home, "scoop", "shims"),
		}
	}
	dirs := []string{
		filepath.Join(home, ".local", "bin"), filepath.Join(home, ".claude", "local"), filepath.Join(home, ".npm-global", "bin"),
		filepath.Join(home, ".bun", "bin"), filepath.Join(home, ".volta", "bin"), filepath.Join(home, "bin"),
		"/opt/homebrew/bin", "/usr/local/bin", "/usr/bin", "/snap/bin",
	}
	for _, pattern := range []string{".nvm/versions/node/*/bin", ".local/share/fnm/node-versions/*/installation/bin"} {
		found, err := filepath.Glob(filepath.Join(home, pattern))
		if err != nil {
			continue // the pattern is fixed; a strange home is not worth an error
		}
		for i := len(found) - 1; i >= 0; i-- {
			dirs = append(dirs, found[i])
		}
	}
	return dirs
}

// askShell asks the user's login shell once, and believes only an absolute path of a real file: an alias or a function is
// not a program.
func (f Finder) askShell(ctx context.Context, name string) string {
	shell := f.get("SHELL")
	if runtime.GOOS == "windows" || !filepath.IsAbs(shell) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, ShellProbe)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell, "-lc", "command -v "+name)
	cmd.Env = f.Environ
	cmd.WaitDelay = 100 * time.Millisecond
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	lines := strings.Fields(string(out))
	if len(lines) == 0 {
		return ""
	}
	if p := lines[len(lines)-1]; filepath.IsAbs(p) && executable(p) == nil {
		return p
	}
	return ""
}

func extensions() []string {
	if runtime.GOOS == "windows" {
		return []string{".exe", ".cmd"}
	}
	return []string{""}
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fs.ErrInvalid
	case runtime.GOOS != "windows" && info.Mode()&0o111 == 0:
		return fs.ErrPermission
	}
	return nil
}
