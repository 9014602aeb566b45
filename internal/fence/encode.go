package fence

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// fit gives the longest start of content, ending at the edge of a code point, whose marked and encoded lines have at most
// room bytes; all of it when room is negative.
func fit(content string, room int) string {
	if room < 0 {
		return content
	}
	const line = len("\n") + markLength + len(bar)
	used := line
	for i := 0; i < len(content); {
		r, size := utf8.DecodeRuneInString(content[i:])
		switch {
		case r == '\n':
			used += line
		case r == utf8.RuneError && size == 1:
			used += len(string(utf8.RuneError)) // see Block.Lossy
		default:
			if e := escape(content[i:], r); e != "" {
				used += len(e)
			} else {
				used += size
			}
		}
		if used > room {
			return content[:i]
		}
		i += size
	}
	return content
}

// encode writes one line of content.
func encode(b *strings.Builder, line string) {
	start := 0
	for i, r := range line {
		if e := escape(line[i:], r); e != "" {
			b.WriteString(line[start:i])
			b.WriteString(e)
			start = i + utf8.RuneLen(r)
		}
	}
	b.WriteString(line[start:])
}

// encodeValue writes the value of an attribute: as content, and neither a quote nor white space but the space survives.
func encodeValue(b *strings.Builder, value string) {
	value = string([]rune(value))
	for i, r := range value {
		switch e := escape(value[i:], r); {
		case r == '"' || r == '\'' || r == '\n' || r == '\t':
			fmt.Fprintf(b, "&U+%04X;", r)
		case e != "":
			b.WriteString(e)
		default:
			b.WriteRune(r)
		}
	}
}

// escape gives what stands for r, with which rest begins, or "" where r stands for itself.
func escape(rest string, r rune) string {
	switch {
	case r == '<':
		return "&lt;"
	case r == '>':
		return "&gt;"
	case r == '&':
		return "&amp;"
	case r == '\\':
		return `&\;`
	case r == '%':
		if len(rest) > 1 && strings.IndexByte("0123456789abcdefABCDEFuU", rest[1]) >= 0 {
			return `&%;`
		}
		return ""
	case r == '\t', r >= ' ' && r < 0x7f:
		return ""
	case hidden(r) || alias(r):
		return fmt.Sprintf("&U+%04X;", r)
	}
	return ""
}

// hidden reports whether r would not be seen, or not as itself: control and format characters, line separators, private
// use, noncharacters and what is not assigned (all outside IsGraphic), and those that Unicode lets a renderer ignore.
func hidden(r rune) bool {
	return !unicode.IsGraphic(r) || unicode.Is(unicode.Variation_Selector, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// alias reports whether a Unicode normal form of r holds a character that means something here: < > & \ or %. The test
// TestAliasesAreAllThatNormaliseToASpecialCharacter compares the list with the normal forms.
func alias(r rune) bool {
	switch r {
	case '\u226e', '\u226f', // not less-than, not greater-than
		'\ufe60', '\ufe64', '\ufe65', '\ufe68', '\ufe6a', // small forms
		'\uff05', '\uff06', '\uff1c', '\uff1e', '\uff3c': // fullwidth forms
		return true
	}
	return false
}

// Inert gives text for a terminal, a log or an export: the same, with every hidden character shown as an escape (F11). It
// is no fence.
func Inert(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r != '\n' && r != '\t' && hidden(r) {
			fmt.Fprintf(&b, "&U+%04X;", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
