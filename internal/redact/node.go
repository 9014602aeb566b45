package redact

// The bounds of a match in the source, so that what is held back stays small whatever comes.
const (
	maxGap  = 1024 // bytes that are not seen, or not counted, between two symbols
	spanFor = 6    // bytes of source for each byte of the longest value: \u00XX, the widest usual encoding
)

// A node matches one text: the source itself, or what came out of a decoder, each with its escapes and without them. It
// feeds what it reads to decoders of its own, whose results are nodes again, down to the depth of levels.
//
//	                     +--> raw ----------------------------> needles, shapes
//	symbols --> strip ---+
//	                     +--> cascade --> strip --> free -----> needles, shapes
//	                          of unescape            +--------> base64 x 4 --> nodes one level down
//	                                                 +--------> hex x 2 -----> nodes one level down
//
// The free lane differs from the raw one only for a short while after an escape sequence. So it exists only then: it begins
// as a copy of the raw lane and ends when both are the same again, and the raw lane feeds the decoders meanwhile.
type node struct {
	scan    *scanner
	set     *compiled
	pairs   *pairs // of set, and how groups take bytes on the level below
	digits  *[256]byte
	level   int
	raw     lane
	free    *lane // kept for its memory while unescaped is false
	escapes *cascade
	emit    func(symbol) // into free

	seen      int64 // where the last symbol that is seen ended
	unescaped bool
	base64    run
	hex       run
}

func newNode(s *scanner, level int) *node {
	n := &node{scan: s, set: s.set, level: level}
	n.pairs = &s.set.pairs
	if level < levels {
		n.digits = &s.set.gates[level+1]
	}
	n.raw.strip.open = level > 0
	if level == 0 {
		n.raw.shapes = &shapes{scan: s, table: s.set.shapes}
	}
	n.emit = n.readFree
	return n
}

// feed takes the next symbol of the text.
func (n *node) feed(x symbol) {
	kept := n.raw.strip.next(x)
	if kept == 0 {
		n.passOver(&n.raw, x)
		if n.unescaped {
			if x.to-n.seen > maxGap {
				n.escapes.flush(n.emit)
			}
			if n.escapes.idle() {
				n.passOver(n.free, x)
			}
		}
	}
	for i := range kept {
		n.read(n.raw.strip.out[i])
	}
}

// read takes a symbol that is seen.
func (n *node) read(x symbol) {
	n.seen = x.to
	if !n.unescaped {
		if !opens[x.b] {
			n.take(&n.raw, x, true)
			return
		}
		n.divide()
	}
	n.take(&n.raw, x, false)
	if opens[x.b] || !n.escapes.idle() {
		n.escapes.feed(0, x, n.emit)
	} else {
		n.readFree(x)
	}
	if n.escapes.idle() && n.raw.same(n.free, n.set.auto) {
		n.unescaped = false
	}
}

// readFree takes a symbol that is free of escapes. It may be one that is not seen, which an escape stood for.
func (n *node) readFree(x symbol) {
	kept := n.free.strip.next(x)
	if kept == 0 {
		n.passOver(n.free, x)
	}
	n.takeFree(kept)
}

func (n *node) takeFree(kept int) {
	for i := range kept {
		n.take(n.free, n.free.strip.out[i], true)
	}
}

// divide makes the free lane a copy of the raw one.
func (n *node) divide() {
	if n.free == nil {
		n.free, n.escapes = &lane{}, &cascade{}
		if n.raw.shapes != nil {
			n.free.shapes = &shapes{scan: n.scan, table: n.set.shapes, decoded: true}
		}
	}
	n.unescaped = true
	n.free.strip = strip{open: true}
	if n.set.auto != nil {
		n.free.match.clone(&n.raw.match, n.set.auto)
	}
	if n.free.shapes != nil {
		n.free.shapes.clone(n.raw.shapes)
	}
}

