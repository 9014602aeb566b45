package redact

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
)

var (
	// ErrTooShort refuses a value that cannot be masked without masking ordinary text: empty, blank, or under MinLength.
	ErrTooShort = errors.New("too short to be masked")
	// ErrBadReference refuses a reference that cannot stand in a marker.
	ErrBadReference = errors.New("not a reference")
)

// maxReference is the longest reference.
const maxReference = 64

// A Set holds the secrets that are to be masked, each with a reference by which its marker names it. The zero Set knows no
// secret and masks what looks like a token. It may be used from many goroutines; what is added counts at once, for the next
// piece of a stream too.
type Set struct {
	mu      sync.Mutex
	entries map[entry]int // how often each was added
	order   []entry
	now     *compiled // nil after a change
}

type entry struct{ ref, value string }

// compiled is a set as the scanners use it. It does not change.
type compiled struct {
	needles []needle
	auto    *automaton // nil without needles
	shapes  *shapeTable
	first   [256]bool // what a needle can begin with
	starts  [256]bool // what a needle or an escape can begin with
	pairs   pairs     // the same, two bytes of it

	needlePairs pairs                 // two bytes that a needle can begin with
	gates       [levels + 1][256]byte // how gates take a byte, by level
	maxSpan     int64                 // the widest match in the source
	pool        sync.Pool             // of *scanner
}

// Add makes the set mask a secret as [REDACTED:ref]. A reference may have several secrets, an old and a new one: each stays
// until Remove has been called as often as Add. Values under MinLength are refused, and so are those that the marker holds.
func (s *Set) Add(ref string, secret Secret) error {
	value := secret.Reveal()
	switch {
	case len(strings.TrimSpace(value)) < MinLength || len(fold(value)) < minVisible:
		return fmt.Errorf("mask %s: %w", ref, ErrTooShort)
	case !goodReference(ref):
		return fmt.Errorf("mask a secret: %w: %q", ErrBadReference, ref)
	case bytes.Contains(fold(string(appendMarker(nil, ref))), fold(value)):
		return fmt.Errorf("mask %s: %w: it holds the secret, or the secret is a word of every marker", ref, ErrBadReference)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries == nil {
		s.entries = map[entry]int{}
	}
	e := entry{ref, value}
	if s.entries[e]++; s.entries[e] == 1 {
		s.order = append(s.order, e)
		s.now = nil
	}
	return nil
}

// Remove takes back one Add of the same reference and secret.
func (s *Set) Remove(ref string, secret Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := entry{ref, secret.Reveal()}
	if s.entries[e] == 0 {
		return
	}
	if s.entries[e]--; s.entries[e] > 0 {
		return
	}
	delete(s.entries, e)
	for i := range s.order {
		if s.order[i] == e {
			s.order = append(s.order[:i:i], s.order[i+1:]...)
			break
		}
	}
	s.now = nil
}

func goodReference(ref string) bool {
	for i := range len(ref) {
		if !letterOrDigit(ref[i]) && !strings.Contains("._:/@-", ref[i:i+1]) {
			return false
		}
	}
	return ref != "" && len(ref) <= maxReference
}

// compiled gives the set as it is now.
func (s *Set) compiled() *compiled {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		s.now = compile(s.order)
	}
	return s.now
}

func compile(entries []entry) *compiled {
	c := &compiled{shapes: shapeTableOnce()}
	c.pool.New = func() any { return newScanner(c) }
	var symbols [][]byte
	longest := 0
	for _, e := range entries {
		longest = max(longest, len(e.value))
		for _, n := range needles(e.value, e.ref) {
			c.needles = append(c.needles, n)
			symbols = append(symbols, n.symbols)
		}
	}
	c.maxSpan = int64(max(spanFor*longest+2*maxGap, 64<<10))
	if len(symbols) == 0 {
		return c
	}
	c.auto = newAutomaton(symbols)
	for _, n := range symbols {
		c.first[n[0]] = true
		c.needlePairs.add(n[0], n[1])
		c.pairs.add(n[0], n[1])
		c.pairs.add(n[0], '+') // which is passed over, as are these
		c.pairs.add(n[0], '\\')
		for _, b := range []byte{0xc2, 0xcd, 0xd8, 0xe1, 0xe2, 0xe3, 0xef, 0xf3} {
			c.pairs.add(n[0], b) // of characters that are not seen
		}
	}
	c.starts = c.first
	for b := range 256 {
		c.starts[b] = c.starts[b] || opens[b]
		for next := range 256 {
			if opens[b] && opensWith(byte(b), byte(next)) {
				c.pairs.add(byte(b), byte(next))
			}
		}
		for level := range c.gates {
			switch {
			case kinds[b] == ignored && b != '+' && b != '\\', b < ' ', b == 0x7f:
				c.gates[level][b] = transparent
			case level < levels && (base64Classes[b] < skipped || hexClasses[b] != ends || opens[b]):
				c.gates[level][b] = digit
			}
		}
	}
	return c
}

// Bytes masks a whole text.
func (s *Set) Bytes(text []byte) []byte {
	c := s.compiled()
	scan := c.pool.Get().(*scanner)
	defer c.pool.Put(scan)
	return scan.whole(text)
}

// String masks a whole text.
func (s *Set) String(text string) string { return string(s.Bytes([]byte(text))) }

// Contains reports whether there is anything to mask in a text. It is for what must be refused rather than masked, such as
// a registration (redaction case red-090).
func (s *Set) Contains(text []byte) bool { return !bytes.Equal(s.Bytes(text), text) }

// whole masks a text and leaves the scanner as new.
func (s *scanner) whole(text []byte) []byte {
	out := s.finish(s.push(make([]byte, 0, len(text)+32), text))
	s.reset()
	return out
}
