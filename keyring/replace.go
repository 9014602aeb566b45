package keyring

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Decision: not renameio, which does not sync the folder and refuses Windows;
// what is left of it is shorter than working around that.

// tempMark follows the name of a file in the name of its successor.
const tempMark = ".new-"

// replaceFile makes data the content of path, or leaves path as it was,
// whenever the machine stops. The caller holds the lock of the folder.
func replaceFile(path string, data []byte) (err error) {
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, filepath.Base(path)+tempMark+"*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return moveOver(f.Name(), path, folder)
}

// dropTemps removes what a replaceFile that was cut off has left for path. The
// caller holds the lock of the folder.
func dropTemps(path string) error {
	folder, prefix := filepath.Dir(path), filepath.Base(path)+tempMark
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// readPrivate reads a file of ours, which nobody else may reach, of at most
// size bytes.
func readPrivate(path string, size int64) ([]byte, error) {
	f, err := openNow(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if err := checkPrivate(path, fi); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, size+1))
	if err == nil && int64(len(data)) > size {
		err = fmt.Errorf("%s is larger than %d bytes", path, size)
	}
	return data, err
}