// take takes a symbol into a lane; the one that leads feeds the decoders.
func (n *node) take(l *lane, y symbol, leads bool) {
	if sh := l.shapes; sh != nil {
		sh.recent = sh.recent<<8 | uint64(y.b)
		if sh.busy || sh.table.pairs.has(byte(sh.recent>>8), y.b) {
			sh.take(y)
		}
		sh.from, sh.to = y.from, y.to
	}
	if n.set.auto == nil {
		return
	}
	switch kinds[y.b] {
	case counted:
		if l.match.at != 0 || n.set.needlePairs.has(l.match.one.b, y.b) {
			n.match(l, y)
		} else {
			l.match.pass(y)
		}
	case backspace:
		if n.level == 0 {
			l.match.undo()
		}
	default:
		l.match.keep()
		n.passOver(l, y)
	}
	if leads && n.level < levels {
		n.base64.feedBase64(n, y)
		if n.hex.n > 0 || hexClasses[y.b] < skipped {
			n.hex.feedHex(n, y)
		}
	}
}

// passOver ends a partial match that too much has come in between of.
func (n *node) passOver(l *lane, x symbol) {
	if t := &l.match; (t.at != 0 || t.before != 0 || t.one.b != 0) && x.to-t.last > maxGap {
		t.drop()
	}
	if sh := l.shapes; sh != nil && sh.recent != 0 && x.to-sh.to > maxGap {
		sh.reset()
	}
}

// match takes a symbol that counts to the needles.
func (n *node) match(l *lane, y symbol) {
	t, auto := &l.match, n.set.auto
	switch {
	case y.from-t.last > maxGap, t.at != 0 && y.to-t.start(auto.states[t.at].depth) > n.set.maxSpan:
		t.drop()
		t.pass(y)
		return
	case t.at == 0:
		t.step(auto, t.one)
	}
	s := t.step(auto, y)
	if n.level > 0 {
		t.before = 0 // backspaces count in the source only
	}
	if s.found >= 0 {
		needle := &n.set.needles[s.found]
		n.scan.hit(t.start(int32(needle.length)), y.to, needle.ref)
	}
}

func (n *node) idle() bool {
	return !n.unescaped && n.raw.match.at == 0 && !n.set.first[n.raw.match.one.b] && n.raw.strip.idle() && n.base64.n == 0 && n.hex.n == 0
}

// flush reads what is held, for nothing more comes.
func (n *node) flush() {
	for i := range n.raw.strip.flush() {
		n.read(n.raw.strip.out[i])
	}
	if n.unescaped {
		n.escapes.flush(n.emit)
		n.takeFree(n.free.strip.flush())
	}
	n.base64.end()
	n.hex.end()
}

func (n *node) reset() {
	n.raw.reset()
	if n.unescaped {
		n.unescaped = false
		*n.escapes = cascade{}
	}
	n.base64.end()
	n.hex.end()
}

// hold is where the earliest thing began that may still become a hit.
func (n *node) hold() int64 {
	h := min(n.raw.hold(n.set.auto, &n.set.first), n.base64.hold(n), n.hex.hold(n))
	if n.unescaped {
		h = min(h, n.free.hold(n.set.auto, &n.set.first), n.escapes.hold())
	}
	return h
}

// partial calls hit for each match that has begun and that the end of the source cuts off.
func (n *node) partial(hit func(start int64, ref string)) {
	lanes := []*lane{&n.raw}
	if n.unescaped {
		lanes = append(lanes, n.free)
	}
	for _, l := range lanes {
		if l.shapes != nil {
			l.shapes.partial(func(start int64) { hit(start, patternRef) })
		}
		if auto := n.set.auto; auto != nil {
			if s := auto.states[l.match.at]; s.depth >= minPartial {
				hit(l.match.start(s.depth), n.set.needles[s.some].ref)
			}
		}
	}
	for _, g := range append(n.base64.group[:], n.hex.group[:]...) {
		if g.busy {
			g.node.partial(hit)
		}
	}
}
