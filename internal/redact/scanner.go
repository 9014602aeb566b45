package redact

import "unicode/utf8"

// A span is a part of the source that is not to be shown.
type span struct {
	start, end int64
	ref        string // of the marker; "" for one that goes on where a marker was written before
}

// patternRef stands in the marker of what is known by its shape only.
const patternRef = "pattern"

// before reports whether s names a union of both: the one that begins first does, then a known value before a shape, then
// the longer. What goes on always does, since its marker is out.
func (s span) before(o span) bool {
	switch {
	case s.ref == "" || o.ref == "":
		return s.ref == ""
	case s.start != o.start:
		return s.start < o.start
	case (s.ref == patternRef) != (o.ref == patternRef):
		return o.ref == patternRef
	}
	return s.end >= o.end
}

// A scanner reads a source byte by byte, finds what is to be masked, and lets go of the rest as soon as it cannot be part of
// anything. All that it decides, it decides by bytes: how they came in pieces makes no difference.
type scanner struct {
	set  *compiled
	root *node
	side *node // reads on where root is inside a control sequence, whose text may hold a secret too
	away bool  // side reads

	pos  int64 // of the next byte
	base int64 // of held[0]
	out  int64 // of the first byte that is not out yet
	held []byte
	span []span // sorted, apart from each other, none before out

	border bool // only report token shapes, in token
	token  bool
}

func newScanner(set *compiled) *scanner {
	s := &scanner{set: set}
	s.begin()
	return s
}

// begin makes the readers anew.
func (s *scanner) begin() {
	s.root = newNode(s, 0)
	s.side, s.away = nil, false
}

// reset makes the scanner ready for another source.
func (s *scanner) reset() {
	s.root.reset()
	s.leave()
	s.pos, s.base, s.out = 0, 0, 0
	s.held, s.span = s.held[:0], s.span[:0]
}

// piece is how much of a long write is read before what can go is let go.
const piece = 32 << 10

// push reads p and appends to dst what can be shown.
func (s *scanner) push(dst, p []byte) []byte {
	for len(p) > 0 {
		n := min(len(p), piece)
		s.held = append(s.held, p[:n]...)
		s.readAll(p[:n])
		p = p[n:]
		limit := s.hold()
		if limit > s.out {
			limit = s.out + int64(wholeRunes(s.held[s.out-s.base:limit-s.base]))
		}
		dst = s.release(dst, limit)
	}
	return dst
}

// readAll reads a piece, most of it on a short way: where nothing special is under way, what is neither special itself nor
// begins an escape needs no more than to be taken.
func (s *scanner) readAll(p []byte) {
	root := s.root
	for i, b := range p {
		if root.unescaped || s.away || b < ' ' || b >= 0x7f || !root.raw.strip.idle() ||
			opens[b] && (i+1 == len(p) || opensWith(b, p[i+1]) || p[i+1] < ' ' || p[i+1] >= 0x7f) {
			s.read(b)
			continue
		}
		root.take(&root.raw, symbol{b, s.pos, s.pos + 1}, true)
		s.pos++
	}
}

func (s *scanner) read(b byte) {
	x := symbol{b, s.pos, s.pos + 1}
	s.pos++
	s.root.feed(x)
	if s.away {
		s.side.feed(x)
		if s.root.raw.strip.mode == ground && !s.side.unescaped && s.side.base64.quiet() && s.side.hex.quiet() &&
			s.root.raw.strip.same(&s.side.raw.strip) && s.root.raw.same(&s.side.raw, s.set.auto) {
			s.side.flush()
			s.leave()
		}
		return
	}
	if s.root.raw.strip.mode != ground {
		if s.side == nil {
			s.side = newNode(s, 0)
			s.side.raw.strip.plain = true
		}
		s.away = true
	}
}

// leave ends the reading of the side node.
func (s *scanner) leave() {
	if s.away {
		s.side.reset()
		s.away = false
	}
}

