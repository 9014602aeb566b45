package identity

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A limiter is one bucket per key, bounded: when too many keys are held, those that are full again are forgotten.
type limiter struct {
	every time.Duration
	burst int

	mu      *sync.Mutex
	buckets map[string]*rate.Limiter
}

const maxBuckets = 4096

func newLimiter(every time.Duration, burst int) limiter {
	return limiter{every, burst, new(sync.Mutex), make(map[string]*rate.Limiter)}
}

// take takes one token of the key's bucket, or says how long until there is one.
func (l limiter) take(key string, now time.Time) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[key]
	if b == nil {
		l.forget(now)
		b = rate.NewLimiter(rate.Every(l.every), l.burst)
		l.buckets[key] = b
	}
	r := b.ReserveN(now, 1)
	if wait = r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return wait, false
	}
	return 0, true
}

// give puts a token back: the attempt turned out to be an honest one.
func (l limiter) give(key string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.buckets[key]; b != nil && b.TokensAt(now) < float64(l.burst) {
		b.AllowN(now, -1)
	}
}

// forget drops full buckets, and all of them should that not be enough: a limiter must not be a way to fill the memory.
func (l limiter) forget(now time.Time) {
	if len(l.buckets) < maxBuckets {
		return
	}
	for key, b := range l.buckets {
		if b.TokensAt(now) >= float64(l.burst) {
			delete(l.buckets, key)
		}
	}
	if len(l.buckets) >= maxBuckets {
		clear(l.buckets)
	}
}
