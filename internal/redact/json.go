package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// JSON masks the strings, object keys and numbers of a document, and leaves every other byte as it is. What comes out is
// valid: a number that is masked becomes a string, and a key that is masked stays unique in its object.
func (s *Set) JSON(document json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(document) {
		return nil, errors.New("mask a document: not valid JSON")
	}
	c := s.compiled()
	scan := c.pool.Get().(*scanner)
	defer c.pool.Put(scan)
	m := jsonMasker{scan: scan, in: document, out: make([]byte, 0, len(document)+64)}
	if err := m.value(); err != nil {
		return nil, fmt.Errorf("mask a document: %w", err)
	}
	m.space()
	return m.out, nil
}

// A jsonMasker copies a valid document and masks it on the way.
type jsonMasker struct {
	scan  *scanner
	in    []byte
	at    int
	out   []byte
	depth int
}

var errDepth = errors.New("nested too deeply")

// maxJSONDepth is that of encoding/json.
const maxJSONDepth = 10000

func (m *jsonMasker) space() {
	for m.at < len(m.in) && (m.in[m.at] == ' ' || m.in[m.at] == '\t' || m.in[m.at] == '\n' || m.in[m.at] == '\r') {
		m.copy(1)
	}
}

func (m *jsonMasker) copy(n int) {
	m.out = append(m.out, m.in[m.at:m.at+n]...)
	m.at += n
}

func (m *jsonMasker) value() error {
	m.space()
	switch c := m.in[m.at]; c {
	case '{', '[':
		if m.depth++; m.depth > maxJSONDepth {
			return errDepth
		}
		defer func() { m.depth-- }()
		return m.members(c + 2) // ] and } come two after [ and {
	case '"':
		text := m.text()
		masked, err := m.masked(text)
		if err != nil {
			return err
		}
		m.out = append(m.out, masked...)
	default: // a number, true, false or null
		n := bytes.IndexAny(m.in[m.at:], " \t\n\r,]}")
		if n < 0 {
			n = len(m.in) - m.at
		}
		word := m.in[m.at : m.at+n]
		if masked := m.scan.whole(word); !bytes.Equal(masked, word) {
			m.out = strconv.AppendQuote(m.out, string(masked)) // markers have no character that JSON quotes otherwise
			m.at += n
			return nil
		}
		m.copy(n)
	}
	return nil
}

// members copies an object or array up to its end.
func (m *jsonMasker) members(end byte) error {
	m.copy(1)
	var markers map[string]bool
	for {
		switch m.space(); m.in[m.at] {
		case end:
			m.copy(1)
			return nil
		case ',':
			m.copy(1)
			continue
		}
		if end == '}' {
			name, err := m.masked(m.text())
			if err != nil {
				return err
			}
			if bytes.Contains(name, []byte("[REDACTED:")) {
				if markers == nil {
					markers = map[string]bool{}
				}
				name = unique(name, markers)
			}
			m.out = append(m.out, name...)
			m.space()
			m.copy(1) // the colon
		}
		if err := m.value(); err != nil {
			return err
		}
	}
}

// unique gives a name that its object does not have yet, with a number if need be. Only names with markers can collide.
func unique(name []byte, taken map[string]bool) []byte {
	free := string(name)
	for i := 2; taken[free]; i++ {
		free = string(name[:len(name)-1]) + "#" + strconv.Itoa(i) + `"`
	}
	taken[free] = true
	return []byte(free)
}

// text takes a string, quotes included, as it is written.
func (m *jsonMasker) text() []byte {
	start := m.at
	for m.at++; m.in[m.at] != '"'; m.at++ {
		if m.in[m.at] == '\\' {
			m.at++
		}
	}
	m.at++
	return m.in[start:m.at]
}

// masked gives a string as it is written after masking: byte for byte the same if there is nothing to mask.
func (m *jsonMasker) masked(text []byte) ([]byte, error) {
	plain := text[1 : len(text)-1]
	if bytes.IndexByte(plain, '\\') >= 0 {
		var s string
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, err
		}
		plain = []byte(s)
	}
	masked := m.scan.whole(plain)
	if bytes.Equal(masked, plain) {
		return text, nil
	}
	return json.Marshal(string(masked))
}