func (s *scanner) hold() int64 {
	h := min(s.pos, s.root.hold())
	if s.away {
		h = min(h, s.side.hold())
	}
	return h
}

// hit notes that from start to end nothing may be shown, and joins what overlaps.
func (s *scanner) hit(start, end int64, ref string) {
	if end <= s.out {
		return
	}
	n := span{start, end, ref}
	if start < s.out {
		n.start, n.ref = s.out, ""
	}
	i := len(s.span)
	for i > 0 && s.span[i-1].start >= n.end {
		i--
	}
	j := i
	for i > 0 && s.span[i-1].end > n.start {
		i--
		o := s.span[i]
		if o.before(n) {
			n.ref = o.ref
		}
		n.start, n.end = min(n.start, o.start), max(n.end, o.end)
	}
	if i == j {
		s.span = append(s.span, span{})
		copy(s.span[i+1:], s.span[i:])
	} else {
		s.span = append(s.span[:i+1], s.span[j:]...)
	}
	s.span[i] = n
}

// hitShape notes a token.
func (s *scanner) hitShape(shape *shape, start, end int64) {
	if s.border {
		s.token = s.token || !shape.mild
		return
	}
	s.hit(start, end, patternRef)
}

// release appends to dst what lies before limit, with markers for what is masked. Nothing that is still under way begins
// before the limit, so a mask that does has its name. One that reaches beyond goes on without a marker, and whatever overlaps
// it from there belongs to it.
func (s *scanner) release(dst []byte, limit int64) []byte {
	i := 0
	for ; i < len(s.span) && s.span[i].start < limit; i++ {
		n := &s.span[i]
		dst = append(dst, s.held[s.out-s.base:n.start-s.base]...)
		if n.ref != "" {
			dst = appendMarker(dst, n.ref)
		}
		if s.out = min(n.end, limit); n.end > limit {
			n.start, n.ref = limit, ""
			break
		}
	}
	s.span = append(s.span[:0], s.span[i:]...)
	if s.out < limit {
		dst = append(dst, s.held[s.out-s.base:limit-s.base]...)
		s.out = limit
	}
	if gone := int(s.out - s.base); gone == len(s.held) || gone > len(s.held)/2 {
		s.held = append(s.held[:0], s.held[gone:]...)
		s.base = s.out
	}
	return dst
}

// finish reads to the end of a source that is complete.
func (s *scanner) finish(dst []byte) []byte {
	s.root.flush()
	if s.away {
		s.side.flush()
	}
	return s.release(dst, s.pos)
}

// minPartial is the least length of a value's start that is masked where the source is cut off.
const minPartial = 8

// cut reads to the end of a source that was cut off: what looks like the start of a value is masked.
func (s *scanner) cut(dst []byte) []byte {
	hit := func(start int64, ref string) { s.hit(start, s.pos, ref) }
	s.root.partial(hit)
	if s.away {
		s.side.partial(hit)
	}
	return s.finish(dst)
}

func appendMarker(dst []byte, ref string) []byte {
	dst = append(dst, "[REDACTED:"...)
	dst = append(dst, ref...)
	return append(dst, ']')
}

// change goes on with another set of values. What is held is read again; what is masked stays so.
func (s *scanner) change(set *compiled) {
	tokens := s.root.raw.shapes
	if s.root.unescaped && tokens.token == nil {
		tokens = s.root.free.shapes
	}
	s.set = set
	s.begin()
	if tokens.token != nil && tokens.start < s.out {
		s.root.raw.shapes.resume(tokens)
	}
	s.held = append(s.held[:0], s.held[s.out-s.base:]...)
	s.base, s.pos = s.out, s.out
	s.readAll(s.held)
}

// wholeRunes gives the length of the longest start of p that does not end inside a character.
func wholeRunes(p []byte) int {
	for i := len(p) - 1; i >= 0 && i >= len(p)-utf8.UTFMax; i-- {
		if utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				return i
			}
			break
		}
	}
	return len(p)
}
