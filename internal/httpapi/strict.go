package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"runnerd/internal/wire"
)

// Unmarshal reads one JSON document into v, as strictly as the package comment says. An error that concerns a member is a
// *wire.FieldError that names it by its path, like "edges[2].from"; the document itself is called "body".
func Unmarshal(b []byte, v any) error {
	if !utf8.Valid(b) {
		return &wire.FieldError{Field: "body", Reason: "is not valid UTF-8"}
	}
	if json.Valid(b) { // else encoding/json says where it is not
		c := checker{b: b}
		if bad := c.value(reflect.TypeOf(v).Elem(), 0); bad != nil {
			if bad.Field == "" {
				bad.Field = "body"
			}
			return bad
		}
	}
	err := json.Unmarshal(b, v)
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return &wire.FieldError{Field: "body", Reason: fmt.Sprintf("is not valid JSON at byte %d: %v", e.Offset, e)}
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &wire.FieldError{Field: e.Field, Reason: "must not be a " + e.Value}
	}
	return err
}

// A checker walks a document that is known to be valid JSON, next to the type that it is meant for. A nil type stands for
// one that takes anything: what is open to the protocol, or reads itself.
type checker struct {
	b []byte
	i int
}

func (c *checker) value(t reflect.Type, depth int) *wire.FieldError {
	t, nullable := resolve(t)
	c.space()
	if b := c.b[c.i]; (b == '{' || b == '[') && depth == wire.MaxDepth {
		return wrong("is nested deeper than %d levels", wire.MaxDepth)
	}
	switch c.b[c.i] {
	case '{':
		return c.object(t, depth)
	case '[':
		return c.array(t, depth)
	case '"':
		if _, bad := c.text(); bad != nil {
			return bad
		}
		return expect(t, t == nil || t.Kind() == reflect.String || isBytes(t))
	case 't', 'f':
		c.i += len("true")
		if c.b[c.i-1] != 'e' {
			c.i++
		}
		return expect(t, t == nil || t.Kind() == reflect.Bool)
	case 'n':
		c.i += len("null")
		return expect(t, t == nil || nullable)
	default:
		return c.number(t)
	}
}

func (c *checker) object(t reflect.Type, depth int) *wire.FieldError {
	if bad := expect(t, t == nil || t.Kind() == reflect.Struct || t.Kind() == reflect.Map); bad != nil {
		return bad
	}
	var seen names
	for c.i++; ; c.i++ {
		if c.space(); c.b[c.i] == '}' { // only before the first member
			break
		}
		key, bad := c.text()
		if bad != nil {
			return bad
		}
		if !seen.add(key) {
			return within(key, wrong("stands twice"))
		}
		inner := reflect.Type(nil)
		if t != nil && t.Kind() == reflect.Map {
			inner = t.Elem()
		} else if t != nil {
			var ok bool
			if inner, ok = member(t, key); !ok {
				return within(key, wrong("is not a member of this object"))
			}
		}
		c.space()
		c.i++ // the colon
		if bad := c.value(inner, depth+1); bad != nil {
			return within(key, bad)
		}
		if c.space(); c.b[c.i] == '}' {
			break
		}
	}
	c.i++
	return nil
}

func (c *checker) array(t reflect.Type, depth int) *wire.FieldError {
	if bad := expect(t, t == nil || !isBytes(t) && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array)); bad != nil {
		return bad
	}
	var inner reflect.Type
	if t != nil {
		inner = t.Elem()
	}
	c.i++
	if c.space(); c.b[c.i] == ']' {
		c.i++
		return nil
	}
	for n := 0; ; n++ {
		if bad := c.value(inner, depth+1); bad != nil {
			return join("["+strconv.Itoa(n)+"]", bad)
		}
		c.space()
		if c.i++; c.b[c.i-1] == ']' {
			return nil
		}
	}
}

// text reads a string and returns its value.
func (c *checker) text() (string, *wire.FieldError) {
	start, escaped := c.i, false
	for c.i++; c.b[c.i] != '"'; {
		if c.b[c.i] != '\\' {
			c.i++
			continue
		}
		escaped = true
		unit := c.unit(c.i)
		switch {
		case unit < 0:
			c.i += len(`\n`)
		case !utf16.IsSurrogate(unit):
			c.i += len(`\u0000`)
		case utf16.DecodeRune(unit, c.unit(c.i+len(`\u0000`))) != utf8.RuneError:
			c.i += len(`\ud800\udc00`)
		default:
			return "", wrong("holds half of a surrogate pair")
		}
	}
	c.i++
	if !escaped {
		return string(c.b[start+1 : c.i-1]), nil
	}
	var s string
	_ = json.Unmarshal(c.b[start:c.i], &s) // it is valid
	return s, nil
}

// unit returns the UTF-16 unit whose \u escape begins at i, or -1 if none does.
func (c *checker) unit(i int) rune {
	if !bytes.HasPrefix(c.b[i:], []byte(`\u`)) {
		return -1
	}
	n, _ := strconv.ParseUint(string(c.b[i+2:i+6]), 16, 16)
	return rune(n)
}

func (c *checker) number(t reflect.Type) *wire.FieldError {
	start := c.i
	for c.i < len(c.b) && strings.IndexByte("+-.0123456789Ee", c.b[c.i]) >= 0 {
		c.i++
	}
	text := string(c.b[start:c.i])
	var err error
	switch kind := kindOf(t); kind {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		_, err = strconv.ParseInt(text, 10, t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		_, err = strconv.ParseUint(text, 10, t.Bits())
	case reflect.Float32:
		_, err = strconv.ParseFloat(text, 32)
	case reflect.Invalid, reflect.Float64:
		_, err = strconv.ParseFloat(text, 64)
	default:
		return expect(t, false)
	}
	if errors.Is(err, strconv.ErrRange) {
		return wrong("is out of range")
	}
	return expect(t, err == nil)
}

func (c *checker) space() {
	for c.b[c.i] == ' ' || c.b[c.i] == '\n' || c.b[c.i] == '\r' || c.b[c.i] == '\t' {
		c.i++
	}
}

// within puts a member's name before the path of what is wrong inside it. Names come from outside: odd ones are quoted.
func within(name string, bad *wire.FieldError) *wire.FieldError {
	plain := func(r rune) bool {
		return r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	if rest := strings.TrimLeftFunc(name, plain); name == "" || rest != "" || len(name) > 64 {
		name = fmt.Sprintf("%.64q", name)
	}
	return join(name, bad)
}

func join(step string, bad *wire.FieldError) *wire.FieldError {
	if bad.Field != "" && bad.Field[0] != '[' {
		step += "."
	}
	return &wire.FieldError{Field: step + bad.Field, Reason: bad.Reason}
}
