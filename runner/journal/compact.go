package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"runnerd/internal/wire"
)

// tidy leaves behind what is over, once the log is long and most of it is. A failure is no harm: the old file stays.
func (j *Journal) tidy() error {
	for j.broken == nil && j.long() {
		if j.syncing {
			j.cond.Wait()
			continue
		}
		_ = j.replace("")
		break
	}
	if j.broken != nil {
		return fmt.Errorf("%w: %w", ErrBroken, j.broken)
	}
	return nil
}

func (j *Journal) long() bool {
	if j.tail < j.opts.Compact {
		return false
	}
	live := int64(len(j.settled)) * 200
	for _, s := range j.held {
		live += s.body.size
	}
	return j.tail > 2*live
}

// replace writes all that counts into a new file and puts it in the old one's place; keep, when not empty, names a copy of
// the old one. The offsets of all bodies change. After an error that did not break the journal the old file is in use.
func (j *Journal) replace(keep string) error {
	if keep != "" {
		if err := j.copyTo(keep); err != nil {
			return fmt.Errorf("set journal aside as %s: %w", keep, err)
		}
	}
	_ = j.disk.Remove(newName)
	f, err := j.disk.Open(newName)
	if err != nil {
		return fmt.Errorf("rewrite journal: %w", err)
	}
	fresh := &Journal{opts: j.opts, disk: j.disk, f: f, id: j.id, cursor: j.cursor, held: map[pair]*step{}, settled: map[Hash]settled{}}
	if fresh.id == "" {
		fresh.id = newID()
	}
	err = fresh.fill(j)
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("rewrite journal: %w", err), j.disk.Remove(newName))
	}
	if err := j.f.Close(); err != nil { // Windows renames no open file, and none onto one
		return j.breakdown(err)
	}
	renamed := j.disk.Rename(newName, fileName)
	if renamed == nil {
		err = j.disk.Sync()
	}
	if j.f, err = reopened(j.disk, err); err != nil {
		return j.breakdown(err)
	}
	if renamed != nil {
		return fmt.Errorf("rewrite journal: %w", renamed)
	}
	j.id, j.held, j.settled = fresh.id, fresh.held, fresh.settled
	j.tail, j.synced, j.size = fresh.tail, fresh.tail, fresh.size
	return nil
}

func reopened(d Disk, err error) (File, error) {
	f, failed := d.Open(fileName)
	return f, errors.Join(err, failed)
}

// fill writes into an empty journal what counts of old.
func (j *Journal) fill(old *Journal) error {
	now := j.opts.Now()
	m := meta{ID: j.id, Owner: j.opts.Owner, Version: version, Cursor: j.cursor, Unsure: old.unsure, At: now.UnixMilli()}
	for range 2 { // twice: a file that lost its header says nothing about whose results it holds
		if err := j.write(kindHeader, m, nil); err != nil {
			return err
		}
	}
	keys := slices.SortedFunc(maps.Keys(old.settled), func(a, b Hash) int { return cmp.Compare(old.settled[b].at, old.settled[a].at) })
	for i, key := range keys {
		s := old.settled[key]
		if i >= maxSettled || s.at < now.Add(-wire.JournalKept).UnixMilli() {
			break
		}
		if err := j.write(kindSettled, meta{Key: key.text(), Hash: s.hash.text(), Seq: s.seq, At: s.at}, nil); err != nil {
			return err
		}
	}
	for _, s := range old.held {
		if err := j.carry(old.f, s); err != nil {
			return err
		}
	}
	return errors.Join(j.reserve(0, 0), j.f.Sync())
}

// carry writes a held step again. A body that no longer checks is not carried: its step counts as started.
func (j *Journal) carry(from io.ReaderAt, s *step) error {
	m := meta{Run: s.RunID, Step: s.StepID, Seq: s.Seq, Hash: s.Hash.text(), At: s.At.UnixMilli()}
	k := map[Phase]kind{Accepted: kindAccepted, Started: kindStarted, Finished: kindFinished}[s.Phase]
	var body []byte
	if s.Phase != Started {
		var err error
		switch body, err = readBody(from, s.body); {
		case errors.Is(err, ErrDamaged):
			k, body = kindFinished, unknown()
		case err != nil:
			return err
		}
	}
	return j.write(k, m, body)
}

func (j *Journal) copyTo(name string) error {
	_ = j.disk.Remove(name)
	to, err := j.disk.Open(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.NewOffsetWriter(to, 0), io.NewSectionReader(j.f, 0, j.size))
	return errors.Join(err, to.Sync(), to.Close())
}

// clear makes the bytes from off on zero again, so that a torn record cannot be taken for part of the next one.
func (j *Journal) clear(off int64) error {
	block := make([]byte, window)
	for off < j.size {
		n := min(int64(len(block)), j.size-off)
		if _, err := j.f.WriteAt(block[:n], off); err != nil {
			return err
		}
		off += n
	}
	return j.f.Sync()
}
