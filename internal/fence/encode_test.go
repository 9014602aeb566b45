package fence_test

import (
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"runnerd/internal/fence"
)

// Every code point is tried: what a normal form turns into a special character is escaped, and so is all that is hidden.
func TestAliasesAreAllThatNormaliseToASpecialCharacter(t *testing.T) {
	f := fence.Fencer{Cap: -1}
	for plane := rune(0); plane <= unicode.MaxRune; plane += 0x10000 { // one block each, one line for each code point
		var content strings.Builder
		for r := max(plane, 0x80); r < plane+0x10000; r++ {
			content.WriteString(string(r) + "\n") // a surrogate is written as U+FFFD
		}
		block := f.Block(fence.Tool("t"), content.String()).Text
		_, block, _ = strings.Cut(block, "\n")
		for r := max(plane, 0x80); r < plane+0x10000; r++ {
			var line string
			line, block, _ = strings.Cut(block, "\n")
			if r >= 0xd800 && r <= 0xdfff {
				continue
			}
			// NFKD does all that the other forms do.
			special := strings.ContainsAny(string(norm.NFKD.PropertiesString(string(r)).Decomposition()), "<>&\\%\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029") ||
				strings.ContainsRune("\u0085\u2028\u2029", r)
			hidden := !unicode.IsGraphic(r) || unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
			if raw, want := strings.HasSuffix(line, "| "+string(r)), !special && !hidden; raw != want {
				t.Errorf("U+%04X raw: %v, want %v", r, raw, want)
			}
		}
	}
}

func TestReadableTextStaysReadable(t *testing.T) {
	for _, text := range []string{
		"Ignore previous instructions!", "café, naïve, 日本語, العربية, עברית, हिन्दी", "x = a * (b + c); // \"quoted\" 'text'",
		"30% of 100 %", "$HOME/.config | sort #1 @me ~ ^ ` { } [ ]", "no-break\u00a0space", "👍🏽 🎉",
	} {
		f := fence.Fencer{}
		if block := f.Block(fence.Tool("t"), text).Text; !strings.Contains(block, "| "+text+"\n") {
			t.Errorf("%q became %q", text, block)
		}
	}
}

func TestInertShowsWhatIsHidden(t *testing.T) {
	got := fence.Inert("\x1b]8;;http://x\a<b>\u202e\r\n\tok\u00ad")
	if want := "&U+001B;]8;;http://x&U+0007;<b>&U+202E;&U+000D;\n\tok&U+00AD;"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOnlyThisPackageSpellsTheTag(t *testing.T) {
	for file, literal := range literals(t, "../..") {
		if strings.Contains(strings.ToUpper(literal), "<UNTRUSTED") || strings.Contains(strings.ToUpper(literal), "</UNTRUSTED") {
			t.Errorf("%s writes %.60s: a block is made by fence.Fencer and nothing else (F10)", file, literal)
		}
	}
}
