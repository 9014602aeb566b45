package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link   = regexp.MustCompile(`\]\(([^)\s]+)\)|<img src="([^"]+)"`)
	marked = regexp.MustCompile("[^a-z0-9 _-]")
)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, d := range documents(t) {
		for i, line := range d.prose() {
			for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
				to := m[1] + m[2]
				if strings.HasPrefix(to, "https://") {
					continue
				}
				file, anchor, _ := strings.Cut(to, "#")
				target := path.Join(path.Dir(d.path), file)
				if file == "" {
					target = d.path
				}
				if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil {
					t.Errorf("%s:%d: leads to %s, which is not there", d.path, i+1, to)
				} else if anchor != "" && !anchors(read(t, target))[anchor] {
					t.Errorf("%s:%d: %s has no heading %q", d.path, i+1, target, anchor)
				}
			}
		}
	}
}

// anchors are the headings of a document as links name them.
func anchors(d document) map[string]bool {
	all := map[string]bool{}
	for _, line := range d.prose() {
		if heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			all[strings.ReplaceAll(marked.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")] = true
		}
	}
	return all
}

// Every document can be reached from the README.
func TestNoDocumentIsLost(t *testing.T) {
	seen := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		for _, line := range read(t, name).prose() {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				to, _, _ := strings.Cut(m[1], "#")
				if strings.HasSuffix(to, ".md") && !strings.HasPrefix(to, "https://") {
					visit(path.Join(path.Dir(name), to))
				}
			}
		}
	}
	visit("README.md")
	for _, d := range documents(t) {
		if !seen[d.path] {
			t.Errorf("nothing leads to %s", d.path)
		}
	}
}
