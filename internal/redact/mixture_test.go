package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
)

// mixtures are texts that are put together from the inputs of the cases, cut and glued at random: far more likely to hold
// half of something than what a fuzzer makes up.
func mixtures(t testing.TB, r *rand.Rand, values []string) func() string {
	seeds := append([]string{
		"aaaaaaaa\b\baaaaaaaaab", "\x1b]52;c;dGstRkFLRS05ZjNjMWQ3YWIyZTg0YzYwYTFkNVpx\a", "\x1b[31m", "\xc2\x9b", "\x1b(B", "\\u0061", "%61",
		"&#97;", "''", "'\\''", "\"\"", "\\\\", "\\n", "\b", " ", "\n", "+", "0x", "https://u:", "@", "sk-ant-", "sk-proj-", "eyJ", ".eyJ",
		"-----BEGIN PRIVATE KEY-----\n", "ghp_", "xoxb-", "AKIA", "rnr_", "\u200b", "\x00", "\xff", "é", "YWFhYWFhYWE=", "aaaa", "6161", "%25", "&amp;",
	}, values...)
	for _, c := range load(t).Cases {
		if text := c.input(t); text != "" {
			seeds = append(seeds, text)
		}
	}
	for _, v := range values {
		seeds = append(seeds, base64.StdEncoding.EncodeToString([]byte(v)), hex.EncodeToString([]byte(v)),
			base64.StdEncoding.EncodeToString([]byte(hex.EncodeToString([]byte(v)))))
	}
	any := func() string { return seeds[r.IntN(len(seeds))] }
	return func() string {
		var b strings.Builder
		for range 1 + r.IntN(5) {
			x := any()
			if r.IntN(2) == 0 {
				i := r.IntN(len(x))
				x = x[i : i+1+r.IntN(len(x)-i)]
			}
			if r.IntN(4) == 0 {
				i, y := r.IntN(len(x)), any()
				x = x[:i] + y[:r.IntN(min(len(y), 12)+1)] + x[i:]
			}
			b.WriteString(x[:min(len(x), 90)])
		}
		return b.String()
	}
}

func TestMixturesAreMaskedTheSameInAnyPieces(t *testing.T) {
	set, values := fuzzSet(t)
	r := rand.New(rand.NewPCG(11, 12))
	next := mixtures(t, r, values)
	rounds := 6000
	if instrumented() {
		rounds /= 10
	}
	for range rounds {
		text := next()
		whole := set.String(text)
		for _, v := range values {
			if strings.Contains(whole, v) {
				t.Fatalf("%q is in %q, which %q became", v, whole, text)
			}
		}
		var bytewise []string
		for i := range len(text) {
			bytewise = append(bytewise, text[i:i+1])
		}
		if got := inPieces(t, set, bytewise...); got != whole {
			t.Fatalf("%q in bytes:\n got %q\nwant %q", text, got, whole)
		}
		for range 6 {
			i := r.IntN(len(text) + 1)
			j := i + r.IntN(len(text)-i+1)
			if got := inPieces(t, set, text[:i], text[i:j], text[j:]); got != whole {
				t.Fatalf("%q split at %d and %d:\n got %q\nwant %q", text, i, j, got, whole)
			}
		}
	}
}
