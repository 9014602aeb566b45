//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd && !windows

package keyring

import (
	"errors"
	"io/fs"
	"os"
)

func tryLock(*os.File) (bool, error)         { return false, errors.ErrUnsupported }
func checkPrivate(string, fs.FileInfo) error { return errors.ErrUnsupported }
func openNow(string) (*os.File, error)       { return nil, errors.ErrUnsupported }
func moveOver(from, to, folder string) error { return errors.ErrUnsupported }
