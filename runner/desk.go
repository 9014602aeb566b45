package runner

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"runnerd/internal/wire"
	"runnerd/runner/step"
)

// A pair names a step; with the seq of an offer it is a wire.StepRef.
type pair struct{ run, step string }

func pairOf(ref wire.StepRef) pair { return pair{ref.RunID, ref.StepID} }

// A task is a step that the runner holds: accepted, running, or finished and not acknowledged.
type task struct {
	ref      wire.StepRef
	frame    wire.Dispatch // until it is finished
	plan     *step.Plan    // nil until the providers are known
	phase    string        // wire.Phase...
	told     string        // the phase that a report has told of; empty: not even the accept
	since    time.Time
	provider string
	model    string
	cancel   context.CancelCauseFunc // set once a permit was taken: nothing starts it again
	output   trickle
	again    wire.StepRef // a newer offer of a step that has finished; answered by its result once permitted
	parked   string       // why the gateway does not take the result
	retry    time.Time    // when a parked result is posted again
}

// A refusal is an offer that was turned down, until a report that says so was answered.
type refusal struct {
	wire.Refusal
	settles bool // the cursor waits for it
}

// A desk has the steps in hand and what is to be said of them. What must survive a crash is in the journal; this is the rest.
type desk struct {
	mu       sync.Mutex
	tasks    map[pair]*task
	refusals []refusal
	high     int64 // the highest seq that was settled or is about to be
	gateway  int64 // the gateway's cursor, as of its last answer
	busy     bool  // an offer was refused as busy since a report said that a lane is free
	changed  chan struct{}
}

func newDesk() *desk {
	return &desk{tasks: map[pair]*task{}, changed: make(chan struct{})}
}

// stir tells those who wait for the desk to empty. The mutex is held.
func (d *desk) stir() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// cursor is the highest seq at or below which every frame is settled. The mutex is held.
func (d *desk) cursor() int64 {
	c := d.high
	for _, r := range d.refusals {
		if r.settles {
			c = min(c, r.Seq-1)
		}
	}
	return c
}

// working counts the steps that take a lane: those that are not finished.
func (d *desk) working() (all int, byProvider map[string]int) {
	byProvider = map[string]int{}
	for _, t := range d.tasks {
		if t.phase != wire.PhaseFinished {
			all++
			byProvider[t.provider]++
		}
	}
	return all, byProvider
}

// sorted are the tasks by seq. The mutex is held.
func (d *desk) sorted() []*task {
	return slices.SortedFunc(maps.Values(d.tasks), func(a, b *task) int { return cmp.Compare(a.ref.Seq, b.ref.Seq) })
}

// find is the task of an offer, or nil.
func (d *desk) find(ref wire.StepRef) *task {
	if t := d.tasks[pairOf(ref)]; t != nil && t.ref.Seq == ref.Seq {
		return t
	}
	return nil
}

// wait blocks until done says so, or ctx ends. It asks done again whenever the desk changes.
func (d *desk) wait(ctx context.Context, done func() bool) {
	for {
		d.mu.Lock()
		ok, changed := done(), d.changed
		d.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
