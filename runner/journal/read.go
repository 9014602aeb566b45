package journal

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"runnerd/internal/wire"
)

// ID names this journal. A new one has a new name, and so tells the gateway that what was accepted before is lost.
func (j *Journal) ID() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.id
}

// Cursor is the highest seq at or below which every frame was settled, and whether it may be too low because the journal is
// new or was damaged: then the gateway's is adopted, by SetCursor (faults R18).
func (j *Journal) Cursor() (seq int64, unsure bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.cursor, j.unsure
}

// Damage is how many ranges of the file did not check when it was opened.
func (j *Journal) Damage() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.damages
}

// Err is why the journal is broken, or nil.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrBroken, j.broken)
}

// Find is what is known of a pair of run and step; its phase is None when that is nothing.
func (j *Journal) Find(run, step string) Step {
	j.mu.Lock()
	defer j.mu.Unlock()
	s, _ := j.find(run, step)
	return s
}

// Held are the steps that are accepted, started or finished, oldest offer first.
func (j *Journal) Held() []Step {
	j.mu.Lock()
	defer j.mu.Unlock()
	steps := make([]Step, 0, len(j.held))
	for s := range maps.Values(j.held) {
		steps = append(steps, s.Step)
	}
	slices.SortFunc(steps, func(a, b Step) int { return cmp.Compare(a.Seq, b.Seq) })
	return steps
}

// Frame is the frame of an accepted step.
func (j *Journal) Frame(ref wire.StepRef) ([]byte, error) { return j.body(ref, Accepted) }

// Output is the output of a finished step.
func (j *Journal) Output(ref wire.StepRef) ([]byte, error) { return j.body(ref, Finished) }

func (j *Journal) body(ref wire.StepRef, in Phase) ([]byte, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, j.broken)
	}
	s := j.held[pair{ref.RunID, ref.StepID}]
	if s == nil || s.Phase != in || s.Seq != ref.Seq {
		return nil, fmt.Errorf("%w: %v is not %v", ErrWrongPhase, ref, in)
	}
	return readBody(j.f, s.body)
}

// Waiting is how many bytes of frames and results wait.
func (j *Journal) Waiting() (n int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.held {
		n += s.body.size
	}
	return n
}
