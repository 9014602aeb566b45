package cli

import (
	"errors"
	"path/filepath"
	"runtime"
)

// DataDir is where a program keeps what is its own unless --data names another folder: the system's usual place for a
// person's application data.
func DataDir(getenv func(string) string, program string) (string, error) {
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
