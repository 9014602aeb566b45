package postgres

import (
	"strings"
	"testing"
	"unicode/utf8"

	"runnerd/gateway/store"
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

// Names come from outside, so what PostgreSQL cannot hold is asked for too.
func TestNamesMayHoldWhateverTheyHold(t *testing.T) {
	t.Parallel()
	all, _ := gateways(t, 1)
	s := all[0]
	for _, id := range []store.RunID{"a\x00b", "\xff", "\x1a00", "run_'; DROP TABLE run; --"} {
		read(t, s, func(r store.Reader) error {
			if _, err := r.Run("acme", id); err != store.ErrNotFound {
				t.Errorf("%q: %v", id, err)
			}
			return nil
		})
		write(t, s, begin(id))
		read(t, s, func(r store.Reader) error {
			got, err := r.Run("acme", id)
			if got.ID != id {
				t.Errorf("%q came back as %q", id, got.ID)
			}
			return err
		})
	}
}
