package fence_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"path/filepath"
	"strings"
	"testing"
)

// literals gives every string literal of the module's own code outside of this package and outside of tests, by position.
func literals(t *testing.T, root string) iter.Seq2[string, string] {
	t.Helper()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(string, string) bool) {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() {
				abs, err := filepath.Abs(path)
				if err != nil {
					return err
				}
				if abs == here || entry.Name() == "testdata" || entry.Name() != ".." && strings.HasPrefix(entry.Name(), ".") {
					return fs.SkipDir
				}
				return nil
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return nil // the compiler says it better
			}
			for node := range ast.Preorder(file) {
				if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					if !yield(files.Position(literal.Pos()).String(), literal.Value) {
						return fs.SkipAll
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
