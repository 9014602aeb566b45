package journal

import (
	"errors"
	"fmt"

	"runnerd/internal/fault"
	"runnerd/internal/wire"
)

// Accept notes a frame that was taken, before the gateway is told so. It is not synced: see Decisions. With no room for the
// frame and a result of the largest size it fails with ErrNoRoom, and nothing has changed.
func (j *Journal) Accept(d wire.Dispatch, frame []byte, cursor int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.may(kindAccepted, d.Ref()); err != nil {
		return err
	}
	if err := j.reserve(1, int64(len(frame))+slack); err != nil {
		return err
	}
	j.cursor = max(j.cursor, cursor)
	return j.write(kindAccepted, j.about(d.Ref(), HashOf(d)), frame)
}

// Drop forgets a step that was accepted and not started: its offer is gone.
func (j *Journal) Drop(ref wire.StepRef) error { return j.note(kindDropped, ref, "") }

// Ack notes the gateway's verdict. The result is not kept any longer. A lost note costs one more POST.
func (j *Journal) Ack(ref wire.StepRef, verdict string) error { return j.note(kindAcked, ref, verdict) }

func (j *Journal) note(k kind, ref wire.StepRef, verdict string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.may(k, ref); err != nil {
		return err
	}
	m := j.about(ref, j.hash(ref))
	m.Verdict = verdict
	return errors.Join(j.write(k, m, nil), j.tidy())
}

// Start notes, durably, that the step is about to take effect. Only after it returned nil may anything be started.
func (j *Journal) Start(ref wire.StepRef) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.may(kindStarted, ref); err != nil {
		return err
	}
	if err := j.write(kindStarted, j.about(ref, Hash{}), nil); err != nil {
		return err
	}
	return j.sync(j.tail)
}

// Finish puts a step's output into the outbox, durably. A step that was never accepted may finish too: that is a refusal to a
// host which takes refusals as results only.
func (j *Journal) Finish(ref wire.StepRef, h Hash, output []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.may(kindFinished, ref); err != nil {
		return err
	}
	if j.held[pair{ref.RunID, ref.StepID}] == nil {
		if err := j.reserve(0, int64(len(output))+slack); err != nil {
			return err
		}
	}
	if err := j.write(kindFinished, j.about(ref, h), output); err != nil {
		return err
	}
	return j.sync(j.tail)
}

// SetCursor notes a cursor that moved without a step being accepted. A journal that was unsure no longer is.
func (j *Journal) SetCursor(seq int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if seq <= j.cursor && !j.unsure {
		return nil
	}
	if err := j.reserve(0, slack); err != nil {
		return err
	}
	return j.write(kindCursor, meta{Cursor: max(seq, j.cursor), At: j.opts.Now().UnixMilli()}, nil)
}

// HasRoom says whether another step could be accepted.
func (j *Journal) HasRoom() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.broken == nil && j.reserve(1, wire.MaxFrame) == nil
}

// may refuses what the step's phase does not allow, and everything once the journal is broken.
func (j *Journal) may(k kind, ref wire.StepRef) error {
	if j.broken != nil {
		return fmt.Errorf("%w: %w", ErrBroken, j.broken)
	}
	was, _ := j.find(ref.RunID, ref.StepID)
	if _, ok := next(was.Phase, was.Seq, k, ref.Seq); !ok {
		return fmt.Errorf("%w: %v is %v under seq %d", ErrWrongPhase, ref, was.Phase, was.Seq)
	}
	return nil
}

func (j *Journal) hash(ref wire.StepRef) Hash {
	was, _ := j.find(ref.RunID, ref.StepID)
	return was.Hash
}

// reserve makes sure that extra bytes, and a largest result for each unfinished step and the more that are to come, can be
// written without asking the disk for room.
func (j *Journal) reserve(more int, extra int64) error {
	waiting := int64(0)
	for _, s := range j.held {
		if s.Phase < Finished {
			more++
		}
		waiting += s.body.size
	}
	need := int64(more) * (j.opts.MaxResult + slack)
	if waiting+need+extra > j.opts.MaxBytes {
		return fmt.Errorf("%w: %d bytes of results wait already", ErrNoRoom, waiting)
	}
	if err := j.extend(j.tail + need + extra); err != nil {
		return fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	return nil
}

// extend writes zeros behind the file until it has size bytes. When that fails the zeros written so far do no harm.
func (j *Journal) extend(size int64) error {
	if size <= j.size {
		return nil
	}
	size = (size + grow - 1) / grow * grow
	block := make([]byte, 64<<10)
	for j.size < size {
		n := min(int64(len(block)), size-j.size)
		if _, err := j.f.WriteAt(block[:n], j.size); err != nil {
			return err
		}
		j.size += n
	}
	return j.f.Sync()
}

// write appends one record, whose transition was checked. After an error the journal is broken.
func (j *Journal) write(k kind, m meta, body []byte) error {
	b, at, err := encode(k, m, body)
	if err != nil {
		return err
	}
	if fault.Enabled && k == kindFinished {
		_, _ = j.f.WriteAt(b[:len(b)/2], j.tail)
		fault.Point("R10")
	}
	if _, err := j.f.WriteAt(b, j.tail); err != nil {
		return j.breakdown(err)
	}
	at.off += j.tail
	j.tail += int64(len(b))
	j.size = max(j.size, j.tail)
	j.fold(record{kind: k, meta: m, body: at})
	return nil
}

// sync returns when everything before the offset upTo is durable. What waits together shares one sync: the first to come
// does it for all. The mutex is held on entry and on return, not meanwhile.
func (j *Journal) sync(upTo int64) error {
	for generation := j.f; j.broken == nil && j.f == generation && j.synced < upTo; {
		if j.syncing {
			j.cond.Wait()
			continue
		}
		j.syncing = true
		f, tail := j.f, j.tail
		j.mu.Unlock()
		err := f.Sync()
		j.mu.Lock()
		j.syncing = false
		j.cond.Broadcast()
		if err != nil {
			return j.breakdown(err)
		}
		j.synced = max(j.synced, tail)
	}
	if j.broken != nil {
		return fmt.Errorf("%w: %w", ErrBroken, j.broken)
	}
	return nil
}

// breakdown ends all promises: after a failed write or sync nobody knows what is on the disk, and a later sync that
// succeeds says nothing about it (faults S03).
func (j *Journal) breakdown(err error) error {
	j.broken = err
	j.cond.Broadcast()
	return fmt.Errorf("%w: %w", ErrBroken, err)
}
