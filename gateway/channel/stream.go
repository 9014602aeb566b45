package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"runnerd/gateway/dispatch"
	"runnerd/gateway/store"
	"runnerd/internal/fault"
	"runnerd/internal/httpapi"
	"runnerd/internal/sse"
	"runnerd/internal/wire"
)

const (
	longestBounded = 10 * time.Minute
	closeWithin    = 10 * time.Second // for what the end of a stream does in the store
)

// streams are those whose connections were taken over. They outlive their handlers, so Run waits for them.
type streams struct {
	wg sync.WaitGroup

	mu      sync.Mutex
	running bool
	ends    map[*opened]context.CancelCauseFunc
}

var errStopping = errors.New("the gateway is stopping")

// Run lets idle streams take a fraction of the memory: while it runs, the connections of streams are taken over from
// net/http where that is possible. It ends them when ctx ends, and returns when they have ended. A server whose Run is not
// called serves streams all the same.
func (s *Server) Run(ctx context.Context) error {
	s.streams.run(true)
	<-ctx.Done()
	s.streams.run(false)
	s.streams.wg.Wait()
	return nil
}

func (s *streams) run(running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = running
	for _, end := range s.ends {
		end(errStopping)
	}
}

// join counts a stream in, if Run is there to wait for it. leave must be called then.
func (s *streams) join(o *opened, end context.CancelCauseFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running {
		return false
	}
	if s.ends == nil {
		s.ends = map[*opened]context.CancelCauseFunc{}
	}
	s.ends[o] = end
	s.wg.Add(1)
	return true
}

func (s *streams) leave(o *opened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ends, o)
	s.wg.Done()
}

// An opened stream is known to dispatch, and listens. It must be served, which ends it.
type opened struct {
	s      *Server
	st     *dispatch.Stream
	wake   <-chan struct{}
	stop   func()
	length time.Duration // 0: without an end of its own
	last   []string      // Last-Event-ID as it came
}

// stream sends a runner its frames. What can be refused is refused before the reply begins.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, who dispatch.Who) error {
	if err := s.begins.take(who, time.Now()); err != nil {
		return err
	}
	o, err := s.open(r, who)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(context.Background()) // not the request's, which ends with the handler
	if !s.streams.join(o, end) {
		end(nil)
		return o.serve(r.Context(), w)
	}
	conn, err := takeOver(w, r)
	if err != nil {
		s.streams.leave(o)
		end(nil)
		return o.serve(r.Context(), w)
	}
	go o.serveTaken(ctx, end, conn)
	return nil
}

// open listens before anything is read, so nothing falls between.
func (s *Server) open(r *http.Request, who dispatch.Who) (*opened, error) {
	epoch, err := httpapi.QueryInt(r, "epoch", 0, 1, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	ms, err := httpapi.QueryInt(r, "maxMs", 0, 1, longestBounded.Milliseconds())
	if err != nil {
		return nil, err
	}
	if _, err := sse.LastEventID(r); err != nil {
		return nil, err
	}
	o := &opened{s: s, length: time.Duration(ms) * time.Millisecond, last: r.Header.Values("Last-Event-ID")}
	o.wake, o.stop = s.bus.Listen(store.RunnerTopic(who.Runner))
	if o.st, err = s.dispatch.Open(r.Context(), who, epoch, o.length); err != nil {
		o.stop()
		return nil, err
	}
	return o, nil
}

// serveTaken serves the stream on a connection of its own, with one goroutine more, which notices that the runner left.
func (o *opened) serveTaken(ctx context.Context, end context.CancelCauseFunc, conn *taken) {
	defer o.s.streams.leave(o)
	var wg sync.WaitGroup
	wg.Go(func() { conn.watch(end) })
	err := errors.New("stream ended in a panic")
	defer func() {
		if v := recover(); v != nil {
			o.s.log.Error("stream failed", "runner", o.st.Runner, "err", fmt.Sprintf("panic: %v\n%s", v, debug.Stack()))
		}
		conn.end(err == nil)
		end(nil)
		wg.Wait()
	}()
	if err = o.serve(ctx, conn); err != nil && ctx.Err() == nil {
		o.s.log.Info("stream cut off", "runner", o.st.Runner, "err", err)
	}
}

// serve writes the stream until it ends. It returns nil when the end is one that we chose.
func (o *opened) serve(ctx context.Context, w http.ResponseWriter) error {
	defer o.close(ctx)
	// Package sse wants nothing more of the request, which then need not be kept.
	out, err := sse.Open(w, &http.Request{Header: http.Header{"Last-Event-Id": o.last}})
	if err != nil {
		return err
	}
	if o.length > 0 {
		bounded, cancel := context.WithTimeoutCause(ctx, o.length, errLength)
		defer cancel()
		ctx = bounded
	}
	if err = o.send(ctx, out); errors.Is(err, errLength) {
		return nil
	}
	return err
}

var errLength = errors.New("the stream is as long as was asked for")

func (o *opened) send(ctx context.Context, out *sse.Stream) error {
	for after := out.LastID(); ; {
		if why := o.st.Ended(); why != "" {
			return errors.Join(control(out, why), out.Flush())
		}
		if err := o.sendPending(ctx, out, &after); err != nil {
			return err
		}
		if err := out.Wait(ctx, o.wake); err != nil {
			return err
		}
	}
}

// sendPending writes what there is to send now. It is a function of its own so that an idle stream's stack stays small.
//
//go:noinline
func (o *opened) sendPending(ctx context.Context, out *sse.Stream, after *int64) error {
	frames, report, err := o.s.dispatch.Pending(ctx, o.st, *after)
	if err != nil {
		return fmt.Errorf("read what is pending: %w", err)
	}
	for _, f := range frames {
		fault.Point("G05")
		if err := out.Send(f.Seq, wire.EventDispatch, f.Data); err != nil {
			return err
		}
		*after = f.Seq
	}
	if !report {
		return nil
	}
	return control(out, wire.ControlReport)
}

func control(out *sse.Stream, why string) error {
	b, err := json.Marshal(wire.Control{Reason: why})
	if err != nil {
		return err
	}
	return out.SendNoID(wire.EventControl, b)
}

// close tells dispatch that the stream has ended, although what it ran under has ended too.
func (o *opened) close(ctx context.Context) {
	o.stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	if err := o.s.dispatch.Close(ctx, o.st); err != nil {
		o.s.log.WarnContext(ctx, "offers of a closed stream were not withdrawn; they will be when they are due", "runner", o.st.Runner, "err", err)
	}
}
