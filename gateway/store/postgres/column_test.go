package postgres

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// What is stored as text is a text of PostgreSQL, and comes back as it was.
func FuzzTextComesBack(f *testing.F) {
	for _, s := range []string{"", "plain", "ä €", "a\x00b", "\xff\xfe", "\x1a", "\x1a00", "half\xc3", "\x1a\x1a1a\x00", "\xed\xa0\x80"} {
		f.Add(s, "other")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		stored := text(a)
		if !utf8.ValidString(stored) || strings.Contains(stored, "\x00") {
			t.Errorf("%q is stored as %q", a, stored)
		}
		if back, err := untext(stored); err != nil || back != a {
			t.Errorf("%q came back as %q, %v", a, back, err)
		}
		if a != b && text(a) == text(b) {
			t.Errorf("%q and %q are both stored as %q", a, b, stored)
		}
	})
}

func TestTextThatNobodyWroteIsAnError(t *testing.T) {
	for _, s := range []string{"\x1a", "\x1a0", "x\x1azz"} {
		if got, err := untext(s); err == nil {
			t.Errorf("%q means %q", s, got)
		}
	}
}
