package redact

import (
	"encoding/json"
	"strings"
	"unicode/utf16"
)

// The least lengths of what is looked for, in bytes.
const (
	MinLength  = 8  // of a value; shorter ones would mask ordinary text
	minLeaf    = 8  // of a string in a value that is JSON
	minLine    = 16 // of a line in a value that has several
	minVisible = 6  // of what is left when white space is passed over
)

// A needle is what the matchers look for: a value or a part of it, without what they pass over.
type needle struct {
	symbols []byte
	length  int
	ref     string
}

// texts gives what of a value is looked for: the whole, each long line, and each string of a JSON document, since any of
// them may be printed alone.
func texts(value string) []string {
	value = strings.TrimSpace(value)
	list := []string{value}
	if lines := strings.FieldsFunc(value, func(r rune) bool { return r == '\n' || r == '\r' }); len(lines) > 1 {
		for _, line := range lines {
			// The frame around a key is the same for all keys.
			if line = strings.TrimSpace(line); len(line) >= minLine && !strings.HasPrefix(line, "-----") {
				list = append(list, line)
			}
		}
	}
	if strings.HasPrefix(value, "{") || strings.HasPrefix(value, "[") {
		var document any
		if json.Unmarshal([]byte(value), &document) == nil {
			list = append(list, leaves(document)...)
		}
	}
	return list
}

func leaves(value any) (list []string) {
	switch v := value.(type) {
	case string:
		if len(strings.TrimSpace(v)) >= minLeaf {
			return texts(v)
		}
	case []any:
		for _, item := range v {
			list = append(list, leaves(item)...)
		}
	case map[string]any:
		for _, item := range v {
			list = append(list, leaves(item)...)
		}
	}
	return list
}

// needles gives the needles of a value under a reference.
func needles(value, ref string) (list []needle) {
	add := func(text string) {
		if symbols := fold(text); len(symbols) >= minVisible {
			list = append(list, needle{symbols, len(symbols), ref})
		}
	}
	for _, text := range texts(value) {
		add(text)
		if plain := unescapeAll(text); plain != text {
			add(plain) // where the text around is free of escapes, so is the value
		}
		if strings.IndexFunc(text, func(r rune) bool { return r >= 0x80 }) >= 0 {
			low, high := utf16Bytes(text)
			add(low)
			add(high)
		}
	}
	return list
}

// fold gives the symbols of a text that count.
func fold(text string) []byte {
	s := strip{open: true}
	var symbols []byte
	keep := func(n int) {
		for _, x := range s.out[:n] {
			if kinds[x.b] == counted {
				symbols = append(symbols, x.b)
			}
		}
	}
	for i := range len(text) {
		keep(s.next(symbol{b: text[i]}))
	}
	keep(s.flush())
	return symbols
}

// utf16Bytes gives a text as programs on Windows may write it, in both byte orders. ASCII needs none: the zero bytes in
// between are control characters.
func utf16Bytes(text string) (little, big string) {
	var l, b strings.Builder
	for _, u := range utf16.Encode([]rune(text)) {
		l.Write([]byte{byte(u), byte(u >> 8)})
		b.Write([]byte{byte(u >> 8), byte(u)})
	}
	return l.String(), b.String()
}
