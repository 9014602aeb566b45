package redact

import (
	"math/bits"
	"strings"
)

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
		t := classes("0123456789abcdef", "\t\n\v\f\r :-,+")
		for i, b := range []byte(strings.ToUpper("abcdef")) {
			t[b] = 10 + byte(i)
		}
		return t
	}()
)

// The least numbers of digits that can hold a needle. Fewer are not worth decoding, and ordinary words have fewer.
const (
	minBase64 = (minVisible*8 + 5) / 6
	minHex    = 2 * minVisible
)

// ring is how many digits a run looks back on: eight bytes, each with a byte after it that is not seen and 0x before it.
const ring = 64

// noDigit stands for the x of 0x, which makes the 0 before it the end of a group.
const noDigit = 0xff

// maxHexGap is how far apart hexadecimal digits may be.
const maxHexGap = 256

// A run decodes a run of digits, in each of the ways to group them: what stands before a secret in the encoded text, or is
// glued to it, moves the groups. Each byte is decoded as soon as its last bit is there.
//
// Base64 digits may have white space between them, for encoders wrap lines, but not behind a short word. Pairs of
// hexadecimal digits may stand apart, as dumps and fingerprints have them, and have 0x before them.
//
// A run is decoded from its first digit on, but not before it has enough of them or somebody asks what to hold back: when it
// begins makes no difference to what comes out.
type run struct {
	n     int // digits so far
	word  int // digits since the last white space
	gap   bool
	live  bool
	last  [ring]symbol // the last digits
	value [ring]byte
	group [4]group // two of hexadecimal digits
}

// A group is one way to group digits, with the node that reads what comes out. Before anything is under way there, the group
// spares it most of what a decoder makes of ordinary text: the node gets only what begins like a needle or an escape
// sequence, and what may be a run of digits in its turn.
type group struct {
	node   *node
	busy   bool // the node is
	digits byte // a bit for each of the last eight bytes: it is a digit in the sense below
	before byte // the last byte, 0 for none
	at     int  // where in the run it ended
}

// How a group takes a byte.
const (
	other       = iota
	digit       // may belong to a run of digits, or begins an escape that may
	transparent // is not seen, or is white space
)

// feedBase64 takes a symbol of the text of node n.
func (r *run) feedBase64(n *node, x symbol) {
	v := base64Classes[x.b]
	if r.n > 0 && (v == ends || x.to-r.last[(r.n-1)&(ring-1)].to > maxGap || v != skipped && r.gap && r.word < minBase64) {
		r.end()
	}
	if v >= skipped {
		r.gap = true // of no meaning behind an end
		return
	}
	if r.gap {
		r.gap, r.word = false, 0
	}
	r.word++
	r.last[r.n&(ring-1)], r.value[r.n&(ring-1)] = x, v
	if r.live {
		r.decodeBase64(n, r.n)
	}
	if r.n++; r.n == minBase64 && !r.live {
		r.startBase64(n)
	}
}

func (r *run) startBase64(n *node) {
	r.live = true
	for i := range r.n {
		r.decodeBase64(n, i)
	}
}

// decodeBase64 decodes the bytes that digit i completes.
func (r *run) decodeBase64(n *node, i int) {
	if i == 0 {
		return
	}
	v, w := r.value[(i-1)&(ring-1)], r.value[i&(ring-1)]
	r.pass(n, (i-1)&3, i, v<<2|w>>4)
	if i > 1 {
		r.pass(n, (i-2)&3, i, v<<4|w>>2)
	}
	if i > 2 {
		r.pass(n, (i-3)&3, i, v<<6|w)
	}
}

// feedHex takes a symbol of the text of node n.
func (r *run) feedHex(n *node, x symbol) {
	v := hexClasses[x.b]
	if r.n > 0 {
		switch last := &r.last[(r.n-1)&(ring-1)]; {
		case v == ends && x.b|0x20 == 'x' && last.b == '0' && !r.gap:
			v = noDigit
		case v == ends, x.from-last.to > maxHexGap:
			r.end()
		}
	}
	if r.gap = v == skipped; r.gap || v == ends && r.n == 0 {
		return
	}
	r.last[r.n&(ring-1)], r.value[r.n&(ring-1)] = x, v
	if r.live {
		r.decodeHex(n, r.n)
	}
	if r.n++; r.n == minHex && !r.live {
		r.startHex(n)
	}
}

