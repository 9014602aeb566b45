package sqlite

import "time"

// A commit carries the clock's reading once it is persistEvery later than the stored one; while nothing is written, the
// writer stores it every idleEvery. After a kill the clock goes on from the stored reading, so it is behind by no more than
// that.
const (
	persistEvery = time.Second
	idleEvery    = time.Minute
)

// A clock is the store's (design, section 5): it goes on from where it was stored, by the monotonic clock, so neither jumps
// of the wall clock nor downtime count.
type clock struct {
	mono func() time.Duration
	from time.Duration // the monotonic reading at base
	base time.Time     // what was stored
}

func newClock(mono func() time.Duration, base time.Time) clock {
	return clock{mono: mono, from: mono(), base: base.UTC()}
}

// now is in whole microseconds, so that what a caller gets is what the store gives back.
func (c clock) now() time.Time {
	return c.base.Add((c.mono() - c.from).Truncate(time.Microsecond))
}
