package wire

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A FieldError names a member and what is wrong with it.
type FieldError struct {
	Field  string
	Reason string
}

func (e *FieldError) Error() string { return e.Field + " " + e.Reason }

// Validator is what every message that crosses the channel implements.
type Validator interface{ Validate() error }

// Decode reads one closed message: valid UTF-8, no member that T does not have or that differs only in case, none given
// twice, no nesting beyond MaxDepth, nothing after the document, and T.Validate passes.
func Decode[T Validator](b []byte) (T, error) {
	return decode[T](b, json.RejectUnknownMembers(true))
}

// Encode writes a message. Unlike json.Marshal it leaves raw members as they are, so that what was built once is sent the
// same, byte for byte.
func Encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := stdjson.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// DecodeReply is Decode for what a peer answers: members it does not know are ignored, so that a newer peer is understood.
func DecodeReply[T Validator](b []byte) (T, error) {
	return decode[T](b, json.RejectUnknownMembers(false))
}

func decode[T Validator](b []byte, opts json.Options) (T, error) {
	var v T
	if err := checkDepth(b); err != nil {
		return v, err
	}
	if err := json.Unmarshal(b, &v, opts); err != nil {
		var none T
		return none, describe(err)
	}
	return v, v.Validate()
}

// describe names the member that an error of the decoder is about.
func describe(err error) error {
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		field := fieldOf(e.JSONPointer)
		switch {
		case errors.Is(err, json.ErrUnknownName):
			return &FieldError{field, "is not a member of this object"}
		case e.Err != nil && e.GoType != nil && e.JSONKind == 0:
			return &FieldError{field, e.Err.Error()}
		case e.JSONKind != 0:
			return &FieldError{field, "must not be a " + e.JSONKind.String()}
		}
		return &FieldError{field, "has a wrong value"}
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return &FieldError{fieldOf(e.JSONPointer), "is given twice"}
		}
		return fmt.Errorf("document is not valid JSON: %w", e)
	}
	return fmt.Errorf("document is not valid JSON: %w", err)
}

// fieldOf writes a JSON pointer as the dotted path that our messages use.
func fieldOf(p jsontext.Pointer) string {
	var s strings.Builder
	for token := range p.Tokens() {
		switch {
		case strings.Trim(token, "0123456789") == "" && s.Len() > 0:
			s.WriteString("[" + token + "]")
		case s.Len() > 0:
			s.WriteString("." + token)
		default:
			s.WriteString(token)
		}
	}
	if s.Len() == 0 {
		return "document"
	}
	return s.String()
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
	case strings.ContainsFunc(s, Unprintable):
		return &FieldError{field, "must not hold control characters"}
	}
	return nil
}

// Unprintable says of a character that it is none to show, but does something: to a terminal, to the lines around it, or to
// the order in which what follows is read. One that joins emoji is harmless.
func Unprintable(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// Printable makes words from another machine fit to be shown in one line, of at most so many characters.
func Printable(s string, longest int) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || Unprintable(r) }), " ")
	if cut := []rune(s); len(cut) > longest {
		return string(cut[:longest]) + "…"
	}
	return s
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

func checkObject(field string, raw []byte) error {
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
