package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"runnerd/internal/sse"
	"runnerd/internal/wire"
	"runnerd/runner/link"
	"runnerd/runner/local"
)

// The causes for which a connection ends by our own doing.
var (
	errProvidersChanged = errors.New("the providers of this machine changed")
	errSlept            = errors.New("the machine was asleep")
	errSuperseded       = fmt.Errorf("stream ended: %w", link.ErrSuperseded)
	errRevoked          = fmt.Errorf("stream ended: %w", link.ErrUnpaired)
	errClosed           = errors.New("the gateway closed the stream")
)

// lasting says that another report under the same epoch is useless.
func lasting(err error) bool {
	if errors.Is(err, link.ErrSuperseded) || errors.Is(err, link.ErrUnpaired) || errors.Is(err, link.ErrPlain) {
		return true
	}
	status, ok := errors.AsType[*link.StatusError](err)
	return ok && status.Status == http.StatusConflict
}

// ErrPairedAnew says that Run ended because the data folder was paired anew while it ran. Start it again.
var ErrPairedAnew = errors.New("the runner was paired anew; start it again")

// A session is one connection: an epoch, a stream, and the reports beside it.
type session struct {
	epoch    int64
	n        int64     // of the last report
	plain    time.Time // since when the host is taken for a plain one; zero: it takes reports
	reported time.Time
	hangUp   func(cause error)
}

func (s *session) isPlain() bool { return !s.plain.IsZero() }

// connect keeps a connection to the gateway until ctx ends, whatever happens to it, and says why there is none when there is
// none. What ends a connection ends no step (UD-08).
func (r *Runner) connect(ctx, steps context.Context) {
	var failures link.Backoff
	short := &streams{}
	last := &session{}
	select { // most first looks take no longer, and then there is one registration, not two
	case <-r.probed:
	case <-time.After(headStart):
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		var err error
		last, err = r.converse(ctx, steps, last, short, failures.Reset)
		if ctx.Err() != nil {
			return
		}
		var wait time.Duration
		switch {
		case errors.Is(err, errProvidersChanged), errors.Is(err, errSlept):
			failures.Reset()
		case errors.Is(err, link.ErrSuperseded):
			wait = wire.SupersededWait
			last = &session{} // the next connection takes over again
		case errors.Is(err, link.ErrUnpaired):
			r.standstill(local.Unpaired, err, 0)
			if r.awaitPairing(ctx) != nil {
				return
			}
			failures.Reset()
			last = &session{}
			continue
		default:
			asked := time.Duration(0)
			if status, ok := errors.AsType[*link.StatusError](err); ok {
				asked = status.RetryAfter
			}
			wait = failures.Next(asked)
		}
		state := local.Offline
		if errors.Is(err, link.ErrSuperseded) {
			state = local.Superseded
		}
		r.standstill(state, err, wait)
		r.client.Forget()
		if r.waitToDial(ctx, wait) != nil {
			return
		}
	}
}

// waitToDial waits, unless the machine wakes from a sleep meanwhile: then there may be a network.
func (r *Runner) waitToDial(ctx context.Context, wait time.Duration) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.mu.Lock()
	r.session = &session{hangUp: func(why error) {
		if errors.Is(why, errSlept) {
			stop(why)
		}
	}}
	r.mu.Unlock()
	if err := pause(ctx, wait); err != nil && !errors.Is(err, errSlept) {
		return err
	}
	return nil
}

// awaitPairing waits until the store holds another refresh token than the one that was refused.
func (r *Runner) awaitPairing(ctx context.Context) error {
	for {
		if err := pause(ctx, time.Minute); err != nil {
			return err
		}
		if !r.client.Tokens().Changed(ctx) {
			continue
		}
		if id, err := LoadIdentity(r.cfg.Dir); err == nil && id.owner() != r.id.owner() {
			r.fail(ErrPairedAnew) // another journal, another gateway: another life
			return ErrPairedAnew
		}
		return nil
	}
}

