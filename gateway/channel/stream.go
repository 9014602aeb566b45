package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"runnerd/gateway/dispatch"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
	"runnerd/internal/sse"
	"runnerd/internal/wire"
)

const (
	longestBounded = 10 * time.Minute
	closeWithin    = 10 * time.Second // for what the end of a stream does in the store
)

// stream sends a runner its frames. It listens before it reads, so nothing falls between.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, who dispatch.Who) error {
	epoch, err := httpapi.QueryInt(r, "epoch", 0, 1, math.MaxInt64)
	if err != nil {
		return err
	}
	ms, err := httpapi.QueryInt(r, "maxMs", 0, 1, longestBounded.Milliseconds())
	if err != nil {
		return err
	}
	if _, err := sse.LastEventID(r); err != nil {
		return err
	}
	wake, unsubscribe := s.bus.Listen(store.RunnerTopic(who.Runner))
	defer unsubscribe()
	length := time.Duration(ms) * time.Millisecond
	st, err := s.dispatch.Open(r.Context(), who, epoch, length)
	if err != nil {
		return err
	}
	defer s.close(r, st)
	out, err := sse.Open(w, r)
	if err != nil {
		return err
	}
	ctx := r.Context()
	if length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, length, errLength)
		defer cancel()
	}
	err = s.send(ctx, st, out, wake)
	if errors.Is(err, errLength) {
		return nil
	}
	return err
}

var errLength = errors.New("the stream is as long as was asked for")

func (s *Server) send(ctx context.Context, st *dispatch.Stream, out *sse.Stream, wake <-chan struct{}) error {
	for after := out.LastID(); ; {
		if why := st.Ended(); why != "" {
			return errors.Join(control(out, why), out.Flush())
		}
		frames, report, err := s.dispatch.Pending(ctx, st, after)
		if err != nil {
			return fmt.Errorf("read what is pending: %w", err)
		}
		for _, f := range frames {
			if err := out.Send(f.Seq, wire.EventDispatch, f.Data); err != nil {
				return err
			}
			after = f.Seq
		}
		if report {
			if err := control(out, wire.ControlReport); err != nil {
				return err
			}
		}
		if err := out.Wait(ctx, wake); err != nil {
			return err
		}
	}
}

func control(out *sse.Stream, why string) error {
	b, err := json.Marshal(wire.Control{Reason: why})
	if err != nil {
		return err
	}
	return out.SendNoID(wire.EventControl, b)
}

// close tells dispatch that the stream has ended, although its request has too.
func (s *Server) close(r *http.Request, st *dispatch.Stream) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), closeWithin)
	defer cancel()
	if err := s.dispatch.Close(ctx, st); err != nil {
		s.log.WarnContext(ctx, "offers of a closed stream were not withdrawn; they will be when they are due", "runner", st.Runner, "err", err)
	}
}
