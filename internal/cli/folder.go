package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Folder is where a program keeps what is its own: the folder that --data names, else the system's place for it. One that exists and that
// everybody may write to is refused, because others could put a store or a socket of theirs in the place of ours, whatever
// mode our files have. It is not closed by itself: it may be one like /tmp, which others need.
func Folder(named string, getenv func(string) string, program string) (dir string, err error) {
	if named != "" {
		dir, err = filepath.Abs(named)
	} else {
		dir, err = dataDir(getenv, program)
	}
	if err != nil {
		return "", err
	}
	const everybody = 0o002
	info, err := os.Stat(dir)
	if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&everybody != 0 { // Windows has no such bits
		return "", fmt.Errorf("data folder %s has mode %#o: everybody may change what is in it; run `chmod go-w %[1]s`, or name a folder below it", dir, info.Mode().Perm())
	}
	return dir, nil
}

// dataDir is where a program keeps what is its own unless --data names another folder: the system's usual place for a
// person's application data.
func dataDir(getenv func(string) string, program string) (string, error) {
	base, home := "", getenv("HOME")
	switch runtime.GOOS {
	case "windows":
		base = getenv("LOCALAPPDATA")
	case "darwin":
		if home != "" {
			base = filepath.Join(home, "Library", "Application Support")
		}
	default:
		if base = getenv("XDG_DATA_HOME"); base == "" && home != "" {
			base = filepath.Join(home, ".local", "share")
		}
	}
	if base == "" {
		return "", errors.New("there is no home folder to keep data in: name a folder with --data")
	}
	return filepath.Join(base, program), nil
}
