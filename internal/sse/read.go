package sse

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"strconv"
	"time"
)

// What can be wrong with a stream that is read. All but ErrNotStream end a Read.
var (
	ErrSilent    = errors.New("event stream is silent")
	ErrBuffered  = errors.New("event stream gave no byte after its headers: something buffers it")
	ErrTooLarge  = errors.New("event is too large")
	ErrBadID     = errors.New("event has a bad id")
	ErrNotStream = errors.New("answer is not an event stream")
)

const defaultMaxEvent = 1 << 20

// Options say what Read expects of a stream.
type Options struct {
	Silent    time.Duration // no byte for so long: ErrSilent. 0: wait for ever
	FirstByte time.Duration // no byte at all for so long: ErrBuffered. 0: as Silent
	MaxEvent  int           // bytes of one event's data, 1 MiB if 0; its other fields may have 1 KiB
	Numbered  bool          // every id must be a decimal number below 2^63
}

// An Event is one event as it was sent. Data belongs to the caller.
type Event struct {
	ID   string // the id that this event carried; empty if none
	Type string // empty means "message"
	Data []byte
}

// Seq returns the event's id as the number that a numbered stream's cursor counts in.
func (e Event) Seq() (int64, error) {
	n, ok := parseID(e.ID)
	if !ok {
		return 0, fmt.Errorf("%w: %q is not a decimal number", ErrBadID, e.ID)
	}
	return n, nil
}

// CheckResponse says whether an answer is an event stream at all: a captive portal's page is not, whatever its status.
func CheckResponse(res *http.Response) error {
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: status %d", ErrNotStream, res.StatusCode)
	}
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || media != "text/event-stream" {
		return fmt.Errorf("%w: content type %q", ErrNotStream, res.Header.Get("Content-Type"))
	}
	return nil
}

// Read yields the events of body until it ends, and closes it. An error is the last thing yielded; a stream that ended
// after a whole event yields none. When ctx ends the error is its cause. The sequence can be used once.
func Read(ctx context.Context, body io.ReadCloser, opts Options) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		closed := make(chan struct{})
		stop := context.AfterFunc(ctx, func() { body.Close(); close(closed) }) // unblocks a read
		defer func() {
			cancel(nil)
			if stop() {
				body.Close()
			} else {
				<-closed
			}
		}()
		events := parser{
			in:       bufio.NewReader(&watched{body: body, opts: opts, cancel: cancel}),
			max:      opts.MaxEvent,
			numbered: opts.Numbered,
		}
		if events.max == 0 {
			events.max = defaultMaxEvent
		}
		for {
			ev, err := events.next()
			if err == io.EOF {
				return
			}
			if err != nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				yield(Event{}, fmt.Errorf("read event stream: %w", err))
				return
			}
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// watched cancels when a read waits too long. Between reads nothing is timed: then it is the caller who is busy.
type watched struct {
	body   io.Reader
	opts   Options
	cancel context.CancelCauseFunc
	begun  bool
}

func (w *watched) Read(p []byte) (int, error) {
	limit, cause := w.opts.Silent, ErrSilent
	if !w.begun && w.opts.FirstByte > 0 {
		limit, cause = w.opts.FirstByte, ErrBuffered
	}
	if limit > 0 {
		defer time.AfterFunc(limit, func() { w.cancel(cause) }).Stop()
	}
	n, err := w.body.Read(p)
	w.begun = w.begun || n > 0
	return n, err
}

// parseID reads an id of a numbered stream: decimal digits and nothing else.
func parseID(s string) (int64, bool) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
