package identity

import "strings"

// codeLetters has no vowel, so no word, and no letter that looks like another or like a digit (RFC 8628 section 6.1).
const (
	codeLetters = "BCDFGHJKLMNPQRSTVWXZ"
	codeLength  = 8
)

// ShowUserCode writes the canonical form as people read it: XXXX-XXXX.
func ShowUserCode(code string) string {
	if len(code) != codeLength {
		return code
	}
	return code[:codeLength/2] + "-" + code[codeLength/2:]
}

// ReadUserCode takes what a person typed: any case, dashes and spaces wherever. It gives the canonical form.
func ReadUserCode(typed string) (string, bool) {
	if len(typed) > 64 {
		return "", false
	}
	var b strings.Builder
	for _, r := range strings.ToUpper(typed) {
		switch {
		case r == '-' || r == ' ' || r == '\u2010' || r == '\u2013' || r == '\u00a0': // as phones write them
		case r < 0x80 && strings.IndexByte(codeLetters, byte(r)) >= 0:
			b.WriteRune(r)
		default:
			return "", false
		}
	}
	return b.String(), b.Len() == codeLength
}
