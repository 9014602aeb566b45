package keyring

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// A call is one method's work on the keychain, done in a goroutine of its own.
type call struct {
	s     *System
	state atomic.Int32
}

const (
	running   = iota
	finished  // the caller has, or will take, the result
	abandoned // the caller is gone: make no further step
)

var errAbandoned = errors.New("call was given up")

type outcome[T any] struct {
	value T
	err   error
}

// do runs f as the one call that is made now, and waits for it until the
// deadline or the end of ctx.
func do[T any](ctx context.Context, s *System, f func(*call) (T, error)) (T, error) {
	var zero T
	release, err := s.take(ctx)
	if err != nil {
		return zero, err
	}
	defer release()
	return run(ctx, s, f)
}

// change is do for a call that changes the index: one process at a time.
func (s *System) change(ctx context.Context, f func(*call) error) error {
	release, err := s.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	unlock, err := s.lock.acquire(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	_, err = run(ctx, s, func(c *call) (struct{}, error) { return struct{}{}, f(c) })
	return err
}

// take waits for the turn of this call.
func (s *System) take(ctx context.Context) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case <-s.closed:
		return nil, fmt.Errorf("%w: it was closed", ErrUnavailable)
	default:
	}
	deadline := time.NewTimer(s.timeout)
	defer deadline.Stop()
	select {
	case s.turn <- struct{}{}:
	case <-deadline.C:
		return nil, noAnswer(nil)
	case <-ctx.Done():
		return nil, gaveUp(ctx)
	case <-s.closed:
		return nil, fmt.Errorf("%w: it was closed", ErrUnavailable)
	}
	if n := len(s.parked); n == cap(s.parked) {
		<-s.turn
		return nil, fmt.Errorf("%w: %d earlier calls still wait for the keychain; answer its prompt or unlock it", ErrLocked, n)
	}
	return func() { <-s.turn }, nil
}

// run makes the call; its caller holds the turn.
func run[T any](ctx context.Context, s *System, f func(*call) (T, error)) (T, error) {
	var zero T
	c := &call{s: s}
	done := make(chan outcome[T], 1)
	go func() { // Close waits for it, unless the keychain never answers
		value, err := f(c)
		if c.state.CompareAndSwap(running, finished) {
			done <- outcome[T]{value, err}
			return
		}
		<-s.parked
	}()
	deadline := time.NewTimer(s.timeout)
	defer deadline.Stop()
	var err error
	select {
	case o := <-done:
		return o.value, o.err
	case <-deadline.C:
		err = noAnswer(nil)
	case <-ctx.Done():
		err = gaveUp(ctx)
	}
	if !c.state.CompareAndSwap(running, abandoned) { // it came at the last moment
		o := <-done
		return o.value, o.err
	}
	s.parked <- struct{}{} // has room: take looked, and only we, who hold the turn, add
	return zero, err
}

func noAnswer(cause error) error {
	if cause == nil {
		return fmt.Errorf("%w: the keychain does not answer; it may wait for you at a prompt", ErrLocked)
	}
	return fmt.Errorf("%w: the keychain does not answer; it may wait for you at a prompt: %w", ErrLocked, cause)
}

// gaveUp says why a call ended with its context. A caller whose patience is
// shorter than ours learns the same: the keychain did not answer in time.
func gaveUp(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return noAnswer(context.Cause(ctx))
	}
	return context.Cause(ctx)
}

// The steps of a call. None is begun once the caller is gone, so a prompt that
// is answered late is not followed by a surprise.

func (c *call) get(account string) (string, error) {
	if c.state.Load() == abandoned {
		return "", errAbandoned
	}
	return c.s.backend.Get(account)
}

func (c *call) set(account, value string) error {
	return c.write(account, func() error { return c.s.backend.Set(account, value) })
}

func (c *call) delete(account string) error {
	return c.write(account, func() error { return c.s.backend.Delete(account) })
}

func (c *call) write(account string, try func() error) error {
	if c.state.Load() == abandoned {
		return errAbandoned
	}
	return c.s.writes.do(account, try)
}

// Close refuses further calls and waits for those under way, parked ones
// included, up to the deadline. A system call cannot be cancelled, so it
// returns an error when some are still out there.
func (s *System) Close() error { return s.close() }

func (s *System) shut() error {
	close(s.closed)
	deadline := time.NewTimer(s.timeout)
	defer deadline.Stop()
	select {
	case s.turn <- struct{}{}: // kept: no call begins any more
	case <-deadline.C:
		return errors.New("close keychain: a call is still under way")
	}
	for free := range cap(s.parked) {
		select {
		case s.parked <- struct{}{}:
		case <-deadline.C:
			return fmt.Errorf("close keychain: %d calls were never answered", cap(s.parked)-free)
		}
	}
	return nil
}
