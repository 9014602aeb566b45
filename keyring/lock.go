package keyring

import (
	"context"
	"fmt"
	"os"
	"time"
)

// A fileLock is held by one goroutine of one process at a time. The system
// drops it when the process dies, so it is never left behind.
type fileLock struct {
	path    string        // empty: no other process
	turn    chan struct{} // within this process, in order of asking
	timeout time.Duration
}

func newFileLock(path string, timeout time.Duration) *fileLock {
	return &fileLock{path: path, turn: make(chan struct{}, 1), timeout: timeout}
}

// lockPoll is how often we look whether another process has let go. They hold
// it for some milliseconds.
const lockPoll = 5 * time.Millisecond

// acquire waits for the lock until the timeout, which is ErrLocked, or the end
// of ctx.
func (l *fileLock) acquire(ctx context.Context) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	deadline := time.NewTimer(l.timeout)
	defer deadline.Stop()
	select {
	case l.turn <- struct{}{}:
	case <-deadline.C:
		return nil, fmt.Errorf("%w: %s is in use", ErrLocked, l.path)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	release = func() { <-l.turn }
	if l.path == "" {
		return release, nil
	}
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		release()
		return nil, err
	}
	for {
		ok, err := tryLock(f)
		if ok {
			return func() { f.Close(); <-l.turn }, nil // closing unlocks
		}
		if err != nil {
			err = fmt.Errorf("lock %s: %w", l.path, err)
		} else {
			select {
			case <-time.After(lockPoll):
				continue
			case <-deadline.C:
				err = fmt.Errorf("%w: another process holds %s", ErrLocked, l.path)
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		f.Close()
		release()
		return nil, err
	}
}
