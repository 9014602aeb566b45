package redact

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxEscape is the longest escape sequence in bytes: a pair of \u, 12, and some room for entities.
const maxEscape = 16

// opens has the bytes that can begin an escape sequence.
var opens = [256]bool{'\\': true, '%': true, '&': true}

// openings has the two bytes that an escape sequence can begin with.
var openings = func() *pairs {
	var p pairs
	for b := range 256 {
		next := byte(b)
		if hexDigits[next] < 16 || next == 'u' {
			p.add('%', next)
		}
		if letterOrDigit(next) || next == '#' {
			p.add('&', next)
		}
		if next == '\\' || next >= '0' && next <= '7' || strings.IndexByte("nrtbfvaexuU", next) >= 0 {
			p.add('\\', next)
		}
	}
	return &p
}()

// opensWith reports whether b and next can begin an escape sequence, on the first level or on a later one.
func opensWith(b, next byte) bool { return openings.has(b, next) || opens[b] && opens[next] }

// A decoding is what unescape makes of the start of a text.
type decoding struct {
	used int // bytes of the text, 0 if it does not begin with an escape sequence
	n    int // bytes of out
	out  [utf8.UTFMax]byte
	more bool // it cannot be told yet
}

// unescape decodes the escape sequence with which text begins: of URLs (%41, %u0041), of strings in JSON, JavaScript, C, Go
// and Python (\\, \n, \x41, \u0041, \u{41}, \101), of HTML and XML (&lt;, &#65;, &#x41;). A backslash before any other
// character is none: backslashes and quotes are passed over, so it makes no difference how often they were escaped or doubled.
// With last set there is no more text to come.
func unescape(text []byte, last bool) decoding {
	d := decoding{more: true}
	if len(text) > 1 {
		switch text[0] {
		case '%':
			d = unescapePercent(text)
		case '&':
			d = unescapeEntity(text)
		case '\\':
			d = unescapeBackslash(text)
		}
	}
	if d.more && last {
		return decoding{}
	}
	return d
}

// hexValue gives the number that the first n digits of text spell. With too few of them, all good, ok is true and more set.
func hexValue(text []byte, n int) (v rune, ok, more bool) {
	for i := range n {
		if i >= len(text) {
			return 0, true, true
		}
		digit := hexDigits[text[i]]
		if digit > 15 {
			return 0, false, false
		}
		v = v<<4 | rune(digit)
	}
	return v, true, false
}

func decodedByte(b byte, used int) decoding {
	return decoding{used: used, n: 1, out: [utf8.UTFMax]byte{b}}
}

func decodedRune(r rune, used int) decoding {
	if !utf8.ValidRune(r) {
		return decoding{}
	}
	d := decoding{used: used}
	d.n = utf8.EncodeRune(d.out[:], r)
	return d
}

func unescapePercent(text []byte) decoding {
	if text[1] == 'u' {
		return unescapeUTF16(text, '%')
	}
	switch v, ok, more := hexValue(text[1:], 2); {
	case !ok:
		return decoding{}
	case more:
		return decoding{more: true}
	default:
		return decodedByte(byte(v), 3)
	}
}

// unescapeUTF16 decodes \uXXXX or %uXXXX, or two of them that are a surrogate pair.
func unescapeUTF16(text []byte, lead byte) decoding {
	v, ok, more := hexValue(text[2:], 4)
	switch {
	case !ok:
		return decoding{}
	case more:
		return decoding{more: true}
	case !utf16.IsSurrogate(v):
		return decodedRune(v, 6)
	case len(text) > 6 && text[6] != lead, len(text) > 7 && text[7] != 'u':
		return decoding{}
	case len(text) < 8:
		return decoding{more: true}
	}
	low, ok, more := hexValue(text[8:], 4)
	switch {
	case !ok:
		return decoding{}
	case more:
		return decoding{more: true}
	}
	if r := utf16.DecodeRune(v, low); r != utf8.RuneError {
		return decodedRune(r, 12)
	}
	return decoding{}
}

