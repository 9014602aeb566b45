package redact

// The bounds of a match in the source, so that what is held back stays small whatever comes.
const (
	maxGap  = 256 // bytes that are not seen, or not counted, between two symbols
	spanFor = 6   // bytes of source for each byte of the longest value: \u00XX, the widest usual encoding
)

// A lane is a stream of symbols on its way to the matchers: what is not seen is taken out, white space and the plus sign,
// which stands for a space in forms, are passed over.
type lane struct {
	strip  strip
	match  tracker
	shapes *shapes // nil where shapes are not looked for
}

// A node matches one text: the source itself, or what came out of a decoder, each with its escapes and without them. It
// feeds what it reads to decoders of its own, whose results are nodes again, down to the depth of levels.
//
//	          +--> raw ------------------------> needles, shapes
//	symbols --+
//	          +--> cascade of unescape --> free -> needles, shapes
//	                                        +---> base64 x 4 --> nodes one level down
//	                                        +---> hex x 2 -----> nodes one level down
//
// The free lane differs from the raw one only for a short while after an escape sequence. So it exists only then: it begins
// as a copy of the raw lane and ends when both are the same again, and the raw lane feeds the decoders meanwhile.
type node struct {
	scan    *scanner
	level   int
	busy    bool // something is under way here or below
	raw     lane
	free    *lane // kept for its memory while unescaped is false
	escapes *cascade
	emit    func(symbol) // into free

	unescaped bool
	base64    base64Run
	hex       hexRun
}

func newNode(s *scanner, level int) *node {
	n := &node{scan: s, level: level}
	n.raw.strip.open = level > 0
	if level == 0 {
		n.raw.shapes = &shapes{scan: s}
	}
	n.emit = func(x symbol) { n.read(n.free, x, true) }
	return n
}

// feed takes the next symbol of the text.
func (n *node) feed(x symbol) {
	if !n.unescaped {
		if !opens(x.b) {
			n.read(&n.raw, x, true)
			return
		}
		n.divide()
	}
	n.read(&n.raw, x, false)
	n.escapes.feed(0, x, n.emit)
	if n.escapes.idle() && n.raw.same(n.free, n.scan.set.auto) {
		n.unescaped = false
	}
}

// divide makes the free lane a copy of the raw one.
func (n *node) divide() {
	if n.free == nil {
		n.free, n.escapes = &lane{}, &cascade{}
		if n.raw.shapes != nil {
			n.free.shapes = &shapes{scan: n.scan, decoded: true}
		}
	}
	n.unescaped = true
	n.free.strip = n.raw.strip
	n.free.strip.open = true
	if n.scan.set.auto != nil {
		n.free.match.clone(&n.raw.match, n.scan.set.auto)
	}
	if n.free.shapes != nil {
		n.free.shapes.clone(n.raw.shapes)
	}
}

// read takes a symbol into a lane; the one that leads feeds the decoders.
func (n *node) read(l *lane, x symbol, leads bool) {
	kept := l.strip.next(x)
	if kept == 0 {
		n.passOver(l, x)
		return
	}
	n.readKept(l, kept, leads)
}

func (n *node) readKept(l *lane, kept int, leads bool) {
	for i := range kept {
		y := l.strip.out[i]
		if l.shapes != nil {
			l.shapes.feed(y)
		}
		if n.scan.set.auto == nil {
			continue
		}
		switch passedOver[y.b] {
		case counted:
			n.match(l, y)
		case backspace:
			if n.level == 0 {
				l.match.undo()
			}
		default:
			n.passOver(l, y)
		}
		if leads && n.level < levels {
			n.base64.feed(n, y)
			n.hex.feed(n, y)
		}
	}
}

// passOver ends a partial match that too much has come in between of.
func (n *node) passOver(l *lane, x symbol) {
	if (l.match.at != 0 || l.match.before != 0) && x.to-l.match.last > maxGap {
		l.match.drop()
	}
}