func (r *run) startHex(n *node) {
	r.live = true
	for i := range r.n {
		r.decodeHex(n, i)
	}
}

func (r *run) decodeHex(n *node, i int) {
	if b, ok := r.decoded(true, (i-1)&1, i); ok && i > 0 {
		r.pass(n, (i-1)&1, i, b)
	}
}

// pass gives group k the byte that digit i completes.
func (r *run) pass(n *node, k, i int, b byte) {
	g := &r.group[k]
	if g.busy {
		g.node.feed(symbol{b, r.last[(i-1)&(ring-1)].from, r.last[i&(ring-1)].to})
		g.busy = !g.node.idle()
		return
	}
	before, bit := g.before, n.digits[b]
	if bit == transparent {
		return
	}
	if i-g.at > 24 { // too much between them that is not seen
		before, g.digits = 0, 0
	}
	g.digits = g.digits<<1 | bit
	g.before, g.at = b, i
	if g.digits == 0xff || n.pairs.has(before, b) {
		r.open(n, k, i)
	}
}

// decoded gives the byte that digit i completes in group k, if it does.
func (r *run) decoded(hex bool, k, i int) (b byte, ok bool) {
	v, w := r.value[(i-1)&(ring-1)], r.value[i&(ring-1)]
	switch {
	case hex:
		return v<<4 | w, (i-k)&1 == 1 && v != noDigit && w != noDigit
	case (i-k)&3 == 1:
		return v<<2 | w>>4, true
	case (i-k)&3 == 2:
		return v<<4 | w>>2, true
	}
	return v<<6 | w, (i-k)&3 == 3
}

// back gives the digit that completes the first of the last count bytes of group k up to digit i, those that are not seen
// left out.
func (r *run) back(n *node, k, i, count int) int {
	first := i
	for ; count > 0 && i > max(k, r.n-ring+1, 0); i-- {
		if b, ok := r.decoded(r == &n.hex, k, i); ok && n.digits[b] != transparent {
			first = i
			count--
		}
	}
	return first
}

// open lets through to the node of group k what may be the start of something.
func (r *run) open(n *node, k, i int) {
	g := &r.group[k]
	count := max(2, bits.TrailingZeros8(^g.digits))
	if g.node == nil {
		g.node = newNode(n.scan, n.level+1)
	}
	for j := r.back(n, k, i, count); j <= i; j++ {
		if b, ok := r.decoded(r == &n.hex, k, j); ok {
			g.node.feed(symbol{b, r.last[(j-1)&(ring-1)].from, r.last[j&(ring-1)].to})
		}
	}
	g.before, g.digits = 0, 0
	g.busy = !g.node.idle()
}

// end ends the run. What was not let through to a node is too short to matter.
func (r *run) end() {
	if r.live {
		for k := range r.group {
			g := &r.group[k]
			g.before, g.digits, g.at = 0, 0, 0
			if g.busy {
				g.node.flush()
				g.node.reset()
				g.busy = false
			}
		}
	}
	r.n, r.word, r.live, r.gap = 0, 0, false, false
}

// hold is where the earliest thing began that may still become a hit.
func (r *run) hold(n *node) int64 {
	switch {
	case r.n == 0:
		return never
	case r.live:
	case r == &n.hex:
		r.startHex(n)
	default:
		r.startBase64(n)
	}
	h := r.last[(r.n-1)&(ring-1)].from
	for k := range r.group {
		switch g := &r.group[k]; {
		case g.busy:
			h = min(h, g.node.hold())
		case g.before != 0 && (g.digits&1 != 0 || n.set.starts[g.before]):
			count := max(1, bits.TrailingZeros8(^g.digits))
			h = min(h, r.last[(r.back(n, k, g.at, count)-1)&(ring-1)].from)
		}
	}
	return h
}

// quiet reports whether nothing is under way but the run itself.
func (r *run) quiet() bool {
	for k := range r.group {
		if g := &r.group[k]; g.busy || g.before != 0 {
			return false
		}
	}
	return r.n == 0 || r.n >= minHex
}
