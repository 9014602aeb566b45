package runner

import (
	"time"

	"golang.org/x/sys/unix"
)

// systemClock is the clock that counts suspended time.
func systemClock() Clock {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return newElapsed()
	}
	return boottime{}
}

type boottime struct{}

func (boottime) Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // it was there at the start
	}
	return time.Duration(ts.Nano())
}
