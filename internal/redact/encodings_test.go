package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"runnerd/internal/redact"
)

// encoders are what programs do to a value before they print it. Each makes text.
var encoders = map[string]func(*rand.Rand, string) string{
	"base64":          func(_ *rand.Rand, s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 for URLs": func(_ *rand.Rand, s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"base64 in a text": func(r *rand.Rand, s string) string {
		return base64.StdEncoding.EncodeToString([]byte(text(r, "abc: ", r.IntN(5)) + s + "\n"))
	},
	"base64 in lines": func(r *rand.Rand, s string) string {
		return wrapped(base64.StdEncoding.EncodeToString([]byte(s)), 19+r.IntN(58))
	},
	"base64 of UTF-16":  func(_ *rand.Rand, s string) string { return base64.StdEncoding.EncodeToString([]byte(wide(s))) },
	"hex":               func(_ *rand.Rand, s string) string { return hex.EncodeToString([]byte(s)) },
	"hex, upper case":   func(_ *rand.Rand, s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"hex, apart":        func(_ *rand.Rand, s string) string { return fmt.Sprintf("% x", s) },
	"hex, with colons":  func(_ *rand.Rand, s string) string { return strings.ReplaceAll(fmt.Sprintf("% X", s), " ", ":") },
	"hex, with 0x":      func(_ *rand.Rand, s string) string { return strings.ReplaceAll(fmt.Sprintf("% #x", s), " ", ", ") },
	"hex, in groups":    func(_ *rand.Rand, s string) string { return groups(hex.EncodeToString([]byte(s)), 4) },
	"C hex escapes":     func(_ *rand.Rand, s string) string { return each(s, `\x%02x`) },
	"C octal escapes":   func(_ *rand.Rand, s string) string { return each(s, `\%03o`) },
	"percent":           func(_ *rand.Rand, s string) string { return url.PathEscape(s) },
	"form":              func(_ *rand.Rand, s string) string { return url.QueryEscape(s) },
	"percent all":       func(_ *rand.Rand, s string) string { return each(s, "%%%02X") },
	"JSON":              func(_ *rand.Rand, s string) string { b, _ := json.Marshal(s); return strings.Trim(string(b), `"`) },
	"JSON in ASCII":     func(_ *rand.Rand, s string) string { return strings.Trim(fmt.Sprintf("%+q", s), `"`) },
	"JSON all":          func(_ *rand.Rand, s string) string { return units(s, `\u%04x`) },
	"JavaScript braces": func(_ *rand.Rand, s string) string { return runes(s, `\u{%x}`) },
	"XML":               func(_ *rand.Rand, s string) string { return html.EscapeString(s) },
	"XML decimal":       func(_ *rand.Rand, s string) string { return runes(s, "&#%d;") },
	"XML hex":           func(_ *rand.Rand, s string) string { return runes(s, "&#x%X;") },
	"shell":             func(_ *rand.Rand, s string) string { return strings.ReplaceAll(s, `'`, `'\''`) },
	"doubled quotes":    func(_ *rand.Rand, s string) string { return strings.NewReplacer(`'`, `''`, `"`, `""`).Replace(s) },
}

// visible are encoders of what is printed last: a UTF-16 file, colours, letters printed twice.
var visible = map[string]func(*rand.Rand, string) string{
	"as it is": func(_ *rand.Rand, s string) string { return s },
	"UTF-16":   func(_ *rand.Rand, s string) string { return wide(s) },
	"colours": func(r *rand.Rand, s string) string {
		i := r.IntN(len(s))
		return s[:i] + "\x1b[1;31m" + s[i:] + "\x1b(B\x1b[m"
	},
	"zero widths": func(_ *rand.Rand, s string) string { return strings.Join(strings.Split(s, ""), "\u200b") },
	"in lines":    func(_ *rand.Rand, s string) string { return wrapped(s, 20) },
	"in lines, CR": func(_ *rand.Rand, s string) string {
		return strings.ReplaceAll(wrapped(s, 24), "\n", "\r\r\n")
	},
	"link": func(_ *rand.Rand, s string) string { return "\x1b]8;;" + s + "\a" },
	"clipboard": func(_ *rand.Rand, s string) string {
		return "\x1b]52;c;" + base64.StdEncoding.EncodeToString([]byte(s)) + "\x1b\\"
	},
}

func each(s, format string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, format, s[i])
	}
	return b.String()
}

func runes(s, format string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, format, r)
	}
	return b.String()
}

func units(s, format string) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		fmt.Fprintf(&b, format, u)
	}
	return b.String()
}

func wide(s string) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		b.Write([]byte{byte(u), byte(u >> 8)})
	}
	return b.String()
}

func wrapped(s string, width int) string { return strings.Join(slices.Collect(chunks(s, width)), "\n") }

func groups(s string, width int) string { return strings.Join(slices.Collect(chunks(s, width)), " ") }

func chunks(s string, width int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for len(s) > width {
			if !yield(s[:width]) {
				return
			}
			s = s[width:]
		}
		yield(s)
	}
}

// Up to three encodings on top of each other are seen through, in any order, and then what a terminal or a file adds. Of the
// encoded text no more is left than a few characters at its ends.
func TestEveryChainOfThreeEncodingsIsMasked(t *testing.T) {
	secrets := []string{"tk-FAKE-9f3c1d7ab2e84c60a1d5Zq", "p@ss w/ord+%&=\"q\\z<9>'k", "ključ-пароль-ÿ-0001-x", "hunter22"}
	names := slices.Sorted(mapKeys(encoders))
	last := slices.Sorted(mapKeys(visible))
	r := rand.New(rand.NewPCG(7, 7))
	try := func(secret string, chain ...string) {
		if ambiguous(chain) {
			return
		}
		set := &redact.Set{}
		if err := set.Add("s", redact.New(secret)); err != nil {
			t.Fatal(err)
		}
		encoded := secret
		for _, name := range chain[:len(chain)-1] {
			encoded = encoders[name](r, encoded)
		}
		encoded = visible[chain[len(chain)-1]](r, encoded)
		got := set.String("see: " + encoded + " .")
		middle := strings.TrimSuffix(strings.TrimPrefix(got, "see: "), " .")
		rest := strings.ReplaceAll(middle, "[REDACTED:s]", "")
		if rest == middle || len(rest) > 40+len(encoded)/2 {
			t.Errorf("%s of %q: %q becomes %q", strings.Join(chain, ", "), secret, encoded, got)
		}
	}
	for _, secret := range secrets {
		for _, v := range last {
			try(secret, v)
			for _, a := range names {
				try(secret, a, v)
			}
		}
		for i, a := range names {
			for j, b := range names {
				if instrumented() && (i+j)%5 != 0 {
					continue
				}
				try(secret, a, b, "as it is")
				try(secret, a, b, last[r.IntN(len(last))])
				try(secret, a, b, names[r.IntN(len(names))], "as it is")
			}
		}
	}
}

// ambiguous reports whether a chain breaks a line within an escape sequence, or lines that are broken already: then short
// words are all that is left.
func ambiguous(chain []string) bool {
	count := func(word string) (n int) {
		for _, name := range chain {
			if strings.Contains(name, word) {
				n++
			}
		}
		return n
	}
	escapes := count("escapes") + count("percent") + count("form") + count("JSON") + count("Java") + count("XML")
	return count("in lines") > 1 || strings.HasPrefix(chain[len(chain)-1], "in lines") && escapes > 0
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
