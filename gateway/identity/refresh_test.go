package identity

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

func TestJudgePresentedGenerations(t *testing.T) {
	born := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	runner := func(generation int64, used time.Time) store.Runner {
		return store.Runner{ID: "rnr_1", Created: born, Generation: generation, Used: used}
	}
	revoked := runner(3, born)
	revoked.Revoked = born
	later := func(d time.Duration) time.Time { return born.Add(d) }
	for name, row := range map[string]struct {
		r      store.Runner
		g      int64
		now    time.Time
		want   trade
		issued time.Time
	}{
		"the first":                          {runner(0, time.Time{}), 1, later(time.Minute), tradeAdvance, later(time.Minute)},
		"the next":                           {runner(3, born), 4, later(time.Hour), tradeAdvance, later(time.Hour)},
		"the same once more":                 {runner(3, born), 3, later(10 * time.Second), tradeAgain, born},
		"the same when its bearer is old":    {runner(3, born), 3, later(wire.BearerLife / 2), tradeAgain, later(wire.BearerLife / 2)},
		"the same when the clock went back":  {runner(3, later(24*time.Hour)), 3, later(time.Minute), tradeAgain, later(time.Minute)},
		"one before":                         {runner(3, born), 2, later(time.Second), tradeReuse, time.Time{}},
		"one far before":                     {runner(9, born), 1, later(time.Second), tradeReuse, time.Time{}},
		"generation zero":                    {runner(0, born), 0, later(time.Second), tradeReuse, time.Time{}},
		"far ahead of a restored gateway":    {runner(3, born), 9, later(time.Second), tradeAdvance, later(time.Second)},
		"of a revoked family":                {revoked, 4, later(time.Second), tradeRefuse, time.Time{}},
		"reuse in a revoked family":          {revoked, 1, later(time.Second), tradeRefuse, time.Time{}},
		"after 90 days to the second":        {runner(3, born), 4, later(wire.RefreshIdle), tradeAdvance, later(wire.RefreshIdle)},
		"after more than 90 days":            {runner(3, born), 4, later(wire.RefreshIdle + time.Second), tradeIdle, time.Time{}},
		"never used, 90 days after pairing":  {runner(0, time.Time{}), 1, later(wire.RefreshIdle + time.Second), tradeIdle, time.Time{}},
		"an old one of an idle family, too":  {runner(3, born), 1, later(wire.RefreshIdle + time.Second), tradeIdle, time.Time{}},
		"used lately, paired long ago, next": {runner(3, later(wire.RefreshIdle)), 4, later(wire.RefreshIdle + time.Hour), tradeAdvance, later(wire.RefreshIdle + time.Hour)},
	} {
		got, issued := judge(row.r, row.g, row.now)
		if got != row.want || !issued.Equal(row.issued) {
			t.Errorf("%s: %v dated %v, want %v dated %v", name, got, issued, row.want, row.issued)
		}
	}
}

func TestLimiterFillsWithTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(10*time.Second, 3)
		for i := range 3 {
			if _, ok := l.take("a", time.Now()); !ok {
				t.Fatalf("attempt %d is refused", i)
			}
		}
		if wait, ok := l.take("a", time.Now()); ok || wait != 10*time.Second {
			t.Errorf("the fourth: %v, wait %v", ok, wait)
		}
		if _, ok := l.take("b", time.Now()); !ok {
			t.Error("another's attempts count")
		}
		time.Sleep(10 * time.Second)
		if _, ok := l.take("a", time.Now()); !ok {
			t.Error("nothing was given back in time")
		}
		l.give("a", time.Now())
		if _, ok := l.take("a", time.Now()); !ok {
			t.Error("what was given back cannot be taken")
		}
		for range 9 {
			l.give("b", time.Now())
		}
		for i := range 4 {
			if _, ok := l.take("b", time.Now()); ok != (i < 3) {
				t.Errorf("giving back raised the bound: attempt %d %v", i, ok)
			}
		}
	})
}

func TestLimiterForgetsWhoIsQuiet(t *testing.T) {
	l, now := newLimiter(time.Second, 1), time.Unix(1, 0)
	for i := range 3 * maxBuckets {
		now = now.Add(time.Millisecond)
		l.take(fmt.Sprint(i), now)
	}
	if len(l.buckets) > maxBuckets {
		t.Errorf("%d buckets are held", len(l.buckets))
	}
}

func TestPollingTooFastSlowsDownForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p polls
		device := hashOf("a")
		steps := []struct {
			wait time.Duration
			want bool
		}{
			{0, false}, {2 * time.Second, false}, {time.Second, true}, {2 * time.Second, true}, {12 * time.Second, false},
			{10 * time.Second, false}, {2 * time.Second, true},
		}
		for i, s := range steps {
			time.Sleep(s.wait)
			if got := p.tooSoon(device, time.Now()); got != s.want {
				t.Errorf("poll %d, %v after the last: too soon %v, want %v", i, s.wait, got, s.want)
			}
		}
		if p.tooSoon(hashOf("b"), time.Now()) {
			t.Error("another code's polls count")
		}
	})
}
