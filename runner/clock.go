package runner

import (
	"context"
	"sync"
	"time"
)

// A Clock counts time since some moment, with the time that the machine was asleep included: a step that may take 15 minutes
// has had them after a night in a bag (faults R17).
type Clock interface{ Now() time.Duration }

// checkEvery bounds how late a deadline is noticed after a sleep, since a timer stands still meanwhile.
const checkEvery = 5 * time.Second

// at calls f when the clock has reached the deadline, unless ctx ends before. It returns when either has happened.
func at(ctx context.Context, c Clock, deadline time.Duration, f func()) {
	for {
		left := deadline - c.Now()
		if left <= 0 {
			f()
			return
		}
		t := time.NewTimer(min(left, checkEvery))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
	}
}

// elapsed is a clock made of the two that every system has: whichever went further counts. The monotonic one stands still in
// a sleep on some systems, the wall clock may be set.
type elapsed struct {
	begun time.Time

	mu  sync.Mutex
	now time.Duration
}

func newElapsed() *elapsed { return &elapsed{begun: time.Now()} }

// Now never goes back.
func (e *elapsed) Now() time.Duration {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now = max(e.now, now.Sub(e.begun), now.Round(0).Sub(e.begun.Round(0)))
	return e.now
}
