package sse

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

const (
	otherFields = 1 << 10  // bytes that an event may have besides its data
	keptBuffer  = 64 << 10 // a line buffer that grew beyond this is not kept
)

// A parser turns bytes into events by the rules of the HTML standard, section 9.2.6, and refuses where those would let a
// broken id or an endless event pass.
type parser struct {
	in       *bufio.Reader
	max      int
	numbered bool

	line   []byte // the line being read
	skipLF bool   // the last line ended with CR: an LF that follows belongs to it
	begun  bool   // the first line was read, so no byte order mark is to come
}

// next returns the next event that has data, io.EOF at an end between events, io.ErrUnexpectedEOF at one within.
func (p *parser) next() (Event, error) {
	if cap(p.line) > keptBuffer {
		p.line = nil
	}
	var ev Event
	size, pending, hasData := 0, false, false
	for {
		line, err := p.readLine()
		switch {
		case err == io.EOF && (pending || len(line) > 0 && line[0] != ':'):
			return Event{}, io.ErrUnexpectedEOF
		case err != nil:
			return Event{}, err
		case len(line) == 0 && hasData:
			return ev, nil
		case len(line) == 0:
			ev, size, pending = Event{}, 0, false
			continue
		case line[0] == ':':
			continue
		}
		pending = true
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			size += len(value) + 1
		default:
			size += len(line) + 1
		}
		if size > p.max+otherFields {
			return Event{}, fmt.Errorf("%w: over %d bytes", ErrTooLarge, p.max)
		}
		switch string(name) {
		case "data":
			if hasData {
				ev.Data = append(ev.Data, '\n')
			}
			ev.Data, hasData = append(ev.Data, value...), true
		case "event":
			ev.Type = string(value)
		case "id":
			ev.ID = string(value)
			if _, ok := parseID(ev.ID); p.numbered && !ok || bytes.IndexByte(value, 0) >= 0 {
				return Event{}, fmt.Errorf("%w: %.64q", ErrBadID, value)
			}
		}
	}
}

// readLine returns the next line without its end, which is CR, LF or CRLF. The line is good until the next call. With
// io.EOF comes what followed the last line end.
func (p *parser) readLine() ([]byte, error) {
	p.line = p.line[:0]
	for {
		if _, err := p.in.Peek(1); err != nil {
			return p.line, err
		}
		b, _ := p.in.Peek(p.in.Buffered())
		if p.skipLF && b[0] == '\n' {
			b = b[1:]
			_, _ = p.in.Discard(1)
		}
		p.skipLF = false
		end := bytes.IndexByte(b, '\n')
		upTo := b
		if end >= 0 {
			upTo = b[:end]
		}
		if cr := bytes.IndexByte(upTo, '\r'); cr >= 0 {
			end, p.skipLF = cr, true
		}
		if end < 0 {
			p.line = append(p.line, b...)
			_, _ = p.in.Discard(len(b))
		} else {
			p.line = append(p.line, b[:end]...)
			_, _ = p.in.Discard(end + 1)
		}
		if len(p.line) > p.max+otherFields {
			return nil, fmt.Errorf("%w: a line of over %d bytes", ErrTooLarge, p.max)
		}
		if end >= 0 {
			line := p.line
			if !p.begun {
				line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
			}
			p.begun = true
			return line, nil
		}
	}
}
