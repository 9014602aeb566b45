package link

import (
	"math/rand/v2"
	"time"

	"runnerd/internal/wire"
)

// A Backoff says how long to wait before the next attempt: from wire.BackoffMin to wire.BackoffMax, with jitter. The zero
// value is ready. Success resets it, so that the first error after a quiet week is tried again at once (UD-14).
type Backoff struct{ failures int }

// Next is the wait after another failure, or what the other side asked for, if that is longer.
func (b *Backoff) Next(asked time.Duration) time.Duration {
	most := wire.BackoffMin << min(b.failures, 16)
	if most > wire.BackoffMax || most <= 0 {
		most = wire.BackoffMax
	}
	b.failures++
	return max(most/2+rand.N(most/2), min(asked, 10*wire.BackoffMax))
}

// Reset forgets the failures.
func (b *Backoff) Reset() { b.failures = 0 }
