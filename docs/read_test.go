package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the project's folder, from here.
const root = ".."

// A document is one Markdown file. Its path is from the project's folder.
type document struct {
	path  string
	lines []string
}

// A block is a fenced piece of a document. Lines are numbered from 1.
type block struct {
	language string
	first    int // line
	lines    []string
}

// documents reads every document of the project.
func documents(t testing.TB) []document {
	t.Helper()
	paths := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
	err := fs.WalkDir(os.DirFS(root), "docs", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	all := make([]document, len(paths))
	for i, path := range paths {
		all[i] = read(t, path)
	}
	return all
}

func read(t testing.TB, path string) document {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return document{path, strings.Split(string(b), "\n")}
}

// blocks gives the fenced blocks of a document.
func (d document) blocks() (all []block) {
	open := false
	for i, line := range d.lines {
		language, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && !open:
			all = append(all, block{language: language, first: i + 2})
		case !fence && open:
			b := &all[len(all)-1]
			b.lines = append(b.lines, line)
		}
		open = open != fence
	}
	return all
}

// prose is a document without its fenced blocks, with as many lines.
func (d document) prose() []string {
	all := append([]string(nil), d.lines...)
	for _, b := range d.blocks() {
		for i := range b.lines {
			all[b.first-1+i] = ""
		}
	}
	return all
}

var code = regexp.MustCompile("`([^`]+)`")

// spans gives what stands between backticks in a line of prose.
func spans(line string) (all []string) {
	for _, m := range code.FindAllStringSubmatch(line, -1) {
		all = append(all, m[1])
	}
	return all
}

func TestBlocksAreFound(t *testing.T) {
	d := document{"x.md", strings.Split("a\n```sh\nb\nc\n```\nd\n```\ne\n```", "\n")}
	all := d.blocks()
	if len(all) != 2 || all[0].language != "sh" || all[0].first != 3 || strings.Join(all[0].lines, " ") != "b c" || all[1].lines[0] != "e" {
		t.Errorf("got %+v", all)
	}
	if got := strings.Join(d.prose(), " "); got != "a ```sh   ``` d ```  ```" {
		t.Errorf("prose is %q", got)
	}
}
