package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A FieldError names a member and what is wrong with it.
type FieldError struct {
	Field  string
	Reason string
}

func (e *FieldError) Error() string { return e.Field + " " + e.Reason }

// Validator is what every message that crosses the channel implements.
type Validator interface{ Validate() error }

// Decode reads one closed message: valid UTF-8, no member that T does not have, no nesting beyond MaxDepth, nothing after
// the document, and T.Validate passes.
func Decode[T Validator](b []byte) (T, error) {
	var v T
	if !utf8.Valid(b) {
		return v, errors.New("document is not valid UTF-8")
	}
	if err := checkDepth(b); err != nil {
		return v, err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		return v, describe(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return v, errors.New("document is followed by more data")
	}
	return v, v.Validate()
}

// DecodeReply is Decode for what a peer answers: members it does not know are ignored, so that a newer peer is understood.
func DecodeReply[T Validator](b []byte) (T, error) {
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		return v, describe(err)
	}
	return v, v.Validate()
}

func describe(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if e.Field == "" {
			return &FieldError{"document", "must be an object"}
		}
		return &FieldError{e.Field, "must not be a " + e.Value}
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return &FieldError{strings.Trim(name, `"`), "is not a member of this object"}
	}
	return fmt.Errorf("document is not valid JSON: %w", err)
}

// checkDepth refuses deep nesting before the decoder recurses into it.
func checkDepth(b []byte) error {
	depth, inString, escaped := 0, false, false
	for _, c := range b {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped = c == '\\'
			inString = c != '"'
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return fmt.Errorf("document is nested deeper than %d levels", MaxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

func checkID(field, id string) error { return checkName(field, id, MaxID) }

func checkName(field, s string, longest int) error {
	switch {
	case s == "":
		return &FieldError{field, "must not be empty"}
	case utf8.RuneCountInString(s) > longest:
		return &FieldError{field, fmt.Sprintf("must have at most %d characters", longest)}
	case strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return &FieldError{field, "must not hold control characters"}
	}
	return nil
}

func checkNames(field string, names []string) error {
	if len(names) > MaxProviders {
		return &FieldError{field, fmt.Sprintf("must hold at most %d names", MaxProviders)}
	}
	seen := make(map[string]bool, len(names))
	for i, n := range names {
		if err := checkName(fmt.Sprintf("%s[%d]", field, i), n, MaxID); err != nil {
			return err
		}
		if seen[n] {
			return &FieldError{field, fmt.Sprintf("holds %q twice", n)}
		}
		seen[n] = true
	}
	return nil
}

func checkObject(field string, raw json.RawMessage) error {
	if trimmed := bytes.TrimLeft(raw, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return &FieldError{field, "must be an object"}
	}
	return nil
}

func at(field string, i int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s[%d]: %w", field, i, err)
}
