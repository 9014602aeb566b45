package sse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"runnerd/internal/wire"
)

const (
	writeWithin = 10 * time.Second // for each piece of a write: a reader that takes nothing for so long is cut off
	piece       = 64 << 10         // bytes that share one deadline, so that a slow link is not taken for a stalled one
)

var (
	// ErrLastEventID says that a request's Last-Event-ID is not a decimal number. No reply has begun.
	ErrLastEventID = errors.New("Last-Event-ID must be a decimal number")
	// ErrEnded is what Wait returns when the wake channel was closed: nothing more will come.
	ErrEnded = errors.New("event stream ended")
)

// A Stream is the server's end of one event stream. It belongs to the handler's goroutine.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	last    int64
	head    []byte      // scratch for an event's first lines
	timer   *time.Timer // next keep-alive; made by the first Wait
	flushed time.Time
	pending bool // bytes were written since then
}

// LastEventID returns the cursor that a request brings, or -1 if it brings none, so that "after -1" is "from the start".
func LastEventID(r *http.Request) (int64, error) {
	ids := r.Header.Values("Last-Event-ID")
	if len(ids) == 0 || len(ids) == 1 && ids[0] == "" {
		return -1, nil
	}
	n, ok := parseID(ids[0])
	if !ok || len(ids) > 1 {
		return 0, ErrLastEventID
	}
	return n, nil
}

// Open answers r with an event stream: headers and a first comment are on their way when it returns. An error from the
// request (ErrLastEventID) or from a connection that cannot stream comes before anything was written.
func Open(w http.ResponseWriter, r *http.Request) (*Stream, error) {
	last, err := LastEventID(r)
	if err != nil {
		return nil, err
	}
	s := &Stream{w: w, control: http.NewResponseController(w), last: last}
	// The server's own read timeout would end the request while we wait.
	if err := errors.Join(s.control.SetReadDeadline(time.Time{}), s.extend()); err != nil {
		return nil, fmt.Errorf("open event stream: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // nginx and its like
	w.WriteHeader(http.StatusOK)
	if err := s.comment("open"); err != nil {
		return nil, err
	}
	return s, s.Flush()
}

// LastID returns the cursor that the request brought, or -1 if it brought none.
func (s *Stream) LastID() int64 { return s.last }

// Send writes one event. It leaves with the next Flush or Wait, or sooner when buffers are full.
func (s *Stream) Send(id int64, event string, data []byte) error {
	if id < 0 {
		return fmt.Errorf("send event: id %d is negative", id)
	}
	s.head = append(s.head[:0], "id: "...)
	s.head = strconv.AppendInt(s.head, id, 10)
	return s.send(append(s.head, '\n'), event, data)
}

// SendNoID writes one event that moves no cursor.
func (s *Stream) SendNoID(event string, data []byte) error { return s.send(s.head[:0], event, data) }

func (s *Stream) send(head []byte, event string, data []byte) error {
	head, err := appendType(head, event)
	if err != nil {
		return err
	}
	s.head = slices.Grow(head, 16) // writeData adds a little, and the next event needs no new one
	head = s.head
	if err := writeData(deadlined{s}, head, data); err != nil {
		return fmt.Errorf("send event: %w", err)
	}
	return nil
}

// Flush sends what was written.
func (s *Stream) Flush() error {
	if !s.pending {
		return nil
	}
	// The deadline ends with the write: on HTTP/2 one that passes on an idle stream would reset it.
	if err := errors.Join(s.extend(), s.control.Flush(), s.control.SetWriteDeadline(time.Time{})); err != nil {
		return fmt.Errorf("flush event stream: %w", err)
	}
	s.pending, s.flushed = false, time.Now()
	return nil
}

// Wait flushes and blocks until there is a reason to look for events again: nil when wake delivers, ErrEnded when it was
// closed, the cause when ctx ends, or the error of a keep-alive that could not be written. It sends a comment whenever
// nothing else was sent for wire.Keepalive, however often it is woken for nothing.
func (s *Stream) Wait(ctx context.Context, wake <-chan struct{}) error {
	if err := s.Flush(); err != nil {
		return err
	}
	idle := wire.Keepalive - time.Since(s.flushed)
	if s.timer == nil {
		s.timer = time.NewTimer(idle)
	} else {
		s.timer.Reset(idle)
	}
	for {
		select {
		case <-ctx.Done():
			s.timer.Stop()
			_ = s.extend() // for the last bytes, which net/http writes
			return context.Cause(ctx)
		case _, open := <-wake:
			if !open {
				_ = s.extend()
				return ErrEnded
			}
			return nil
		case <-s.timer.C:
			if err := errors.Join(s.comment("keepalive"), s.Flush()); err != nil {
				return err
			}
			s.timer.Reset(wire.Keepalive)
		}
	}
}

func (s *Stream) comment(text string) error {
	_, err := io.WriteString(deadlined{s}, ":"+text+"\n\n")
	return err
}

func (s *Stream) extend() error { return s.control.SetWriteDeadline(time.Now().Add(writeWithin)) }

// deadlined writes to a stream's reply, giving each piece time of its own.
type deadlined struct{ *Stream }

func (d deadlined) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		if err = d.extend(); err != nil {
			break
		}
		d.pending = true
		var m int
		m, err = d.w.Write(p[:min(len(p), piece)])
		n, p = n+m, p[m:]
	}
	return n, err
}

func appendType(head []byte, event string) ([]byte, error) {
	if strings.ContainsAny(event, "\r\n") {
		return head, fmt.Errorf("send event: type %q has more than one line", event)
	}
	if event == "" {
		return head, nil
	}
	head = append(head, "event: "...)
	head = append(head, event...)
	return append(head, '\n'), nil
}

// writeData writes head, then data as one field a line, then the blank line that ends an event.
func writeData(w io.Writer, head, data []byte) error {
	if bytes.IndexByte(data, '\r') >= 0 {
		data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
		data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
	}
	head = append(head, "data: "...)
	for more := true; more; head = append(head[:0], "\ndata: "...) {
		var line []byte
		line, data, more = bytes.Cut(data, []byte("\n"))
		if _, err := w.Write(head); err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "\n\n")
	return err
}
