package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
)

// A meter counts what an evaluation costs: a unit for each value and each byte of text that an operator, a function or a round
// of a loop takes or gives. The language's own budget counts some arrays and nothing else, so the meter stands in the way of
// every operand: without it a few nested loops, or a text that is doubled again and again, would hold up the store's writer.
type meter struct{ left int }

var errCost = errors.New("it takes too much work")

const (
	nameMeter = "$meter"
	fnCharge  = "$charge"
	fnMatches = "$matches"
)

// charge takes the cost of a value, shared parts as often as they occur. A value inside others costs more, because what writes
// it out indents it.
func (m *meter) charge(v any, depth int) error {
	if m.left -= 1 + depth; m.left < 0 {
		return errCost
	}
	switch v := v.(type) {
	case string:
		m.left -= len(v)
	case []any:
		for _, item := range v {
			if err := m.charge(item, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, item := range v {
			m.left -= len(name)
			if err := m.charge(item, depth+1); err != nil {
				return err
			}
		}
	case []string:
		for _, s := range v {
			m.left -= 1 + len(s)
		}
	case []int:
		m.left -= len(v)
	case map[any][]any:
		for _, items := range v {
			if err := m.charge(items, depth+1); err != nil {
				return err
			}
		}
	}
	if m.left < 0 {
		return errCost
	}
	return nil
}

// pay takes a cost that is known before the work is done.
func (m *meter) pay(cost int) error {
	if m.left -= max(cost, 0); cost < 0 || m.left < 0 {
		return errCost
	}
	return nil
}

// functions are those that the patched tree calls, with the meter as their first argument.
func functions() []expr.Option {
	metered := func(name string, fn func(*meter, ...any) (any, error)) expr.Option {
		return expr.Function(name, func(args ...any) (any, error) {
			m, ok := args[0].(*meter)
			if !ok {
				return nil, errCost
			}
			return fn(m, args[1:]...)
		})
	}
	return []expr.Option{
		metered(fnCharge, func(m *meter, args ...any) (any, error) { return args[0], m.charge(args[0], 0) }),
		metered(fnMatches, matchesText), metered("$replace", replaceText), metered("$repeat", repeatText),
		metered("$join", joinTexts), metered("$keys", keysOf), metered("$values", valuesOf),
	}
}

// A meterPatch puts the meter in front of operands, arguments and rounds.
type meterPatch struct{}

func (meterPatch) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BinaryNode:
		if n.Operator == "matches" {
			pattern, _ := patternOf(n) // it was read before
			*node = metered(fnMatches, n.Left, &ast.ConstantNode{Value: pattern})
			return
		}
		n.Left, n.Right = charged(n.Left), charged(n.Right)
	case *ast.PredicateNode:
		n.Node = charged(n.Node)
	case *ast.BuiltinNode:
		switch n.Name {
		case "replace", "repeat", "join", "keys", "values":
			*node = metered("$"+n.Name, n.Arguments...)
			return
		}
		for i, arg := range n.Arguments {
			if _, round := arg.(*ast.PredicateNode); !round {
				n.Arguments[i] = charged(arg)
			}
		}
	}
}

func charged(n ast.Node) ast.Node {
	switch n := n.(type) {
	case *ast.NilNode, *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode:
		return n
	}
	return metered(fnCharge, n)
}

func metered(name string, args ...ast.Node) ast.Node {
	return &ast.CallNode{
		Callee: &ast.IdentifierNode{Value: name}, Arguments: append([]ast.Node{&ast.IdentifierNode{Value: nameMeter}}, args...),
	}
}

// A pattern is an author's regular expression with what a byte of text costs it.
type pattern struct {
	*regexp.Regexp
	steps int
}

const maxPatternSteps = 2000

// patternOf reads the right side of matches. It is a text in the expression: what a step put out never becomes a program.
func patternOf(n *ast.BinaryNode) (*pattern, error) {
	text, ok := n.Right.(*ast.StringNode)
	if !ok {
		return nil, errors.New("matches needs a regular expression that is written out")
	}
	return readPattern(text.Value)
}

