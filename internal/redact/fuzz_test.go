package redact_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"runnerd/internal/redact"
)

// fuzzSet has the secrets of the cases, all at once, and some that are made to collide.
func fuzzSet(tb testing.TB) (*redact.Set, []string) {
	s := load(tb)
	set := &redact.Set{}
	var values []string
	for name, value := range s.Secrets {
		if name != "short" {
			values = append(values, value)
			if err := set.Add(name, redact.New(value)); err != nil {
				tb.Fatal(err)
			}
		}
	}
	for ref, value := range map[string]string{"run": "aaaaaaaa", "longer": "aaaaaaaaab", "esc": `a\u0061%61&amp;b'' c`, "mid": "aaab aaab"} {
		values = append(values, value)
		if err := set.Add(ref, redact.New(value)); err != nil {
			tb.Fatal(err)
		}
	}
	return set, values
}

// However a text comes in pieces, the result is the same: that of the whole text. No value is in it, masking it again
// changes nothing, every piece that is let go is made of whole characters, and what was held fits the longest value.
func FuzzWriterMasksTheSameAtEverySplit(f *testing.F) {
	set, values := fuzzSet(f)
	s := load(f)
	for _, c := range s.Cases {
		if text := c.input(f); text != "" {
			f.Add(text)
		}
	}
	for _, text := range []string{
		"aaaaaaaa\b\baaaaaaaaab", "\x1b]52;c;dGstRkFLRS05ZjNjMWQ3YWIyZTg0YzYwYTFkNVpx\a", "\x1b[tk-FAKE-9f3c1d7ab2e84c60a1d5Zq",
		"\xc2\x9btk-FAKE-9f3c1d7ab2e84c60a1d5Zq", "sk-ant-aaaaaaaaaaaaaaaaaaaaaaab", "https://u:aaaaaaaa@h sk-proj-",
		`\\u0061\u005cu0061%2561%61aaaa`, "\xd0\xbfaaaaaaaa\xd0", "eyJaaaaaaaa.eyJaaaa.aaaaaaaaaa@", "0x61, 0x61,0x61 61:61-61 61\n61\n",
		"xghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab \\nsk-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		"-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBg\\n-----END PRIVATE KEY-----",
		"\x1b[31mtk-FAKE-9\x1b(B\x1b[mf3c1d7ab2e84c60a1d5Zq", "YWFh\x1b]0;YWFhYWE=\x1b\\YWFhYWFhYWE",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 160 {
			text = text[:160]
		}
		whole := set.String(text)
		for _, value := range values {
			if strings.Contains(whole, value) {
				t.Errorf("%q is in %q", value, whole)
			}
		}
		for i := range len(text) + 1 {
			s := set.Stream()
			first := s.Push(text[:i])
			held := s.Held()
			second := s.Push(text[i:])
			if got := first + second + s.Finish(); got != whole {
				t.Fatalf("split at %d of %q: got %q, want %q", i, text, got, whole)
			}
			if utf8.ValidString(text) && (!utf8.ValidString(first) || !utf8.ValidString(second)) {
				t.Fatalf("split at %d of %q: pieces %q, %q are not text", i, text, first, second)
			}
			if held > 1<<11 {
				t.Fatalf("%d bytes of %q are held", held, text[:i])
			}
		}
		s := set.Stream()
		var got strings.Builder
		for i := range len(text) {
			got.WriteString(s.Push(text[i : i+1]))
		}
		got.WriteString(s.Finish())
		if got.String() != whole {
			t.Errorf("in bytes: got %q, want %q", got.String(), whole)
		}
	})
}

// What is masked of a document is a document of the same form.
func FuzzJSONStaysADocument(f *testing.F) {
	set, values := fuzzSet(f)
	for _, document := range []string{
		`{"a":"aaaaaaaa","aaaaaaaa":1,"aaaaaaaab":{"hunter22":[true,null,-1.5e3]}}`, `"\u0061aaaaaaa"`, ` [ "tk-FAKE-9f3c1d7ab2e84c60a1d5Zq" , 1 ] `,
		`{"[REDACTED:eight]":1,"hunter22":2,"xhunter22":3}`, `12345`, `{}`, `[]`, `{"a":{},"b":[]}`, `"\uaaaaaaaa"`,
	} {
		f.Add([]byte(document))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		got, err := set.JSON(document)
		if !json.Valid(document) {
			if err == nil {
				t.Errorf("%q is taken", document)
			}
			return
		}
		if err != nil || !json.Valid(got) {
			t.Fatalf("%q becomes %q, %v", document, got, err)
		}
		before, _ := tokensOf(t, document)
		after, texts := tokensOf(t, got)
		if before != after {
			t.Errorf("%q becomes %q: %s, %s", document, got, before, after)
		}
		for _, text := range texts { // not the bytes: there are no eight a in \uaaaaaaaa
			for _, value := range values {
				if strings.Contains(text, value) {
					t.Errorf("%q is in %q", value, got)
				}
			}
		}
	})
}

// tokensOf gives what a document is made of, brackets as they are and all else as v, and its strings.
func tokensOf(t *testing.T, document []byte) (form string, texts []string) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	for {
		switch token, err := decoder.Token(); v := token.(type) {
		case json.Delim:
			form += v.String()
		case string:
			form, texts = form+"v", append(texts, v)
		case nil:
			if err == io.EOF {
				return form, texts
			}
			if err != nil {
				t.Fatalf("%q: %v", document, err)
			}
			form += "v"
		default:
			form += "v"
		}
	}
}
