package sqlite

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every statement of this package, as SQLite means to run it, must find its rows by an index: what a dispatch costs must
// not grow with the runs, runners and events that there are.
func TestNoStatementScansATable(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "gateway.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := s.connect(t.Context(), reading)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()

	// What a step walks that is no table: the row before it in a recursion, the members of an argument, a single row.
	harmless := regexp.MustCompile(`^SCAN (found|json_each VIRTUAL TABLE.*|CONSTANT ROW)$`)
	var seen int
	for _, text := range statements(t) {
		var plan []string
		err := c.rows(func(r scanner) error {
			var id, parent, unused int
			var detail string
			err := r.Scan(&id, &parent, &unused, &detail)
			plan = append(plan, detail)
			return err
		}, "EXPLAIN QUERY PLAN "+text, make([]any, strings.Count(text, "?"))...) // the plan does not depend on the values
		if err != nil {
			t.Errorf("%s\n\t%v", text, err)
			continue
		}
		seen++
		for _, step := range plan {
			if strings.HasPrefix(step, "SCAN ") && !harmless.MatchString(step) || strings.Contains(step, "AUTOMATIC") {
				t.Errorf("%s\n\t%s", text, strings.Join(plan, "\n\t"))
			}
		}
		t.Logf("%s\n\t%s", text, strings.Join(plan, "\n\t"))
	}
	if seen < 70 {
		t.Errorf("found %d statements only", seen)
	}
}

// statements are the constant texts in the code of this package that begin like a query, outside declarations of
// constants: those are parts.
func statements(t *testing.T) []string {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var parsed []*ast.File
	parts := map[string]ast.Expr{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && len(v.Names) == len(v.Values) {
				for i := range v.Names {
					parts[v.Names[i].Name] = v.Values[i]
				}
			}
			return true
		})
	}

	query := regexp.MustCompile(`^\s*(SELECT|WITH|INSERT|UPDATE|DELETE)\s`)
	var all []string
	for _, f := range parsed {
		ast.Inspect(f, func(n ast.Node) bool {
			if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST {
				return false
			}
			text, ok := text(n, parts)
			if ok && query.MatchString(text) {
				all = append(all, text)
			}
			return !ok
		})
	}
	return all
}

// text is the value of an expression made of literals, constants and plus signs.
func text(n ast.Node, parts map[string]ast.Expr) (string, bool) {
	switch e := n.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		if part, ok := parts[e.Name]; ok {
			return text(part, parts)
		}
	case *ast.BinaryExpr:
		x, okX := text(e.X, parts)
		y, okY := text(e.Y, parts)
		return x + y, okX && okY && e.Op == token.ADD
	}
	return "", false
}
