package redact

// A lane is a stream of symbols on its way to the matchers: what is not seen is taken out. White space, the plus sign that
// stands for it in forms, quotes and backslashes are passed over, since wrapping and quoting put them in and take them out.
type lane struct {
	strip  strip
	match  tracker
	shapes *shapes // nil where shapes are not looked for
}

func (l *lane) hold(auto *automaton, first *[256]bool) int64 {
	h := l.strip.hold()
	if auto != nil {
		h = min(h, l.match.hold(auto, first))
	}
	if l.shapes != nil {
		h = min(h, l.shapes.hold())
	}
	return h
}

func (l *lane) same(other *lane, auto *automaton) bool {
	if l.shapes != nil && l.shapes.recent != other.shapes.recent {
		return false // most often
	}
	return other.strip.idle() && (auto == nil || l.match.same(&other.match, auto)) &&
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

var kinds = func() (t [256]byte) {
	for _, b := range []byte("\t\n\v\f\r +\\'\"") {
		t[b] = ignored
	}
	t['\b'] = backspace
	return t
}()

// pairs is a set of two bytes each.
type pairs [1024]uint64

func (p *pairs) add(a, b byte) { p[uint16(a)<<2|uint16(b)>>6] |= 1 << (b & 63) }

func (p *pairs) has(a, b byte) bool { return p[uint16(a)<<2|uint16(b)>>6]>>(b&63)&1 != 0 }
