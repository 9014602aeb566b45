package redact

// levels is how many encodings on top of each other are seen through.
const levels = 3

// A cascade undoes escapes level by level, each level on what the one before made of the text.
type cascade [levels]struct {
	n   int
	buf [maxEscape]symbol
}

// feed takes a symbol of text into level i; what comes out of the last level goes to emit.
func (c *cascade) feed(i int, x symbol, emit func(symbol)) {
	if i == levels {
		emit(x)
		return
	}
	l := &c[i]
	if l.n == 1 && !openings.has(l.buf[0].b, x.b) {
		l.n = 0
		c.feed(i+1, l.buf[0], emit)
	}
	if l.n == 0 && !opens[x.b] {
		c.feed(i+1, x, emit)
		return
	}
	l.buf[l.n] = x
	if l.n++; l.n > 1 {
		c.settle(i, false, emit)
	}
}

// settle decodes what level i holds as far as it can be told, or to the end.
func (c *cascade) settle(i int, last bool, emit func(symbol)) {
	l := &c[i]
	for l.n > 0 {
		var text [maxEscape]byte
		for k := range l.n {
			text[k] = l.buf[k].b
		}
		d := unescape(text[:l.n], last || l.n == maxEscape)
		if d.more {
			return
		}
		first, end := l.buf[0], l.buf[max(d.used, 1)-1].to
		l.n = copy(l.buf[:], l.buf[max(d.used, 1):l.n])
		if d.used == 0 {
			c.feed(i+1, first, emit)
		}
		for _, b := range d.out[:d.n] {
			c.feed(i+1, symbol{b, first.from, end}, emit)
		}
		for l.n > 0 && !opens[l.buf[0].b] {
			x := l.buf[0]
			l.n = copy(l.buf[:], l.buf[1:l.n])
			c.feed(i+1, x, emit)
		}
	}
}

// flush decodes what is held, for nothing more comes.
func (c *cascade) flush(emit func(symbol)) {
	for i := range c {
		c.settle(i, true, emit)
	}
}

// idle reports whether nothing is held.
func (c *cascade) idle() bool { return c[0].n == 0 && c[1].n == 0 && c[2].n == 0 }

// hold is where the earliest sequence began that is not decoded yet.
func (c *cascade) hold() int64 {
	h := never
	for i := range c {
		if c[i].n > 0 {
			h = min(h, c[i].buf[0].from)
		}
	}
	return h
}

// unescapeAll undoes all levels of escapes of a whole text.
func unescapeAll(text string) string {
	var c cascade
	var out []byte
	emit := func(x symbol) { out = append(out, x.b) }
	for i := range len(text) {
		c.feed(0, symbol{b: text[i]}, emit)
	}
	c.flush(emit)
	return string(out)
}
