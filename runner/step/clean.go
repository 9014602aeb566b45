package step

import (
	"strings"
	"unicode/utf8"
)

// A cleaner makes plain text of what a program printed: escape sequences and control characters but tab and newline are
// gone, invalid UTF-8 is replaced (UD-93, UD-54). It keeps its place between pieces, so that no cut brings a sequence through.
type cleaner struct {
	state state
	begun int    // bytes of the sequence so far
	rest  string // the beginning of a character that a piece ended in
}

type state int

const (
	ground    state = iota
	escape          // after ESC
	control         // in a CSI: parameters, then one final byte
	stringish       // in an OSC, DCS, SOS, PM or APC: up to BEL or ST
	closing         // in one of these, after ESC
)

// longest is how much of a sequence is swallowed. One that never ends must not hide the rest of the output: what comes
// after is shown, as text.
const longest = 4096

// clean makes plain text of a whole text.
func clean(s string) string {
	var c cleaner
	return c.write(s) + c.flush()
}

// write gives the plain text of the next piece.
func (c *cleaner) write(piece string) string {
	if c.state == ground && c.rest == "" && plain(piece) {
		return piece
	}
	piece, c.rest = c.rest+piece, ""
	var out strings.Builder
	for i := 0; i < len(piece); {
		r, n := utf8.DecodeRuneInString(piece[i:])
		if r == utf8.RuneError && n == 1 && !utf8.FullRuneInString(piece[i:]) {
			c.rest = piece[i:]
			break
		}
		i += n
		c.next(r, &out)
	}
	return out.String()
}

// flush gives what the end of the text leaves: a cut character becomes one replacement.
func (c *cleaner) flush() string {
	cut := c.rest != "" && c.state == ground
	*c = cleaner{}
	if cut {
		return string(utf8.RuneError)
	}
	return ""
}

func (c *cleaner) next(r rune, out *strings.Builder) {
	if c.state != ground {
		if c.begun++; c.begun > longest || r == 0x18 || r == 0x1a { // CAN and SUB end a sequence
			c.state, c.begun = ground, 0
		}
	}
	switch c.state {
	case ground:
		c.text(r, out)
	case escape:
		c.afterEscape(r, out)
	case control:
		switch {
		case r >= 0x40 && r <= 0x7e:
			c.state = ground
		case r < 0x20 || r > 0x7e: // not a parameter: the sequence was broken off
			c.state = ground
			c.text(r, out)
		}
	case stringish:
		switch r {
		case 0x07, 0x9c:
			c.state = ground
		case 0x1b:
			c.state = closing
		}
	case closing:
		c.state = ground
		if r != '\\' { // ESC always begins anew
			c.afterEscape(r, out)
		}
	}
}

func (c *cleaner) afterEscape(r rune, out *strings.Builder) {
	switch {
	case r == '[':
		c.state = control
	case r == ']' || r == 'P' || r == 'X' || r == '^' || r == '_':
		c.state = stringish
	case r == 0x1b:
		c.state = escape
	case r >= 0x20 && r <= 0x2f: // an intermediate byte: the final one follows
		c.state = escape
	case r >= 0x30 && r <= 0x7e:
		c.state = ground
	default:
		c.state = ground
		c.text(r, out)
	}
}

// text handles a character outside of sequences, and those that begin one.
func (c *cleaner) text(r rune, out *strings.Builder) {
	switch {
	case r == 0x1b:
		c.state, c.begun = escape, 0
	case r == 0x9b:
		c.state, c.begun = control, 0
	case r == 0x9d || r == 0x90 || r == 0x98 || r == 0x9e || r == 0x9f:
		c.state, c.begun = stringish, 0
	case r == '\t' || r == '\n' || r >= 0x20 && r < 0x7f || r > 0x9f:
		out.WriteRune(r)
	}
}

// plain reports whether a text needs no cleaning, which is nearly always.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 && c != '\t' && c != '\n' || c >= 0x7f {
			return false
		}
	}
	return true
}
