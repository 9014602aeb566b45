package engine

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"runnerd/internal/wire"
)

// maxMistakes bounds what one refusal says about a document.
const maxMistakes = 50

// maxDepth is how deep a definition and what a client sends with a run may be nested. It leaves room below wire.MaxDepth for
// the frame that is built around them.
const maxDepth = wire.MaxDepth - 12

// A reader collects every mistake of a document under the path of the member it is about.
type reader struct{ errs []error }

func (r *reader) fail(path, format string, args ...any) {
	if len(r.errs) < maxMistakes {
		r.errs = append(r.errs, &wire.FieldError{Field: path, Reason: fmt.Sprintf(format, args...)})
	}
}

// An object is one JSON object of the document. Its methods give the zero value for a member that is absent or wrong, after
// noting what is wrong with it.
type object struct {
	*reader
	path    string
	members map[string]jsontext.Value
}

func (r *reader) object(path string, raw jsontext.Value) object {
	o := object{r, path, nil}
	if raw.Kind() != '{' || decode(raw, &o.members) != nil {
		r.fail(cmp.Or(path, "document"), "must be an object")
	}
	return o
}

func (o object) at(name string) string {
	switch {
	case strings.ContainsAny(name, ".[]\" "):
		return fmt.Sprintf("%s[%q]", o.path, name)
	case o.path == "":
		return name
	}
	return o.path + "." + name
}

func (o object) has(name string) bool { _, ok := o.members[name]; return ok }

// required notes the names that are absent, if the object is one at all.
func (o object) required(names ...string) {
	for _, name := range names {
		if o.members != nil && !o.has(name) {
			o.fail(o.at(name), "is required")
		}
	}
}

// closed notes the members that have none of the names.
func (o object) closed(names ...string) {
	var extra []string
	for name := range o.members {
		if !slices.Contains(names, name) {
			extra = append(extra, name)
		}
	}
	slices.Sort(extra)
	for _, name := range extra {
		o.fail(o.at(name), "is not a member of this object")
	}
}

// text is a string of lo to hi characters without control characters.
func (o object) text(name string, lo, hi int) string {
	raw, ok := o.members[name]
	if !ok {
		return ""
	}
	s, ok := textOf(raw)
	switch n := utf8.RuneCountInString(s); {
	case !ok:
		o.fail(o.at(name), "must be a string")
	case n < lo && lo == 1:
		o.fail(o.at(name), "must not be empty")
	case n < lo || n > hi:
		o.fail(o.at(name), "must have %d to %d characters", lo, hi)
	case strings.ContainsFunc(s, func(c rune) bool { return c < 0x20 || c == 0x7f }):
		o.fail(o.at(name), "must not hold control characters")
	default:
		return s
	}
	return ""
}

// choice is a string out of options, the first when absent.
func (o object) choice(name string, options ...string) string {
	raw, ok := o.members[name]
	if !ok {
		return options[0]
	}
	if s, ok := textOf(raw); ok && slices.Contains(options, s) {
		return s
	}
	o.fail(o.at(name), "must be one of %s", strings.Join(options, ", "))
	return options[0]
}

func (o object) flag(name string) bool {
	raw, ok := o.members[name]
	if ok && raw.Kind() != 't' && raw.Kind() != 'f' {
		o.fail(o.at(name), "must be true or false")
	}
	return ok && raw.Kind() == 't'
}

// whole is an integer of lo to hi, or 0 when absent.
func (o object) whole(name string, lo, hi int64) int64 {
	raw, ok := o.members[name]
	if !ok {
		return 0
	}
	n, ok := wholeOf(raw)
	if !ok || n < lo || n > hi {
		if hi == math.MaxInt64 {
			o.fail(o.at(name), "must be an integer of %d or more", lo)
		} else {
			o.fail(o.at(name), "must be an integer from %d to %d", lo, hi)
		}
		return 0
	}
	return n
}

func (o object) list(name string) []jsontext.Value {
	raw, ok := o.members[name]
	if !ok {
		return nil
	}
	var items []jsontext.Value
	if raw.Kind() != '[' || decode(raw, &items) != nil {
		o.fail(o.at(name), "must be an array")
	}
	return items
}

func (o object) child(name string) object {
	raw, ok := o.members[name]
	if !ok {
		return object{o.reader, o.at(name), nil}
	}
	return o.object(o.at(name), raw)
}

func textOf(raw []byte) (string, bool) {
	var s string
	if jsontext.Value(raw).Kind() != '"' || decode(raw, &s) != nil {
		return "", false
	}
	return s, true
}

// wholeOf reads an integer; JSON Schema counts 1.0 and 1e3 among them.
func wholeOf(raw []byte) (int64, bool) {
	f, ok := numberOf(raw)
	if !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

func numberOf(raw []byte) (float64, bool) {
	if jsontext.Value(raw).Kind() != '0' {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(string(raw)), 64)
	return f, err == nil
}

// depthOf is how deep a valid document is nested.
func depthOf(doc []byte) int {
	depth, deepest, inString, escaped := 0, 0, false, false
	for _, c := range doc {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped = c == '\\'
			inString = c != '"'
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}
