package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

func TestNoInit(t *testing.T) { apply(t, inits) }

func inits(s source) (found []finding) {
	for _, d := range s.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			found = append(found, s.at(f, "has an init function"))
		}
	}
	return found
}

func TestNoPackageVariableChanges(t *testing.T) {
	packages := map[string][]source{}
	for _, s := range sources(t) {
		if !s.test && !s.crashes() {
			packages[s.dir] = append(packages[s.dir], s)
		}
	}
	for _, files := range packages {
		for _, f := range changingVars(files) {
			t.Error(f)
		}
	}
}

// changingVars finds the package variables of one package that could change: exported ones other than errors, those that
// are made to change, and those that something assigns to.
func changingVars(files []source) (found []finding) {
	vars := map[string]*ast.ValueSpec{}
	for _, s := range files {
		for _, d := range s.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				v := spec.(*ast.ValueSpec)
				for _, name := range v.Names {
					if name.Name != "_" {
						vars[name.Name] = v
					}
				}
				if why := changeable(s, group, v); why != "" {
					found = append(found, s.at(v, "variable %s %s", v.Names[0].Name, why))
				}
			}
		}
	}
	for _, s := range files {
		found = append(found, s.find(func(n ast.Node) []finding {
			return assigned(s, n, vars)
		})...)
	}
	return found
}

// changeable says why a variable is one that may change, or "".
func changeable(s source, group *ast.GenDecl, v *ast.ValueSpec) string {
	if v.Names[0].Name == "_" {
		return "" // an assertion that a type implements an interface
	}
	if v.Values == nil {
		doc := slices.Concat(comments(group.Doc), comments(v.Doc))
		if slices.ContainsFunc(doc, func(c string) bool { return strings.HasPrefix(c, "//go:embed ") }) {
			return ""
		}
		return "has no value, so something must assign it"
	}
	errs := !slices.ContainsFunc(v.Values, func(e ast.Expr) bool {
		call, ok := e.(*ast.CallExpr)
		return !ok || !s.selector(call.Fun, "errors", "New") && !s.selector(call.Fun, "fmt", "Errorf")
	})
	if v.Names[0].IsExported() && !errs {
		return "is exported and no error"
	}
	for _, e := range append(slices.Clone(v.Values), v.Type) {
		if made(s, e) {
			return "is made to change"
		}
	}
	return ""
}

// made says whether an expression makes something whose only use is to change: a lock, a pool, a channel, a pointer.
func made(s source, e ast.Expr) bool {
	switch e := e.(type) {
	case nil:
		return false
	case *ast.UnaryExpr:
		return e.Op == token.AND
	case *ast.StarExpr:
		return true
	case *ast.CompositeLit:
		return made(s, e.Type)
	case *ast.CallExpr:
		name, ok := e.Fun.(*ast.Ident)
		return ok && (name.Name == "new" || name.Name == "make")
	case *ast.SelectorExpr:
		return s.selector(e, "sync") || s.selector(e, "sync/atomic")
	}
	return false
}

func comments(g *ast.CommentGroup) (lines []string) {
	if g == nil {
		return nil
	}
	for _, c := range g.List {
		lines = append(lines, c.Text)
	}
	return lines
}

// assigned finds an assignment to one of vars, to an element of it, or the taking of its address.
func assigned(s source, n ast.Node, vars map[string]*ast.ValueSpec) (found []finding) {
	report := func(e ast.Expr) {
		id := base(e)
		if id == nil || vars[id.Name] == nil {
			return
		}
		if id.Obj == nil || id.Obj.Decl == vars[id.Name] { // else a local one of the same name
			found = append(found, s.at(e, "package variable %s is changed", id.Name))
		}
	}
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			for _, e := range n.Lhs {
				report(e)
			}
		}
	case *ast.IncDecStmt:
		report(n.X)
	case *ast.UnaryExpr:
		if _, ok := n.X.(*ast.CompositeLit); n.Op == token.AND && !ok {
			report(n.X)
		}
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			report(n.Key)
			report(n.Value)
		}
	case *ast.CallExpr:
		if name, ok := n.Fun.(*ast.Ident); ok && slices.Contains([]string{"delete", "clear", "copy"}, name.Name) {
			report(n.Args[0])
		}
	}
	return found
}

// base is the variable at the bottom of an expression like v.field[i].
func base(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		default:
			return nil
		}
	}
}
