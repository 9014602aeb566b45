package schema

import (
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// notBefore matches what begins with nothing that not matches.
type notBefore struct {
	text      string
	not, then *regexp.Regexp
}

func (p notBefore) String() string            { return p.text }
func (p notBefore) MatchString(s string) bool { return !p.not.MatchString(s) && p.then.MatchString(s) }

// compileRegexp reads a pattern of a schema. A negative look-ahead right after ^ is understood; any other is an error.
func compileRegexp(text string) (jsonschema.Regexp, error) {
	rest, ok := strings.CutPrefix(text, "^(?!")
	end := closing(rest)
	if !ok || end < 0 {
		return regexp.Compile(text)
	}
	not, err := regexp.Compile("^(?:" + rest[:end] + ")")
	if err != nil {
		return nil, err
	}
	then, err := regexp.Compile("^(?:" + rest[end+1:] + ")")
	if err != nil {
		return nil, err
	}
	return notBefore{text, not, then}, nil
}

// closing finds the parenthesis that closes a group of which s is the inside and what follows, or returns -1.
func closing(s string) int {
	depth, class := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '(':
			depth++
		case c == ')' && depth == 0:
			return i
		case c == ')':
			depth--
		}
	}
	return -1
}
