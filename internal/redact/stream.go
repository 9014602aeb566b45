package redact

import (
	"io"
	"sync"
)

// A Stream masks a text that comes in pieces, and finds a secret however the pieces cut it. It holds back only what may be
// the start of a secret, never for a time: a source that stalls in the middle of a value shows nothing of it. A Stream is
// for one goroutine.
type Stream struct {
	set  *Set
	scan *scanner
	buf  []byte
}

// Stream begins a text.
func (s *Set) Stream() *Stream { return &Stream{set: s, scan: newScanner(s.compiled())} }

// Push takes the next piece and gives what can be shown by now, which ends at the edge of a character.
func (s *Stream) Push(piece string) string { return string(s.push([]byte(piece))) }

// Finish ends a text that is complete and gives the rest.
func (s *Stream) Finish() string { return string(s.scan.finish(nil)) }

// Cut ends a text that was cut off, and gives the rest. What may be the start of a secret is masked.
func (s *Stream) Cut() string { return string(s.scan.cut(nil)) }

// Held is how many bytes are held back.
func (s *Stream) Held() int { return int(s.scan.pos - s.scan.out) }

func (s *Stream) push(piece []byte) []byte {
	if now := s.set.compiled(); now != s.scan.set {
		s.scan.change(now)
	}
	s.buf = s.scan.push(s.buf[:0], piece)
	return s.buf
}

// A Writer masks what is written through it. Several goroutines may write: a value that is spread over a child's two
// outputs is found when both go through one Writer.
type Writer struct {
	mu     sync.Mutex
	w      io.Writer
	stream *Stream
	ended  bool
	err    error
}

// Writer begins a text whose masked form goes to w.
func (s *Set) Writer(w io.Writer) *Writer { return &Writer{w: w, stream: s.Stream()} }

// Write takes the next piece and writes what can be shown by now. An error of the writer behind it is for ever.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return 0, io.ErrClosedPipe
	}
	if w.err != nil {
		return 0, w.err
	}
	for rest := p; len(rest) > 0; {
		n := min(len(rest), piece)
		w.pass(w.stream.push(rest[:n]))
		rest = rest[n:]
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// Finish ends a text that is complete, such as that of a child that ended well, and writes the rest.
func (w *Writer) Finish() error { return w.end((*Stream).Finish) }

// Close ends a text that may have been cut off, and writes the rest. What may be the start of a secret is masked, so Close
// is always safe. After Finish it does nothing.
func (w *Writer) Close() error { return w.end((*Stream).Cut) }

func (w *Writer) end(last func(*Stream) string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.ended = true
		w.pass([]byte(last(w.stream)))
	}
	return w.err
}

func (w *Writer) pass(p []byte) {
	if len(p) > 0 && w.err == nil {
		_, w.err = w.w.Write(p)
	}
}

// Held is how many bytes are held back.
func (w *Writer) Held() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stream.Held()
}