// readPattern refuses what is short to write and long to run, like a{1000}b{1000}.
func readPattern(text string) (*pattern, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil || len(text) > 1024 {
		return nil, errors.New("must be a regular expression (RE2) of at most 1024 bytes")
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > maxPatternSteps {
		return nil, fmt.Errorf("must be a regular expression of at most %d steps", maxPatternSteps)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return &pattern{re, 1 + len(program.Inst)/16}, nil
}

func matchesText(m *meter, args ...any) (any, error) {
	text, ok := args[0].(string)
	p, known := args[1].(*pattern)
	if !ok || !known {
		return nil, errors.New("matches takes a text")
	}
	if err := m.pay(1 + len(text)*p.steps); err != nil {
		return nil, err
	}
	return p.MatchString(text), nil
}

func replaceText(m *meter, args ...any) (any, error) {
	texts, err := textsOf("replace", args, 3, 4)
	if err != nil {
		return nil, err
	}
	if err := m.pay(len(texts[0])); err != nil {
		return nil, err
	}
	n := strings.Count(texts[0], texts[1])
	if len(args) == 4 {
		most, ok := args[3].(int)
		if !ok {
			return nil, errors.New("replace takes a whole number")
		}
		if most >= 0 {
			n = min(n, most)
		}
	}
	if err := m.pay(n * (1 + len(texts[2]))); err != nil {
		return nil, err
	}
	return strings.Replace(texts[0], texts[1], texts[2], n), nil
}

func repeatText(m *meter, args ...any) (any, error) {
	texts, err := textsOf("repeat", args[:min(1, len(args))], 1, 1)
	if err != nil || len(args) != 2 {
		return nil, errors.New("repeat takes a text and a number")
	}
	n, ok := args[1].(int)
	if f, isFloat := args[1].(float64); isFloat && f == math.Trunc(f) {
		n, ok = int(f), true
	}
	if !ok || n < 0 || n > maxCost {
		return nil, errors.New("repeat takes a text and a number that is not too large")
	}
	if err := m.pay(n * (1 + len(texts[0]))); err != nil {
		return nil, err
	}
	return strings.Repeat(texts[0], n), nil
}

func joinTexts(m *meter, args ...any) (any, error) {
	glue := ""
	if len(args) == 2 {
		texts, err := textsOf("join", args[1:], 1, 1)
		if err != nil {
			return nil, err
		}
		glue = texts[0]
	}
	var parts []string
	switch list := args[0].(type) {
	case []string:
		parts = list
	case []any:
		for _, item := range list {
			text, ok := item.(string)
			if !ok {
				return nil, errors.New("join takes texts")
			}
			parts = append(parts, text)
		}
	default:
		return nil, errors.New("join takes texts")
	}
	cost := len(parts) * (1 + len(glue))
	for _, part := range parts {
		cost += len(part)
	}
	if err := m.pay(cost); err != nil {
		return nil, err
	}
	return strings.Join(parts, glue), nil
}

func textsOf(name string, args []any, lo, hi int) ([]string, error) {
	if len(args) < lo || len(args) > hi {
		return nil, fmt.Errorf("%s takes %d arguments", name, lo)
	}
	texts := make([]string, min(len(args), lo))
	for i := range texts {
		text, ok := args[i].(string)
		if !ok {
			return nil, fmt.Errorf("%s takes texts", name)
		}
		texts[i] = text
	}
	return texts, nil
}

// keysOf gives the names of an object in order: the language's own has none, and an answer must not depend on chance.
func keysOf(m *meter, args ...any) (any, error) {
	names, err := namesOf(m, args)
	keys := make([]any, len(names))
	for i, name := range names {
		keys[i] = name
	}
	return keys, err
}

func valuesOf(m *meter, args ...any) (any, error) {
	names, err := namesOf(m, args)
	list := make([]any, len(names))
	for i, name := range names {
		if object, ok := args[0].(map[string]any); ok {
			list[i] = object[name]
		} else {
			list[i] = args[0].(map[any][]any)[name]
		}
	}
	return list, err
}

func namesOf(m *meter, args []any) ([]string, error) {
	if len(args) != 1 {
		return nil, errors.New("takes an object")
	}
	switch object := args[0].(type) {
	case map[string]any:
		return slices.Sorted(maps.Keys(object)), m.charge(object, 0)
	case map[any][]any:
		var names []string
		for key := range object {
			name, ok := key.(string)
			if !ok {
				return nil, errors.New("takes an object whose names are texts")
			}
			names = append(names, name)
		}
		slices.Sort(names)
		return names, m.charge(object, 0)
	}
	return nil, errors.New("takes an object")
}

// resultOf writes an expression's value as JSON. What its cost allows may be deeper than a document can be.
func resultOf(v any) (json.RawMessage, error) {
	m := meter{left: maxCost}
	if err := m.charge(v, 0); err != nil {
		return nil, err
	}
	plain, err := plainOf(v, maxDepth)
	if err != nil {
		return nil, err
	}
	doc, err := encode(plain)
	return json.RawMessage(doc), err
}

// plainOf is a value made of what JSON has.
func plainOf(v any, deep int) (any, error) {
	if deep == 0 {
		return nil, errors.New("its value is nested too deep")
	}
	switch v := v.(type) {
	case nil, bool, string, int, int64:
		return v, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errors.New("its value is no number")
		}
		return v, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			plain, err := plainOf(item, deep-1)
			if err != nil {
				return nil, err
			}
			out[name] = plain
		}
		return out, nil
	case map[any][]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			name, ok := key.(string)
			plain, err := plainOf(item, deep-1)
			if err != nil || !ok {
				return nil, errors.Join(err, errors.New("its value has names that are no texts"))
			}
			out[name] = plain
		}
		return out, nil
	}
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice {
		return nil, fmt.Errorf("its value is a %T, which nothing can be told", v)
	}
	out := make([]any, list.Len())
	for i := range out {
		plain, err := plainOf(list.Index(i).Interface(), deep-1)
		if err != nil {
			return nil, err
		}
		out[i] = plain
	}
	return out, nil
}