// match takes a symbol that counts to the needles.
func (n *node) match(l *lane, y symbol) {
	t, auto := &l.match, n.scan.set.auto
	if t.at != 0 && (y.from-t.last > maxGap || y.to-t.start(auto.states[t.at].depth) > n.scan.set.maxSpan) {
		t.drop()
	}
	s := t.step(auto, y.b, y.from, y.to)
	if n.level > 0 {
		t.before = 0 // backspaces count in the source only
	}
	if s.found >= 0 {
		needle := &n.scan.set.needles[s.found]
		n.scan.hit(t.start(int32(needle.length)), y.to, needle.ref)
	}
}

// pass gives a decoded symbol to a node one level down, which is made when it is first needed: a symbol with which nothing
// can begin is not worth a node, nor the work of one where nothing is under way.
func (n *node) pass(child **node, x symbol) {
	c := *child
	if c == nil || !c.busy {
		if !n.scan.set.begins[n.level+1][x.b] {
			return
		}
		if c == nil {
			c = newNode(n.scan, n.level+1)
			*child = c
		}
	}
	c.feed(x)
	c.busy = !c.idle()
}

func (n *node) idle() bool {
	return !n.unescaped && n.raw.match.at == 0 && n.raw.strip.idle() && n.base64.n == 0 && n.hex.n == 0
}

// end says that the text ends here. The node is as new after it.
func (n *node) end() {
	if n == nil || !n.busy {
		return
	}
	n.flush()
	n.reset()
}

// flush reads what is held, for nothing more comes.
func (n *node) flush() {
	if n.unescaped {
		n.escapes.flush(n.emit)
		n.readKept(n.free, n.free.strip.flush(), true)
	}
	n.readKept(&n.raw, n.raw.strip.flush(), !n.unescaped)
	n.base64.end()
	n.hex.end()
}

func (n *node) reset() {
	n.raw.reset()
	if n.unescaped {
		n.unescaped = false
		*n.escapes = cascade{}
	}
	n.base64.n, n.hex.n = 0, 0
	n.busy = false
}

// hold is where the earliest thing began that may still become a hit.
func (n *node) hold() int64 {
	if n == nil || !n.busy {
		return never
	}
	h := min(n.raw.hold(n.scan.set.auto), n.base64.hold(), n.hex.hold())
	if n.unescaped {
		h = min(h, n.free.hold(n.scan.set.auto), n.escapes.hold())
	}
	return h
}

// partial calls hit for each match that has begun and that the end of the source cuts off.
func (n *node) partial(hit func(start int64, ref string)) {
	if n == nil || !n.busy {
		return
	}
	lanes := []*lane{&n.raw}
	if n.unescaped {
		lanes = append(lanes, n.free)
	}
	for _, l := range lanes {
		if l.shapes != nil {
			l.shapes.partial(func(start int64) { hit(start, patternRef) })
		}
		if auto := n.scan.set.auto; auto != nil {
			if s := auto.states[l.match.at]; s.depth >= minPartial {
				hit(l.match.start(s.depth), n.scan.set.needles[s.some].ref)
			}
		}
	}
	for _, c := range append(n.base64.shifts[:], n.hex.shifts[:]...) {
		c.partial(hit)
	}
}

func (l *lane) hold(auto *automaton) int64 {
	h := l.strip.hold()
	if auto != nil {
		h = min(h, l.match.hold(auto))
	}
	if l.shapes != nil {
		h = min(h, l.shapes.hold())
	}
	return h
}

func (l *lane) same(other *lane, auto *automaton) bool {
	return l.strip.same(&other.strip) && (auto == nil || l.match.same(&other.match, auto)) &&
		(l.shapes == nil || l.shapes.same(other.shapes))
}

func (l *lane) reset() {
	l.strip = strip{plain: l.strip.plain, open: l.strip.open}
	l.match.drop()
	if l.shapes != nil {
		l.shapes.reset()
	}
}

// How a lane takes a byte.
const (
	counted = iota
	ignored
	backspace
)

var passedOver = func() (t [256]byte) {
	for _, b := range []byte("\t\n\v\f\r +") {
		t[b] = ignored
	}
	t['\b'] = backspace
	return t
}()
