package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	exprparser "github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

// What an expression may be. Its cost is counted (meter.go) and not timed, so that the same question has the same answer.
const (
	MaxExpressions = 200 // of a workflow, in bindings and conditions together
	maxExpression  = 4 << 10
	maxTerms       = 500
	maxRead        = 256 << 10 // bytes of the values that one reads
	maxCost        = 256 << 10
	maxItems       = 64 << 10 // of arrays that one makes
)

// The names that mean something in an expression. Every other name is a variable of the run.
const (
	nameVariables = "variables"
	nameNodes     = "nodes"
	nameOutput    = "output" // of an edge's source, in its condition
	nameStatus    = "status"
)

// An expression is compiled once, and knows by name everything that it reads.
type expression struct {
	program   *vm.Program
	variables []string
	nodes     []nodeRead
}

type nodeRead struct {
	id    string
	index int
}

// allowed are the functions of the language that have a result of their arguments alone, at a cost that can be counted.
var allowed = map[string]bool{
	"all": true, "none": true, "any": true, "one": true, "filter": true, "map": true, "find": true, "findIndex": true, "findLast": true,
	"findLastIndex": true, "count": true, "sum": true, "groupBy": true, "sortBy": true, "reduce": true, "len": true, "type": true, "abs": true,
	"ceil": true, "floor": true, "round": true, "int": true, "float": true, "string": true, "trim": true, "trimPrefix": true, "trimSuffix": true,
	"upper": true, "lower": true, "split": true, "replace": true, "repeat": true, "join": true, "indexOf": true, "lastIndexOf": true,
	"hasPrefix": true, "hasSuffix": true, "max": true, "min": true, "mean": true, "median": true, "toJSON": true, "fromJSON": true, "first": true,
	"last": true, "get": true, "take": true, "keys": true, "values": true, "reverse": true, "concat": true, "flatten": true, "sort": true,
}

// readExpression compiles an expression; names are those that it may use besides variables.
func readExpression(source string, names ...string) (x *expression, err error) {
	if len(source) > maxExpression {
		return nil, fmt.Errorf("must have at most %d bytes", maxExpression)
	}
	defer func() { // the parser is not ours
		if r := recover(); r != nil {
			x, err = nil, fmt.Errorf("cannot be read: %v", r)
		}
	}()
	config := conf.CreateNew()
	config.MaxNodes = maxTerms
	tree, err := exprparser.ParseWithConfig(source, config)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("cannot be read: %s", first)
	}
	r := exprReader{x: &expression{}, names: names, local: map[string]bool{}, taken: map[ast.Node]bool{}}
	r.locals(tree.Node)
	r.read(tree.Node)
	if r.err != nil {
		return nil, r.err
	}
	r.x.program, err = expr.Compile(source, append(functions(), expr.Optimize(false), expr.MaxNodes(maxTerms), expr.Patch(meterPatch{}))...)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("cannot be read: %s", first)
	}
	return r.x, nil
}

// An exprReader goes through an expression from its root, and finds what it reads and what it may not have.
type exprReader struct {
	x     *expression
	names []string
	local map[string]bool
	taken map[ast.Node]bool // identifiers that a member expression has explained
	err   error
}

