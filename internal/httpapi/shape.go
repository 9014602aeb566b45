package httpapi

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"runnerd/internal/wire"
)

// resolve follows pointers and tells whether null is a value. A type that reads itself becomes nil.
func resolve(t reflect.Type) (_ reflect.Type, nullable bool) {
	for t != nil {
		if p := reflect.PointerTo(t); p.Implements(reflect.TypeFor[json.Unmarshaler]()) {
			return nil, true
		} else if p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			return reflect.TypeFor[string](), nullable
		}
		switch t.Kind() {
		case reflect.Pointer:
			t, nullable = t.Elem(), true
		case reflect.Interface:
			return nil, true
		default:
			return t, nullable
		}
	}
	return nil, true
}

// member returns the type of the member that encoding/json would store under exactly this name.
func member(t reflect.Type, name string) (reflect.Type, bool) {
	for f := range t.Fields() {
		tag, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && tag == "" {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				if m, ok := member(inner, name); ok {
					return m, true
				}
				continue
			}
		}
		if !f.IsExported() || f.Tag.Get("json") == "-" || tag != name && (tag != "" || f.Name != name) {
			continue
		}
		if strings.Contains(opts, "string") {
			return nil, true // a number in quotes: encoding/json checks it
		}
		return f.Type, true
	}
	return nil, false
}

func kindOf(t reflect.Type) reflect.Kind {
	if t == nil {
		return reflect.Invalid
	}
	return t.Kind()
}

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

// expect says what t takes, unless the value was of that kind.
func expect(t reflect.Type, ok bool) *wire.FieldError {
	if ok {
		return nil
	}
	switch kind := kindOf(t); {
	case kind == reflect.Struct || kind == reflect.Map:
		return wrong("must be an object")
	case kind == reflect.String || isBytes(t):
		return wrong("must be a string")
	case kind == reflect.Slice || kind == reflect.Array:
		return wrong("must be an array")
	case kind == reflect.Bool:
		return wrong("must be true or false")
	case kind == reflect.Float32 || kind == reflect.Float64:
		return wrong("must be a number")
	default:
		return wrong("must be an integer")
	}
}

func wrong(format string, args ...any) *wire.FieldError {
	return &wire.FieldError{Reason: fmt.Sprintf(format, args...)}
}

// names are the members that one object has had so far.
type names struct {
	few  []string
	many map[string]bool
}

func (n *names) add(name string) bool {
	const enough = 16
	if n.many == nil {
		if slices.Contains(n.few, name) {
			return false
		}
		if n.few = append(n.few, name); len(n.few) > enough {
			n.many = make(map[string]bool, 2*enough)
			for _, s := range n.few {
				n.many[s] = true
			}
		}
		return true
	}
	had := n.many[name]
	n.many[name] = true
	return !had
}
