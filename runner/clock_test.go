package runner

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type manual struct{ now atomic.Int64 }

func (m *manual) Now() time.Duration { return time.Duration(m.now.Load()) }

func TestDeadlineCountsTheTimeAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		c := newElapsed()
		at(t.Context(), c, c.Now()+time.Minute, func() {})
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("awake it took %v", took)
		}
		m := &manual{}
		reached := make(chan struct{})
		go at(t.Context(), m, 15*time.Minute, func() { close(reached) })
		synctest.Wait()
		m.now.Store(int64(8 * time.Hour)) // a night in a bag
		woke := time.Now()
		<-reached
		if took := time.Since(woke); took > checkEvery {
			t.Errorf("noticed %v after waking", took)
		}
	})
}

func TestDeadlineEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			at(ctx, &manual{}, time.Hour, func() { t.Error("called") })
		}()
		synctest.Wait()
		stop()
		<-done
	})
}

func TestSystemClockGoesForward(t *testing.T) {
	for name, c := range map[string]Clock{"system": systemClock(), "elapsed": newElapsed()} {
		a := c.Now()
		time.Sleep(2 * time.Millisecond)
		if b := c.Now(); b-a < 2*time.Millisecond || b-a > 10*time.Second {
			t.Errorf("%s: %v in 2 ms", name, b-a)
		}
	}
}

func TestElapsedNeverGoesBackAndFollowsTheWallClock(t *testing.T) {
	e := newElapsed()
	e.begun = e.begun.Add(-time.Hour) // as if an hour had passed
	first := e.Now()
	e.begun = e.begun.Add(2 * time.Hour) // as if the wall clock was set back
	if second := e.Now(); second < first || first < time.Hour {
		t.Errorf("%v, then %v", first, second)
	}
}