// converse makes one connection and serves it. The new session is returned with the reason for its end.
func (r *Runner) converse(parent, steps context.Context, last *session, short *streams, made func()) (*session, error) {
	ctx, hangUp := context.WithCancelCause(parent)
	defer hangUp(nil)
	s := &session{epoch: last.epoch, n: last.n, plain: last.plain, hangUp: hangUp}
	if time.Since(s.plain) > plainAgain {
		s.plain = time.Time{}
	}
	r.mu.Lock()
	r.session = s
	r.mu.Unlock()
	err := r.establish(ctx, steps, s)
	if err == nil {
		made()
		r.standUp(s)
		r.unpark()
		r.postNow()
		err = r.serve(ctx, steps, s, short)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return s, err
}

// establish registers and reports for the first time. Before that it asks, by a report of the old epoch, whether it was
// another process that ended the last connection: then that one is not thrown out in turn.
func (r *Runner) establish(ctx, steps context.Context, s *session) error {
	if s.epoch > 0 && !s.isPlain() {
		err := r.reportOnce(ctx, steps, s)
		status, answered := errors.AsType[*link.StatusError](err)
		forgotten := answered && status.Status == http.StatusConflict && !errors.Is(err, link.ErrSuperseded) // registration is asked for
		if err != nil && !forgotten && !errors.Is(err, link.ErrPlain) {
			return err
		}
	}
	if err := r.register(ctx, s); err != nil {
		return err
	}
	if !s.isPlain() {
		err := r.reportOnce(ctx, steps, s)
		if !errors.Is(err, link.ErrPlain) {
			return err
		}
		s.plain = now()
		if err := r.register(ctx, s); err != nil {
			return err
		}
	}
	r.becomePlain(steps)
	return nil
}

// register sends the record and begins an epoch.
func (r *Runner) register(ctx context.Context, s *session) error {
	r.mu.Lock()
	names := r.shelf.registered(s.isPlain())
	r.stocked = false
	id := r.id
	r.mu.Unlock()
	epoch, err := r.client.Register(ctx, wire.Registration{
		RunnerID: id.RunnerID, Subject: id.Subject, Capabilities: wire.Capabilities{Providers: names},
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.registeredNames, r.plain = append([]string{}, names...), s.isPlain()
	r.mu.Unlock()
	s.epoch, s.n = max(epoch, 1), 0
	return nil
}

// becomePlain goes on with a host that has the protocol's own routes only. A frame is a permit there, also one that was
// accepted before a crash and not started.
func (r *Runner) becomePlain(steps context.Context) {
	r.desk.mu.Lock()
	defer r.desk.mu.Unlock()
	for _, t := range r.desk.sorted() {
		if t.phase == wire.PhaseAccepted {
			r.start(steps, t, wire.StepTimeout-time.Since(t.since))
		}
	}
}

// serve reads the stream and reports, side by side, until one of them ends.
func (r *Runner) serve(parent, steps context.Context, s *session, short *streams) error {
	ctx, stop := context.WithCancelCause(parent)
	var both sync.WaitGroup
	both.Go(func() { stop(r.listen(ctx, steps, s, short)) })
	if !s.isPlain() {
		both.Go(func() { stop(r.report(ctx, steps, s)) })
	}
	both.Wait()
	return context.Cause(ctx)
}

// streams remembers whether something on the way holds long streams back (UD-69).
type streams struct {
	short bool
	since time.Time
}

// listen reads streams of dispatches until something is wrong. Short ones follow each other within one connection.
func (r *Runner) listen(ctx, steps context.Context, s *session, short *streams) error {
	if short.short && time.Since(short.since) > boundedAgain {
		*short = streams{}
	}
	for {
		r.setShort(short.short)
		begun := time.Now()
		err := r.listenOnce(ctx, steps, s, short.short)
		switch {
		case err == nil && short.short:
			if err := pause(ctx, wire.BackoffMin-time.Since(begun)); err != nil { // no faster, should they be shorter than asked for
				return err
			}
		case err == nil:
			return errClosed
		case errors.Is(err, sse.ErrBuffered) && !short.short:
			*short = streams{short: true, since: time.Now()}
			r.cfg.Log.Warn("something on the way holds event streams back; short ones are used")
		default:
			return err
		}
	}
}

func (r *Runner) listenOnce(ctx, steps context.Context, s *session, short bool) error {
	length := time.Duration(0)
	if short {
		length = wire.BoundedStream
	}
	r.desk.mu.Lock()
	cursor := r.desk.cursor()
	r.desk.mu.Unlock()
	events, err := r.client.Stream(ctx, s.epoch, cursor, length)
	if err != nil {
		return err
	}
	for ev, err := range events {
		if err == nil {
			err = r.take(steps, ev, s.isPlain())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hangUp ends the connection that there is, and the wait for the next one.
func (r *Runner) hangUp(why error) {
	r.mu.Lock()
	s := r.session
	r.mu.Unlock()
	if s != nil {
		s.hangUp(why)
	}
}

// causes are the names under which the ends of connections are counted.
var causes = map[string]error{
	"providers changed": errProvidersChanged,
	"sleep":             errSlept,
	"superseded":        link.ErrSuperseded,
	"unpaired":          link.ErrUnpaired,
	"silent stream":     sse.ErrSilent,
	"buffered stream":   sse.ErrBuffered,
	"closed":            errClosed,
	"bad event":         errBadEvent,
	"too large":         sse.ErrTooLarge,
	"not a gateway":     link.ErrNotGateway,
}
