package redact

import (
	"unicode"
	"unicode/utf8"
)

// never is an offset behind all others.
const never = int64(1) << 62

// A symbol is a byte of text, and the part of the source that it was made from.
type symbol struct {
	b        byte
	from, to int64
}

// A strip takes out of a stream what is not seen: control characters and sequences (ECMA-48, xterm's), format characters,
// variation selectors and the like. White space and backspaces stay. It never takes more than its limits at once, so no
// unfinished sequence makes it blind.
type strip struct {
	plain   bool // only characters: control sequences stay, without their escape character
	open    bool // of operating system commands and other strings only the escape character is taken
	mode    mode
	taken   int  // bytes of the present sequence
	need    int  // bytes that the present character still needs
	pending int  // bytes of it that are in buf
	last    byte // of a string sequence
	buf     [utf8.UTFMax]symbol
	out     [utf8.UTFMax + 1]symbol
}

type mode byte

const (
	ground  mode = iota
	escape       // after ESC
	charset      // after ESC ( and its like
	csi          // in a control sequence, up to its final byte
	str          // in an operating system command or another string, up to BEL or ST
	strEscape
)

const (
	maxCSI = 64
	maxStr = 4096
	esc    = 0x1b
)

// next takes one symbol and leaves what stays in out; it says how many that are.
func (s *strip) next(x symbol) int {
	if s.mode == ground && s.pending == 0 && x.b >= ' ' && x.b < 0x7f {
		s.out[0] = x
		return 1
	}
	n := 0
	if s.pending > 0 {
		if x.b&0xc0 == 0x80 {
			s.buf[s.pending] = x
			s.pending++
			if s.need--; s.need > 0 {
				return 0
			}
			return s.character()
		}
		n = s.flush()
	}
	switch s.mode {
	case escape:
		switch s.mode = ground; x.b {
		case '[':
			s.begin(csi)
			return n
		case ']', 'P', 'X', '^', '_':
			if !s.open {
				s.begin(str)
				return n
			}
		case '(', ')', '*', '+':
			s.mode = charset
			return n
		} // else only the escape character goes: what follows may be the start of anything
	case charset:
		s.mode = ground
		return n
	case csi:
		s.taken++
		switch {
		case x.b >= '@' && x.b <= '~':
			s.mode = ground
			return n
		case x.b >= ' ' && x.b < '@' && s.taken < maxCSI:
			return n
		}
		s.mode = ground
	case strEscape:
		if x.b == '\\' {
			s.mode = ground
			return n
		}
		s.mode = escape // another sequence, which ends the string
		return s.next(x)
	case str:
		s.taken++
		previous := s.last
		s.last = x.b
		switch {
		case x.b == '\a', x.b == 0x9c && previous == 0xc2:
			s.mode = ground
			return n
		case x.b == esc:
			s.mode = strEscape
			return n
		case x.b != '\n' && s.taken < maxStr:
			return n
		}
		s.mode = ground
	}
	return n + s.after(n, x)
}

// after takes a symbol outside of any sequence; n symbols are in out already.
func (s *strip) after(n int, x symbol) int {
	switch b := x.b; {
	case b == esc:
		if !s.plain {
			s.mode = escape
		}
		return 0
	case b < ' ' && (b < '\b' || b > '\r'), b == 0x7f:
		return 0
	case b >= 0xc2 && b <= 0xf4:
		s.buf[0], s.pending = x, 1
		switch {
		case b < 0xe0:
			s.need = 1
		case b < 0xf0:
			s.need = 2
		default:
			s.need = 3
		}
		return 0
	}
	s.out[n] = x
	return 1
}

func (s *strip) begin(m mode) { s.mode, s.taken, s.last = m, 0, 0 }

// character decides about a character of several bytes, which is complete.
func (s *strip) character() int {
	var b [utf8.UTFMax]byte
	for i := range s.pending {
		b[i] = s.buf[i].b
	}
	r, size := utf8.DecodeRune(b[:s.pending])
	switch {
	case size != s.pending: // bytes, not a character
	case r == 0x9b && !s.plain:
		s.begin(csi)
		s.pending = 0
	case (r == 0x9d || r == 0x90 || r == 0x98 || r == 0x9e || r == 0x9f) && !s.plain && !s.open:
		s.begin(str)
		s.pending = 0
	case unseen(r):
		s.pending = 0
	}
	return s.flush()
}

// flush leaves what is pending in out.
func (s *strip) flush() int {
	n := s.pending
	copy(s.out[:], s.buf[:n])
	s.pending, s.need = 0, 0
	return n
}

// unseen reports whether a reader of the text would not see r, or only as white space.
func unseen(r rune) bool {
	return !unicode.IsGraphic(r) && !unicode.Is(unicode.Co, r) && r != utf8.RuneError || unicode.IsSpace(r) ||
		unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// idle reports whether nothing is under way.
func (s *strip) idle() bool { return s.mode == ground && s.pending == 0 }

// same reports whether both will do the same from here on.
func (s *strip) same(other *strip) bool {
	return s.mode == other.mode && (s.mode == ground || s.taken == other.taken && s.last == other.last) && s.need == other.need &&
		s.pending == other.pending && (s.pending == 0 || s.buf[0].from == other.buf[0].from)
}

// hold is where the character that is pending began.
func (s *strip) hold() int64 {
	if s.pending == 0 {
		return never
	}
	return s.buf[0].from
}
