package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

const mostLines = 500

func TestNoFileIsTooLong(t *testing.T) { apply(t, tooLong) }

func tooLong(s source) []finding {
	if n := s.File.FileStart; s.FileSet.File(n).LineCount() > mostLines {
		return []finding{s.at(s.Name, "has %d lines: it is usually two things", s.FileSet.File(n).LineCount())}
	}
	return nil
}

func TestPackagesSayWhatTheyPromise(t *testing.T) {
	said, place := map[string]int{}, map[string]source{}
	for _, s := range sources(t) {
		if s.test && s.Name.Name != "archtest" {
			continue
		}
		place[s.dir] = s
		if s.Doc != nil && strings.TrimSpace(s.Doc.Text()) != "" {
			said[s.dir]++
		}
	}
	for dir, s := range place {
		if said[dir] == 0 {
			t.Errorf("%s: package %s has no comment", dir, s.Name.Name)
		}
		if slices.Contains([]string{"util", "utils", "common", "models", "types", "helpers", "misc"}, s.Name.Name) {
			t.Errorf("%s: package %s is named for nothing", dir, s.Name.Name)
		}
	}
}

func TestExportedNamesHaveAComment(t *testing.T) { apply(t, undocumented) }

// undocumented leaves out methods, which mostly implement an interface that says what they do.
func undocumented(s source) (found []finding) {
	if s.test || s.Name.Name == "main" {
		return nil
	}
	for i, d := range s.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.IsExported() && d.Doc == nil && !follows(s, i) {
				found = append(found, s.at(d, "%s has no comment", d.Name.Name))
			}
		case *ast.GenDecl:
			if d.Tok == token.IMPORT || d.Doc != nil {
				continue
			}
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.IsExported() && spec.Doc == nil && spec.Comment == nil {
						found = append(found, s.at(spec, "%s has no comment", spec.Name.Name))
					}
				case *ast.ValueSpec:
					if spec.Names[0].IsExported() && spec.Doc == nil && spec.Comment == nil {
						found = append(found, s.at(spec, "%s has no comment", spec.Names[0].Name))
					}
				}
			}
		}
	}
	return found
}

// follows says whether a declaration stands right below another, whose comment is for both.
func follows(s source, i int) bool {
	return i > 0 && s.Position(s.Decls[i-1].End()).Line == s.Position(s.Decls[i].Pos()).Line-1
}

func TestContextsAreNotKept(t *testing.T) { apply(t, keptContexts) }

func keptContexts(s source) []finding {
	if s.support() {
		return nil
	}
	return s.find(func(n ast.Node) (found []finding) {
		if st, ok := n.(*ast.StructType); ok {
			for _, f := range st.Fields.List {
				if s.selector(f.Type, "context", "Context") {
					found = append(found, s.at(f, "keeps a context in a field"))
				}
			}
		}
		return found
	})
}

func TestNothingIsLeftToBeDone(t *testing.T) { apply(t, leftovers) }

func leftovers(s source) (found []finding) {
	marks := []string{"TO" + "DO", "FIX" + "ME", "XX" + "X"}
	for _, g := range s.Comments {
		for _, word := range strings.FieldsFunc(g.Text(), func(r rune) bool { return r < 'A' || r > 'Z' }) {
			if slices.Contains(marks, word) {
				found = append(found, s.at(g, "says %s", word))
			}
		}
	}
	return found
}

func TestNothingIsSkippedUnseen(t *testing.T) { apply(t, skips) }

// skips lets a test skip for a missing part only where it looks at CI, which must fail instead; internal/testdep does. It may
// skip on another system, and rapid may drop a value.
func skips(s source) (found []finding) {
	for _, d := range s.Decls {
		var skipped []finding
		excused := false
		ast.Inspect(d, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Value == `"CI"` {
				excused = true
			}
			excused = excused || n != nil && s.selector(n, "runtime", "GOOS")
			if call, ok := n.(*ast.CallExpr); ok && isSkip(s, call) {
				skipped = append(skipped, s.at(n, "skips: testdep.Missing fails when CI is set"))
			}
			return true
		})
		if !excused {
			found = append(found, skipped...)
		}
	}
	return found
}

func isSkip(s source, call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok || x.Obj == nil {
		return false
	}
	field, ok := x.Obj.Decl.(*ast.Field)
	if !ok {
		return false
	}
	t := field.Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	return s.selector(t, "testing")
}
