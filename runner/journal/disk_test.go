package journal_test

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"syscall"

	"runnerd/runner/journal"
)

var errDisk = errors.New("the disk failed")

// memDisk is a disk that forgets what was not synced. Its faults count down: at zero the next write or sync fails.
type memDisk struct {
	mu         sync.Mutex
	files      map[string]*memFile
	room       int64 // bytes that may still be allocated; below zero: no limit
	failWrite  int   // fail the n-th write from now; 0: never
	failSync   int
	syncs      int
	writes     int
	duringSync func() // called while a sync is on its way
}

// memFile is what the program sees, and what would be there after a power loss if nothing of the pending writes arrived.
type memFile struct {
	disk    *memDisk
	seen    []byte
	durable []byte
	pending []write
}

type write struct {
	off  int64
	data []byte
}

func newDisk() *memDisk { return &memDisk{files: map[string]*memFile{}, room: -1} }

func (d *memDisk) Open(name string) (journal.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[name] == nil {
		d.files[name] = &memFile{disk: d}
	}
	return d.files[name], nil
}

func (d *memDisk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[from] == nil {
		return fs.ErrNotExist
	}
	d.files[to] = d.files[from]
	delete(d.files, from)
	return nil
}

func (d *memDisk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.files, name)
	return nil
}

func (d *memDisk) Sync() error { return nil }

// crash is the disk after a power loss: lose says of each pending write, sector by sector, whether it is gone.
func (d *memDisk) crash(lose func(name string, w int, sector int) bool) *memDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := newDisk()
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		f := d.files[name]
		data := slices.Clone(f.durable)
		for i, w := range f.pending {
			const sector = 64 // smaller than real ones, so that records are cut
			for at := 0; at < len(w.data); at += sector {
				if piece := w.data[at:min(at+sector, len(w.data))]; !lose(name, i, at/sector) {
					data = put(data, w.off+int64(at), piece)
				}
			}
		}
		after.files[name] = &memFile{disk: after, seen: slices.Clone(data), durable: data}
	}
	return after
}

// kill is the disk after the process was killed: every write that was made is there.
func (d *memDisk) kill() *memDisk {
	return d.crash(func(string, int, int) bool { return false })
}

func put(b []byte, off int64, piece []byte) []byte {
	if need := int(off) + len(piece); need > len(b) {
		if need > cap(b) {
			b = append(make([]byte, 0, 2*need), b...)
		}
		clear(b[len(b):need])
		b = b[:need]
	}
	copy(b[off:], piece)
	return b
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if off+int64(len(p)) > int64(len(f.seen)) {
		return 0, errors.New("read past the end")
	}
	return copy(p, f.seen[off:]), nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	d := f.disk
	d.writes++
	if d.failWrite > 0 {
		if d.failWrite--; d.failWrite == 0 {
			return 0, errDisk
		}
	}
	if more := off + int64(len(p)) - int64(len(f.seen)); more > 0 && d.room >= 0 {
		if more > d.room {
			return 0, syscall.ENOSPC
		}
		d.room -= more
	}
	f.seen = put(f.seen, off, p)
	f.pending = append(f.pending, write{off, slices.Clone(p)})
	return len(p), nil
}

func (f *memFile) Sync() error {
	d := f.disk
	d.mu.Lock()
	d.syncs++
	upTo, meanwhile := len(f.pending), d.duringSync
	d.mu.Unlock()
	if meanwhile != nil {
		meanwhile()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failSync > 0 {
		if d.failSync--; d.failSync == 0 {
			return errDisk
		}
	}
	for _, w := range f.pending[:upTo] {
		f.durable = put(f.durable, w.off, w.data)
	}
	f.pending = f.pending[upTo:]
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return int64(len(f.seen)), nil
}

func (f *memFile) Close() error { return nil }