func unescapeBackslash(text []byte) decoding {
	switch c := text[1]; c {
	case '\\':
		return decodedByte('\\', 2)
	case 'n':
		return decodedByte('\n', 2)
	case 'r':
		return decodedByte('\r', 2)
	case 't':
		return decodedByte('\t', 2)
	case 'b':
		return decodedByte('\b', 2)
	case 'f':
		return decodedByte('\f', 2)
	case 'v':
		return decodedByte('\v', 2)
	case 'a':
		return decodedByte('\a', 2)
	case 'e':
		return decodedByte(esc, 2)
	case 'x', 'U':
		digits := map[byte]int{'x': 2, 'U': 8}[c]
		v, ok, more := hexValue(text[2:], digits)
		switch {
		case !ok:
			return decoding{}
		case more:
			return decoding{more: true}
		case c == 'x':
			return decodedByte(byte(v), 4)
		}
		return decodedRune(v, 10)
	case 'u':
		if len(text) > 2 && text[2] == '{' {
			return unescapeBraces(text)
		}
		return unescapeUTF16(text, '\\')
	case '0', '1', '2', '3', '4', '5', '6', '7':
		return unescapeOctal(text)
	}
	return decoding{}
}

func unescapeBraces(text []byte) decoding {
	v := rune(0)
	for i, b := range text[3:] {
		digit := hexDigits[b]
		switch {
		case b == '}' && i > 0:
			return decodedRune(v, 3+i+1)
		case digit > 15, i == 6:
			return decoding{}
		}
		v = v<<4 | rune(digit)
	}
	return decoding{more: true}
}

func unescapeOctal(text []byte) decoding {
	v := 0
	for i, b := range text[1:] {
		switch {
		case b < '0' || b > '7':
			if i == 1 && v == 0 {
				return decodedByte(0, 2)
			}
			return decoding{}
		case i == 2 && v<<3|int(b-'0') < 256:
			return decodedByte(byte(v<<3|int(b-'0')), 4)
		case i == 2:
			return decoding{}
		}
		v = v<<3 | int(b-'0')
	}
	return decoding{more: true}
}

// entity gives the character of a named entity that stands for a byte of ASCII or a space, or 0.
func entity(name string) rune {
	switch name {
	case "amp", "AMP":
		return '&'
	case "lt", "LT":
		return '<'
	case "gt", "GT":
		return '>'
	case "quot", "QUOT":
		return '"'
	case "apos":
		return '\''
	case "nbsp":
		return '\u00a0'
	case "Tab":
		return '\t'
	case "NewLine":
		return '\n'
	}
	const names, characters = " sol bsol plus equals num percnt commat colon semi comma period excl dollar lpar rpar ast lowbar " +
		"hyphen dash lsqb rsqb lbrack rbrack lcub rcub lbrace rbrace verbar vert Hat grave quest ",
		"/\\+=#%@:;,.!$()*_--[][]{}{}||^`?"
	if before, _, ok := strings.Cut(names, " "+name+" "); ok && name != "" {
		return rune(characters[strings.Count(before, " ")])
	}
	return 0
}

func unescapeEntity(text []byte) decoding {
	end := -1
	for i, b := range text[1:] {
		if b == ';' {
			end = i + 1
			break
		}
		if !letterOrDigit(b) && !(b == '#' && i == 0) || i == 9 {
			return decoding{}
		}
	}
	if end < 0 {
		return decoding{more: true}
	}
	name := string(text[1:end])
	digits, numeric := strings.CutPrefix(name, "#")
	if !numeric {
		if r := entity(name); r != 0 {
			return decodedRune(r, end+1)
		}
		return decoding{}
	}
	base := rune(10)
	if len(digits) > 0 && digits[0]|0x20 == 'x' {
		base, digits = 16, digits[1:]
	}
	v := rune(0)
	for i := range len(digits) {
		digit := rune(hexDigits[digits[i]])
		if v = v*base + digit; digit >= base || v > utf8.MaxRune {
			return decoding{}
		}
	}
	if digits == "" {
		return decoding{}
	}
	return decodedRune(v, end+1)
}

func letterOrDigit(b byte) bool {
	return b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'z'
}

// hexDigits has the value of each hexadecimal digit, 255 for other bytes.
var hexDigits = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for v, b := range []byte("0123456789abcdef") {
		t[b], t[strings.ToUpper(string(b))[0]] = byte(v), byte(v)
	}
	return t
}()
