package process

import (
	"bytes"
	"strings"
)

const (
	tailSize    = 8 << 10
	defaultLine = 4 << 20
)

// tail keeps the last bytes written to it.
type tail struct {
	buf  []byte
	seen func()
}

func (t *tail) Write(p []byte) (int, error) {
	if t.seen != nil {
		t.seen()
	}
	n := len(p)
	if len(p) > tailSize {
		p = p[len(p)-tailSize:]
	}
	if over := len(t.buf) + len(p) - tailSize; over > 0 {
		t.buf = t.buf[:copy(t.buf, t.buf[over:])]
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

// String is always valid UTF-8 (UD-54).
func (t *tail) String() string { return strings.ToValidUTF8(string(t.buf), "\uFFFD") }

// lines splits what is written to it into lines of bounded length. What is over the bound is dropped and counted.
type lines struct {
	max   int
	call  func([]byte)
	seen  func()
	buf   []byte
	tail  tail
	total int64
	cut   int64
}

func newLines(longest int, call func([]byte)) *lines {
	if longest <= 0 {
		longest = defaultLine
	}
	if call == nil {
		call = func([]byte) {}
	}
	return &lines{max: longest, call: call}
}

func (l *lines) Write(p []byte) (int, error) {
	if l.seen != nil {
		l.seen()
	}
	l.total += int64(len(p))
	_, _ = l.tail.Write(p) // never fails
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			l.add(p)
			return n, nil
		}
		l.add(p[:i])
		l.flush()
		p = p[i+1:]
	}
}

func (l *lines) add(p []byte) {
	if room := l.max - len(l.buf); len(p) > room {
		l.cut += int64(len(p) - room)
		p = p[:room]
	}
	l.buf = append(l.buf, p...)
}

func (l *lines) flush() {
	if len(l.buf) > 0 {
		l.call(bytes.TrimSuffix(l.buf, []byte("\r")))
	}
	if cap(l.buf) > 256<<10 { // one long line must not cost its memory for ever
		l.buf = nil
	}
	l.buf = l.buf[:0]
}
