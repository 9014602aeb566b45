package channel

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"runnerd/gateway/dispatch"
	"runnerd/gateway/identity"
	"runnerd/gateway/store"
)

// How often one runner may begin anew, by registering or by opening a stream. One on a bad link needs less than one of each a
// second; each costs the store a write or a look, and all subjects share the store (faults.md H01).
const (
	beginEvery = time.Second / 3
	beginBurst = 60
	maxBegins  = 1 << 16
)

// begins counts beginnings per runner, in memory: with several gateways each has a count of its own.
type begins struct {
	mu sync.Mutex
	of map[store.RunnerID]*rate.Limiter
}

// take lets a runner begin, or says with an *identity.LimitError when it may.
func (b *begins) take(who dispatch.Who, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.of[who.Runner]
	if l == nil {
		if b.of == nil || len(b.of) >= maxBegins {
			b.of = make(map[store.RunnerID]*rate.Limiter)
		}
		l = rate.NewLimiter(rate.Every(beginEvery), beginBurst)
		b.of[who.Runner] = l
	}
	r := l.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	r.CancelAt(now)
	return &identity.LimitError{RetryAfter: wait, Scope: "key"}
}
