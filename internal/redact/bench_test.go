package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"runnerd/internal/redact"
)

// A runner holds few secrets; red-113 asks for a thousand.
func benchSet(b *testing.B, n int) (*redact.Set, []string) {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	set := &redact.Set{}
	list := values(r, n)
	for i := range list {
		list[i] = text(r, alphabet, 4) + list[i] // any first letter
		if err := set.Add(fmt.Sprintf("s%d", i), redact.New(list[i])); err != nil {
			b.Fatal(err)
		}
	}
	return set, list
}

func benchTexts(list []string) map[string][]byte {
	r := rand.New(rand.NewPCG(2, 2))
	var prose, code, base bytes.Buffer
	for prose.Len() < 64<<10 {
		prose.WriteString("The quick brown fox jumps over the lazy dog, and nobody minds at all; it's 30% of \"everything\" we know.\n")
	}
	for code.Len() < 64<<10 {
		fmt.Fprintf(&code, "\t{\"id\":%d,\"name\":\"%s\",\"path\":\"C:\\\\new\\\\%s\",\"ok\":true,\"note\":\"a\\nb\"}\n", r.IntN(1e6), text(r, alphabet[26:52], 9), text(r, alphabet[26:52], 5))
	}
	for base.Len() < 64<<10 {
		base.WriteString(base64.StdEncoding.EncodeToString([]byte(text(r, "\x00\x10abcdef\xff\x80XYZ \x7f", 54))) + "\n")
	}
	var mixed []byte
	if len(list) > 0 {
		mixed = manyEncodings(r, list, 64<<10)[:64<<10]
	}
	return map[string][]byte{"prose": prose.Bytes()[:64<<10], "json": code.Bytes()[:64<<10], "base64": base.Bytes()[:64<<10], "mixed": mixed}
}

func BenchmarkWriter(b *testing.B) {
	for _, n := range []int{0, 20, 1000} {
		set, list := benchSet(b, n)
		for name, source := range benchTexts(list) {
			if len(source) == 0 {
				continue
			}
			b.Run(fmt.Sprintf("%d secrets/%s", n, name), func(b *testing.B) {
				b.SetBytes(int64(len(source)))
				for b.Loop() {
					w := set.Writer(io.Discard)
					if _, err := w.Write(source); err != nil {
						b.Fatal(err)
					}
					if err := w.Finish(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// A delta is what a model's stream brings at once: a few characters.
func BenchmarkStreamOfDeltas(b *testing.B) {
	set, list := benchSet(b, 20)
	source := string(benchTexts(list)["prose"][:8<<10])
	b.SetBytes(int64(len(source)))
	for b.Loop() {
		s := set.Stream()
		for at := 0; at < len(source); at += 5 {
			s.Push(source[at:min(at+5, len(source))])
		}
		s.Finish()
	}
}

func BenchmarkJSON(b *testing.B) {
	set, list := benchSet(b, 20)
	document, err := json.Marshal(map[string]any{"text": string(benchTexts(list)["prose"][:4<<10]), "usage": map[string]int{"inputTokens": 5}})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(document)))
	for b.Loop() {
		if _, err := set.JSON(document); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHasTokenShape(b *testing.B) {
	for name, source := range benchTexts(nil) {
		if len(source) == 0 {
			continue
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(source)))
			for b.Loop() {
				if redact.HasTokenShape(source) {
					b.Fatal("a token is found")
				}
			}
		})
	}
}

func BenchmarkAttr(b *testing.B) {
	log := slog.New(slog.NewJSONHandler(io.Discard, &slog.HandlerOptions{ReplaceAttr: redact.Attr}))
	for b.Loop() {
		log.Info("step ended", "tenant", "acme", "run", "run_0123", "step", "plan:1:1", "err", io.EOF)
	}
}

func BenchmarkAdd(b *testing.B) {
	secrets := values(rand.New(rand.NewPCG(3, 3)), 20)
	for b.Loop() {
		set := &redact.Set{}
		for i, v := range secrets {
			if err := set.Add(fmt.Sprintf("s%d", i), redact.New(v)); err != nil {
				b.Fatal(err)
			}
		}
		if !strings.HasPrefix(set.String(secrets[0]), "[") {
			b.Fatal("not masked")
		}
	}
}
