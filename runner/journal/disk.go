package journal

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// A Disk is the folder that a journal lies in. Tests give one that fills up, loses what was not synced, or fails a sync.
type Disk interface {
	Open(name string) (File, error) // creates it, for the owner alone, when it is not there
	Rename(from, to string) error
	Remove(name string) error
	Sync() error // makes names durable (faults S08)
}

// A File is one file of a Disk. Sync makes data durable, and size too when it changed.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
	Size() (int64, error)
}

// folder is the real disk.
type folder string

func (d folder) Open(name string) (File, error) {
	f, err := os.OpenFile(filepath.Join(string(d), name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

func (d folder) Rename(from, to string) error {
	return os.Rename(filepath.Join(string(d), from), filepath.Join(string(d), to))
}

func (d folder) Remove(name string) error { return os.Remove(filepath.Join(string(d), name)) }

func (d folder) Sync() error { return syncFolder(string(d)) }

type file struct{ *os.File }

func (f file) Sync() error { return syncData(f.File) }

func (f file) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is not a regular file", f.Name())
	}
	return info.Size(), nil
}