func (r *exprReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

type visit func(ast.Node)

func (v visit) Visit(n *ast.Node) { v(*n) }

func (r *exprReader) locals(root ast.Node) {
	ast.Walk(&root, visit(func(n ast.Node) {
		if let, ok := n.(*ast.VariableDeclaratorNode); ok {
			if r.reserved(let.Name) {
				r.fail("may not give %q another meaning", let.Name)
			}
			r.local[let.Name] = true
		}
		m, ok := n.(*ast.MemberNode)
		if !ok {
			return
		}
		of, isName := m.Node.(*ast.IdentifierNode)
		name, isText := m.Property.(*ast.StringNode)
		switch {
		case !isName || of.Value != nameVariables && of.Value != nameNodes:
		case !isText:
			r.fail("must name what it reads of %s", of.Value)
		case of.Value == nameVariables:
			r.taken[of] = true
			r.x.variables = append(r.x.variables, name.Value)
		default:
			r.taken[of] = true
			r.x.nodes = append(r.x.nodes, nodeRead{id: name.Value})
		}
	}))
}

func (r *exprReader) reserved(name string) bool {
	return name == nameVariables || name == nameNodes || slices.Contains(r.names, name) || strings.HasPrefix(name, "$")
}

func (r *exprReader) read(root ast.Node) {
	ast.Walk(&root, visit(func(n ast.Node) {
		switch n := n.(type) {
		case *ast.IdentifierNode:
			switch {
			case strings.HasPrefix(n.Value, "$"):
				r.fail("has no name %q", n.Value)
			case r.taken[n] || r.local[n.Value] || slices.Contains(r.names, n.Value):
			case n.Value == nameVariables || n.Value == nameNodes:
				r.fail("must name what it reads of %s", n.Value)
			default:
				r.x.variables = append(r.x.variables, n.Value)
			}
		case *ast.CallNode:
			r.fail("calls a function that is not here")
		case *ast.BuiltinNode:
			if !allowed[n.Name] {
				r.fail("calls %s, which is not here", n.Name)
			}
		case *ast.BinaryNode:
			if n.Operator == "matches" {
				if _, err := patternOf(n); err != nil {
					r.fail("%v", err)
				}
			}
		}
	}))
	slices.Sort(r.x.variables)
	r.x.variables = slices.Compact(r.x.variables)
	slices.SortFunc(r.x.nodes, func(a, b nodeRead) int { return strings.Compare(a.id, b.id) })
	r.x.nodes = slices.Compact(r.x.nodes)
}

// evaluate gives an expression its values. more are those of the names that it may use besides.
func (t *turn) evaluate(x *expression, more map[string]value) (value, *problem) {
	env := map[string]any{nameMeter: &meter{left: maxCost}}
	var out value
	size := 0
	read := func(v value) any {
		var decoded any
		if size += len(v.raw); v.raw == nil || size > maxRead || decode(v.raw, &decoded) != nil {
			return nil
		}
		out.untrusted = out.untrusted || v.untrusted
		return decoded
	}
	variables, nodes := map[string]any{}, map[string]any{}
	for _, name := range x.variables {
		v, _ := t.variable(name)
		if v.variable != "" {
			return out, fail(codeExpression, "variable %q is sensitive, and can only be passed on whole", name)
		}
		variables[name] = read(v)
		env[name] = variables[name]
	}
	for _, n := range x.nodes {
		nodes[n.id] = read(t.shown(n.index))
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		env[name] = read(more[name])
	}
	env[nameVariables], env[nameNodes] = variables, nodes
	if size > maxRead {
		return out, fail(codeExpression, "the expression reads %d bytes, and may read %d", size, maxRead)
	}
	machine := vm.VM{MemoryBudget: maxItems}
	result, err := machine.Run(x.program, env)
	if err == nil {
		out.raw, err = resultOf(result)
	}
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		p := fail(codeExpression, "the expression has no value: %s", clean(first, 500))
		p.untrusted = out.untrusted
		return out, p
	}
	return out, nil
}

// shown is what a node that has ended put out, without what may not be shown.
func (t *turn) shown(i int) value {
	n := &t.s.nodes[i]
	if n.status != nodeCompletedStatus && n.status != nodeFailedStatus {
		return value{}
	}
	out := t.outputs(i)
	v := value{raw: out.whole, untrusted: n.untrusted, from: t.s.wf.nodes[i].id}
	if len(out.sensitive) > 0 {
		all, err := members(out.whole)
		maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool { _, hidden := out.sensitive[name]; return hidden })
		if v.raw = nil; err == nil {
			v.raw = mustEncode(all)
		}
	}
	return v
}

// expressionHolds evaluates an edge's condition, once in a decision.
func (t *turn) expressionHolds(e *edge) (bool, *problem) {
	if c, ok := t.conditions[e]; ok {
		return c.holds, c.problem
	}
	status := value{raw: json.RawMessage(`"` + t.s.nodes[e.from].status.String() + `"`)}
	v, p := t.evaluate(e.condition.expression, map[string]value{nameOutput: t.shown(e.from), nameStatus: status})
	c := conditionResult{holds: string(v.raw) == "true", problem: p}
	if p == nil && !c.holds && string(v.raw) != "false" {
		c.problem = fail(codeExpression, "the condition of edge %q is neither true nor false", e.id)
	}
	if t.conditions == nil {
		t.conditions = map[*edge]conditionResult{}
	}
	t.conditions[e] = c
	return c.holds, c.problem
}

type conditionResult struct {
	holds   bool
	problem *problem
}
