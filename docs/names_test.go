package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A proof is a test, benchmark, fuzz target or script, with the field requirements that it names.
type proof struct {
	pkg, name string
	fields    []string
}

func (p proof) String() string { return p.pkg + "." + p.name }

var fieldID = regexp.MustCompile(`UD-?(\d\d\d?)`)

func fieldsIn(texts ...string) (ids []string) {
	for _, text := range texts {
		for _, m := range fieldID.FindAllStringSubmatch(text, -1) {
			ids = append(ids, "UD-"+m[1])
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// proofs lists every one of the project. A script is called by its file's name.
var proofs = sync.OnceValues(func() (all []proof, err error) {
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(file, "go.mod")); file != root && (err == nil || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case strings.HasSuffix(rel, "_test.go") && !strings.Contains(rel, "/testdata/") && path.Dir(rel) != "docs":
			found, err := proofsOf(file, path.Dir(rel))
			all = append(all, found...)
			return err
		case strings.HasSuffix(rel, ".txtar"):
			b, err := os.ReadFile(file)
			all = append(all, proof{path.Dir(path.Dir(path.Dir(rel))), path.Base(rel), fieldsIn(string(b))})
			return err
		}
		return nil
	})
	return all, err
})

// proofsOf reads one file. A function names a requirement in its name, its comment, or a comment within.
func proofsOf(file, pkg string) (all []proof, err error) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for _, decl := range f.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || !regexp.MustCompile(`^(Test|Benchmark|Fuzz)[A-Z]`).MatchString(fn.Name.Name) || fn.Name.Name == "TestMain" {
			continue
		}
		texts := []string{fn.Name.Name}
		for _, g := range f.Comments {
			if g == fn.Doc || g.Pos() >= fn.Pos() && g.End() <= fn.End() {
				texts = append(texts, g.Text())
			}
		}
		all = append(all, proof{pkg, fn.Name.Name, fieldsIn(texts...)})
	}
	return all, nil
}

func allProofs(t testing.TB) []proof {
	t.Helper()
	all, err := proofs()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 100 {
		t.Fatalf("only %d tests were found", len(all))
	}
	return all
}

var (
	named  = regexp.MustCompile(`^([a-z0-9/]+)\.((?:Test|Benchmark|Fuzz)[A-Z]\w*|[a-z]+\.txtar)$`)
	nearly = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z][a-z]\w+`)
)

// A document names a test by its package and name, so that a reader can run it.
func TestTestsThatDocumentsNameAreThere(t *testing.T) {
	known := map[string]bool{}
	for _, p := range allProofs(t) {
		known[p.String()] = true
	}
	for _, d := range documents(t) {
		for i, line := range d.prose() {
			for _, span := range spans(line) {
				m := named.FindStringSubmatch(span)
				if m != nil && !known[span] {
					t.Errorf("%s:%d: there is no %s", d.path, i+1, span)
				}
				if m == nil && nearly.MatchString(span) && d.path != "CONTRIBUTING.md" {
					t.Errorf("%s:%d: %s is a test without its package", d.path, i+1, span)
				}
			}
		}
	}
}
