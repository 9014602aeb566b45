package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "runnerd"

// A source is one Go file.
type source struct {
	path string // from the module's root, with slashes
	dir  string
	test bool
	*ast.File
	*token.FileSet
}

// A finding is a place that breaks a rule.
type finding string

// A rule looks at one file.
type rule func(source) []finding

// at makes a finding that names the place.
func (s source) at(n ast.Node, format string, args ...any) finding {
	pos := s.Position(n.Pos())
	return finding(fmt.Sprintf("%s:%d: %s", s.path, pos.Line, fmt.Sprintf(format, args...)))
}

// support says whether a file only helps tests: test files, suites like storetest, the end-to-end tests' servers.
func (s source) support() bool { return s.test || isSupport(s.dir) }

func isSupport(dir string) bool {
	base := path.Base(dir)
	return strings.HasSuffix(base, "test") || base == "testdep" || dir == "e2e" || strings.HasPrefix(dir, "e2e/")
}

// within says whether a file's folder is dir or below it.
func (s source) within(dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return s.dir == d || strings.HasPrefix(s.dir, d+"/") })
}

// crashes says whether a file is only compiled into programs for crash tests, which must end in the middle of things.
func (s source) crashes() bool {
	return slices.ContainsFunc(s.Comments, func(g *ast.CommentGroup) bool {
		return g.Pos() < s.Package && strings.Contains(g.List[0].Text, "//go:build faultpoint")
	})
}

// names returns the name under which the file knows a package, "" if it does not import it.
func (s source) names(importPath string) string {
	for _, imp := range s.Imports {
		p, err := strconv.Unquote(imp.Path.Value)
		if err != nil || p != importPath {
			continue
		}
		if imp.Name != nil {
			return imp.Name.Name
		}
		base := path.Base(p)
		if strings.Trim(base, "v0123456789") == "" && base[0] == 'v' { // a major version
			base = path.Base(path.Dir(p))
		}
		return base
	}
	return ""
}

// selector matches pkg.Name for a package of the given path and one of the names, or any name if none is given.
func (s source) selector(n ast.Node, importPath string, names ...string) bool {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Obj == nil && x.Name != "" && x.Name == s.names(importPath) &&
		(len(names) == 0 || slices.Contains(names, sel.Sel.Name))
}

// find visits every node of the file and collects what visit returns.
func (s source) find(visit func(ast.Node) []finding) (found []finding) {
	ast.Inspect(s.File, func(n ast.Node) bool {
		if n != nil {
			found = append(found, visit(n)...)
		}
		return true
	})
	return found
}

func parse(name string, text any) (source, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, text, parser.ParseComments)
	return source{path: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), File: f, FileSet: set}, err
}

// root is the folder of go.mod.
var root = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	return filepath.Dir(strings.TrimSpace(string(out))), err
})

func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// all reads every Go file of the module, once.
var all = sync.OnceValues(func() (files []source, err error) {
	top, err := root()
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(p, "go.mod")); rel != "." && err == nil {
				return filepath.SkipDir // another module
			}
			if base := d.Name(); rel != "." && (base[0] == '.' || base[0] == '_' || base == "testdata" || base == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		s, err := parse(filepath.ToSlash(rel), text)
		files = append(files, s)
		return err
	})
	return files, err
})

func sources(t testing.TB) []source {
	t.Helper()
	files, err := all()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no Go file was found")
	}
	return files
}

// apply runs rules over every file.
func apply(t *testing.T, rules ...rule) {
	t.Helper()
	for _, s := range sources(t) {
		for _, r := range rules {
			for _, f := range r(s) {
				t.Error(f)
			}
		}
	}
}
