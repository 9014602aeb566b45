package redact

import "strings"

// The classes of bytes in a run of digits, beside the values of the digits themselves.
const (
	skipped = 0xfe // may stand between digits
	ends    = 0xff // ends the run
)

func classes(digits, between string) (t [256]byte) {
	for i := range t {
		t[i] = ends
	}
	for i := range len(between) {
		t[between[i]] = skipped
	}
	for i := range len(digits) {
		t[digits[i]] = byte(i)
	}
	return t
}

var (
	base64Classes = func() [256]byte {
		t := classes("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", "\t\n\v\f\r ")
		t['-'], t['_'] = 62, 63 // the alphabet for URLs
		return t
	}()
	hexClasses = func() [256]byte {
		t := classes("0123456789abcdef", "\t\n\v\f\r :-,")
		for i, b := range []byte(strings.ToUpper("abcdef")) {
			t[b] = 10 + byte(i)
		}
		return t
	}()
)

// A base64Run decodes a run of base64 digits, in each of the four ways to begin a group: what stands before the secret in
// the encoded text, or is glued to it, moves the bits. Each byte is decoded as soon as its last bit is there.
type base64Run struct {
	n      int // digits so far; above 4 only n modulo 4 is kept
	digit  byte
	from   int64 // of digit
	last   int64 // end of digit
	shifts [4]*node
}

// feed takes a symbol of the text of node n.
func (r *base64Run) feed(n *node, x symbol) {
	v := base64Classes[x.b]
	if v >= skipped {
		if r.n > 0 && (v == ends || x.to-r.last > maxGap) {
			r.end()
		}
		return
	}
	if r.n > 0 && x.from-r.last > maxGap {
		r.end()
	}
	for shift := 0; shift < 4 && shift < r.n; shift++ {
		var b byte
		switch (r.n - shift) & 3 {
		case 0:
			continue
		case 1:
			b = r.digit<<2 | v>>4
		case 2:
			b = r.digit<<4 | v>>2
		case 3:
			b = r.digit<<6 | v
		}
		n.pass(&r.shifts[shift], symbol{b, r.from, x.to})
	}
	r.digit, r.from, r.last = v, x.from, x.to
	if r.n++; r.n == 8 {
		r.n = 4
	}
}

// end ends the run.
func (r *base64Run) end() {
	r.n = 0
	for _, n := range r.shifts {
		n.end()
	}
}

func (r *base64Run) hold() int64 {
	if r.n == 0 {
		return never
	}
	h := r.from
	for _, n := range r.shifts {
		h = min(h, n.hold())
	}
	return h
}

// quiet reports whether nothing is under way but the run itself.
func (r *base64Run) quiet() bool { return r.n == 0 || r.hold() == r.from }

// A hexRun decodes a run of hexadecimal digits, in both ways to make pairs of them. Pairs may stand apart, as dumps and
// fingerprints have them, and have 0x before them.
type hexRun struct {
	n      int // digits so far; above 2 only n modulo 2 is kept
	digit  byte
	from   int64
	last   int64
	shifts [2]*node
}

// maxHexGap is how far apart digits may be.
const maxHexGap = 8

func (r *hexRun) feed(n *node, x symbol) {
	v := hexClasses[x.b]
	switch {
	case r.n > 0 && v != ends && x.from-r.last > maxHexGap:
		r.end()
	case v == ends && r.n > 0 && x.b|0x20 == 'x' && r.digit == 0 && x.from == r.last:
		r.n-- // the 0 of 0x is no digit
		return
	case v == ends && r.n > 0:
		r.end()
	}
	if v >= skipped {
		return
	}
	if r.n > 0 {
		n.pass(&r.shifts[(r.n-1)&1], symbol{r.digit<<4 | v, r.from, x.to})
	}
	r.digit, r.from, r.last = v, x.from, x.to
	if r.n++; r.n == 4 {
		r.n = 2
	}
}

func (r *hexRun) end() {
	r.n = 0
	for _, n := range r.shifts {
		n.end()
	}
}

func (r *hexRun) hold() int64 {
	if r.n == 0 {
		return never
	}
	h := r.from
	for _, n := range r.shifts {
		h = min(h, n.hold())
	}
	return h
}

func (r *hexRun) quiet() bool { return r.n == 0 || r.hold() == r.from }
