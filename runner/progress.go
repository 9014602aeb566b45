package runner

import (
	"fmt"
	"time"
	"unicode/utf8"

	"runnerd/internal/wire"
)

// mostWaiting bounds the partial output that waits for the link, for each step. The result has it all anyway.
const mostWaiting = 256 << 10

// A trickle is the partial output of one step on its way to the gateway: merged between reports, numbered, and sent again
// under its number until a report that carried it was answered (UD-30).
type trickle struct {
	sent    []wire.Progress // in reports that were not answered yet
	text    []byte          // not numbered yet
	n       int64           // the last number
	skipped int             // bytes that found no room since
	last    time.Time       // when a piece was last numbered
	begun   time.Time       // when the text began to wait
}

// settle is how long a text waits at least: a step that ends within it is told by its result alone, and the words that a
// backend prints at once are one piece.
const settle = 2 * time.Millisecond

// add takes the next piece of output. It reports whether it is the first that waits.
func (t *trickle) add(delta string, now time.Time) bool {
	first := len(t.text) == 0
	if first {
		t.begun = now
	}
	if t.waiting()+len(delta) > mostWaiting {
		t.skipped += len(delta)
		return false
	}
	if t.skipped > 0 {
		t.text = fmt.Appendf(t.text, "\n[... %d bytes are not shown here; the result will have them ...]\n", t.skipped)
		t.skipped = 0
	}
	t.text = append(t.text, delta...)
	return first
}

func (t *trickle) waiting() int {
	n := len(t.text)
	for _, p := range t.sent {
		n += len(p.Delta)
	}
	return n
}

// due is when the text that waits may be sent; zero when there is none.
func (t *trickle) due(every time.Duration) time.Time {
	if len(t.text) == 0 {
		return time.Time{}
	}
	due := t.last.Add(every)
	if settled := t.begun.Add(settle); settled.After(due) {
		due = settled
	}
	return due
}

func (t *trickle) isDue(now time.Time, every time.Duration) bool {
	due := t.due(every)
	return !due.IsZero() && !now.Before(due)
}

// pieces are what a report of now carries: what was sent and not answered, and a new piece if it is time, of at most room
// bytes in all.
func (t *trickle) pieces(ref wire.StepRef, now time.Time, every time.Duration, room int) []wire.Progress {
	used := 0
	for i, p := range t.sent {
		if used += len(p.Delta); used > room && i > 0 {
			return t.sent[:i]
		}
	}
	if n := min(room-used, wire.MaxDelta); n >= utf8.UTFMax && t.isDue(now, every) {
		n = whole(t.text, n)
		t.n++
		t.sent = append(t.sent, wire.Progress{StepRef: ref, N: t.n, Delta: string(t.text[:n])})
		t.text = append([]byte(nil), t.text[n:]...)
		t.last = now
	}
	return t.sent
}

// answered forgets the pieces up to number n: the gateway has them.
func (t *trickle) answered(n int64) {
	for len(t.sent) > 0 && t.sent[0].N <= n {
		t.sent = t.sent[1:]
	}
}

// whole is the largest length of at most n that cuts no character.
func whole(b []byte, n int) int {
	if n >= len(b) {
		return len(b)
	}
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return n
}
