// Package failure turns what a vendor's program or API said into one of the closed list of codes. The rules are data with a
// version, because vendors change their wording (UD-50); a corpus of real texts holds them. It promises that a text which no
// rule knows is a provider_error that carries the text, never a success.
package failure

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"runnerd/internal/wire"
)

//go:embed table.json
var table []byte

// A Table is a set of rules, tried in order; the first that matches decides.
type Table struct {
	Version int    `json:"version"`
	Rules   []Rule `json:"rules"`
}

// A Rule gives a code to texts that match Text, a regular expression without regard to case. With Backend set it is for that
// backend only.
type Rule struct {
	Backend   string    `json:"backend,omitempty"`
	Text      string    `json:"text"`
	Code      wire.Code `json:"code"`
	Retriable bool      `json:"retriable,omitempty"`
	Remedy    string    `json:"remedy,omitempty"`

	match *regexp.Regexp
}

// Load reads the built-in table.
func Load() (*Table, error) {
	var t Table
	if err := json.Unmarshal(table, &t); err != nil {
		return nil, fmt.Errorf("read the failure table: %w", err)
	}
	for i := range t.Rules {
		r := &t.Rules[i]
		m, err := regexp.Compile("(?i)" + r.Text)
		if err != nil {
			return nil, fmt.Errorf("failure table, rule %d: %w", i, err)
		}
		if !r.Code.Known() {
			return nil, fmt.Errorf("failure table, rule %d: unknown code %q", i, r.Code)
		}
		r.match = m
	}
	return &t, nil
}

// longest is how much of a vendor's text a message keeps.
const longest = 2000

// Classify reads the texts that came with a failure: what the program printed, what the API answered. The message keeps the
// first of them that says something, cut.
func (t *Table) Classify(backend string, texts ...string) *wire.StepError {
	e := &wire.StepError{Code: wire.CodeProviderError}
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" && e.Message == "" {
			e.Message = strings.ToValidUTF8(text[:min(len(text), longest)], "")
		}
	}
	if e.Message == "" {
		e.Message = "the provider failed without saying why"
	}
	for _, r := range t.Rules {
		if r.Backend != "" && r.Backend != backend {
			continue
		}
		if slices.ContainsFunc(texts, r.match.MatchString) {
			e.Code, e.Retriable = r.Code, r.Retriable
			if r.Remedy != "" {
				e.Message += " (" + r.Remedy + ")"
			}
			return e
		}
	}
	return e
}
