package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"runnerd/internal/redact"
)

// A suite is testdata/redaction.json.
type suite struct {
	Secrets map[string]string `json:"secrets"`
	Count   int               `json:"count"`
	Cases   []redactionCase   `json:"cases"`
}

type redactionCase struct {
	ID       string   `json:"id"`
	Class    string   `json:"class"`
	Secrets  []string `json:"secrets"`
	Input    *string  `json:"input"`
	InputB64 *string  `json:"inputB64"`
	Parts    []string `json:"parts"`
	Chunking string   `json:"chunking"`
	Sink     string   `json:"sink"`
	Steps    []step   `json:"steps"`
	Generate *generate
	Expect   struct {
		Outcome        string   `json:"outcome"`
		MustNotContain []string `json:"mustNotContain"`
		Equals         *string  `json:"equals"`
		Marker         string   `json:"marker"`
		MaxHeldBytes   int      `json:"maxHeldBytes"`
		Status         *int     `json:"status"`
	} `json:"expect"`
	Why string `json:"why"`
}

type generate struct {
	Fill         string `json:"fill"`
	Bytes        int    `json:"bytes"`
	PlaceAtEvery int    `json:"placeAtEvery"`
	Place        string `json:"place"`
	Offset       int    `json:"offset"`
	Secrets      int    `json:"secrets"`
	SecretBytes  int    `json:"secretBytes"`
	Repeat       string `json:"repeat"`
	Times        int    `json:"times"`
}

type step struct {
	Write       *string         `json:"write"`
	Register    json.RawMessage `json:"register"`
	ExpectError bool            `json:"expectError"`
	SleepMillis int             `json:"sleepMillis"`
	Close       bool            `json:"close"`
	Stdout      *string         `json:"stdout"`
	Stderr      *string         `json:"stderr"`
	Merge       bool            `json:"merge"`
	Delta       *string         `json:"delta"`
	Join        bool            `json:"join"`
	Post        json.RawMessage `json:"post"`
	PostRaw     *string         `json:"postRaw"`
	PostPath    *string         `json:"postPath"`
}

func load(t testing.TB) suite {
	t.Helper()
	data, err := os.ReadFile("testdata/redaction.json")
	if err != nil {
		t.Fatal(err)
	}
	var s suite
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Cases) != s.Count {
		t.Fatalf("%d cases, want %d", len(s.Cases), s.Count)
	}
	return s
}

// set registers the secrets of a case. A name that the suite does not know is registered by a step; the value that is too
// short is refused, as its case says.
func (s suite) set(t testing.TB, c redactionCase) *redact.Set {
	t.Helper()
	set := &redact.Set{}
	for _, name := range c.Secrets {
		value, ok := s.Secrets[name]
		if !ok {
			continue
		}
		if err := set.Add(name, redact.New(value)); err != nil && (name != "short" || !errors.Is(err, redact.ErrTooShort)) {
			t.Fatal(err)
		}
	}
	return set
}

func (c redactionCase) input(t testing.TB) string {
	switch {
	case c.Input != nil:
		return *c.Input
	case c.InputB64 != nil:
		b, err := base64.StdEncoding.DecodeString(*c.InputB64)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	return strings.Join(c.Parts, "")
}

func (c redactionCase) is(kinds ...string) bool { return slices.Contains(kinds, c.Class) }

// check holds what a sink got against what the case expects.
func (c redactionCase) check(t *testing.T, how, input, got string) {
	t.Helper()
	for _, secret := range c.Expect.MustNotContain {
		if strings.Contains(got, secret) {
			t.Errorf("%s: %q holds %q", how, got, secret)
		}
	}
	if c.Expect.Equals != nil && got != *c.Expect.Equals {
		t.Errorf("%s: got %q, want %q", how, got, *c.Expect.Equals)
	}
	switch c.Expect.Outcome {
	case "redacted":
		if marker := "[REDACTED:"; !strings.Contains(got, marker) || !strings.Contains(got, c.Expect.Marker) {
			t.Errorf("%s: %q has no marker %s%s", how, got, marker, c.Expect.Marker)
		}
	case "unchanged":
		if got != input {
			t.Errorf("%s: got %q, want it unchanged", how, got)
		}
	}
}

// inPieces masks a text that is written in these pieces and is then complete.
func inPieces(t testing.TB, set *redact.Set, pieces ...string) string {
	t.Helper()
	var out bytes.Buffer
	w := set.Writer(&out)
	for _, p := range pieces {
		if _, err := w.Write([]byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestEveryTextCaseIsMaskedAtEverySplit(t *testing.T) {
	suite := load(t)
	for _, c := range suite.Cases {
		if c.Input == nil && c.InputB64 == nil && c.Parts == nil {
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			set := suite.set(t, c)
			for _, s := range c.Steps {
				register(t, set, s)
			}
			input := c.input(t)
			whole := set.String(input)
			c.check(t, "at once", input, whole)
			for i := range len(input) + 1 {
				if got := inPieces(t, set, input[:i], input[i:]); got != whole {
					t.Fatalf("split at %d: got %q, want %q", i, got, whole)
				}
			}
			if got := inPieces(t, set, strings.Split(input, "")...); got != whole {
				t.Errorf("in characters: got %q, want %q", got, whole)
			}
			var bytewise []string
			for i := range len(input) {
				bytewise = append(bytewise, input[i:i+1])
			}
			if got := inPieces(t, set, bytewise...); got != whole {
				t.Errorf("in bytes: got %q, want %q", got, whole)
			}
			if again := set.String(whole); again != whole {
				t.Errorf("masked again: got %q, want %q", again, whole)
			}
		})
	}
}

// register adds what a step registers.
func register(t testing.TB, set *redact.Set, s step) {
	t.Helper()
	if s.Register == nil {
		return
	}
	var values map[string]string
	if err := json.Unmarshal(s.Register, &values); err != nil {
		t.Fatal(err)
	}
	for ref, value := range values {
		switch err := set.Add(ref, redact.New(value)); {
		case s.ExpectError && !errors.Is(err, redact.ErrTooShort):
			t.Errorf("register %q: got %v, want ErrTooShort", value, err)
		case !s.ExpectError && err != nil:
			t.Fatal(err)
		}
	}
}
