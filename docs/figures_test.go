package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const figuresFile = "docs/operate/performance.md"

// A figure stands under a heading that has a command to repeat it.
func TestFiguresStandNextToACommand(t *testing.T) {
	d := read(t, figuresFile)
	figure := regexp.MustCompile(`\d\s?(?:[nµum]?s|%|[KMG]i?B|/s|x|×)\b|\b\d+[.,]\d+`)
	commands := map[int]bool{}
	for _, b := range d.blocks() {
		for i := range b.lines {
			commands[b.first+i] = b.language == "sh"
		}
	}
	section, line, has := "the beginning", 0, false
	report := func() {
		if line > 0 && !has {
			t.Errorf("%s:%d: a figure under %q without a command that repeats it", figuresFile, line, section)
		}
	}
	for i, text := range d.prose() {
		if strings.HasPrefix(text, "#") {
			report()
			section, line, has = strings.TrimLeft(text, "# "), 0, false
		}
		if line == 0 && figure.MatchString(text) {
			line = i + 1
		}
		has = has || commands[i+1]
	}
	report()
}

var (
	benchFlag = regexp.MustCompile(`-bench[ =]'?([\w/^$|.=-]+)'?`)
	makeRun   = regexp.MustCompile(`^make bench RUN=(\w+)$`)
)

// checkBenchmark looks whether what a command measures is there. To run it would take minutes, and say nothing on a busy machine.
func checkBenchmark(t *testing.T, command string) {
	t.Helper()
	run, pkg := "", ""
	if m := makeRun.FindStringSubmatch(command); m != nil {
		run = m[1]
	} else if m := benchFlag.FindStringSubmatch(command); m != nil {
		words := strings.Fields(command)
		run, pkg = m[1], strings.TrimPrefix(words[len(words)-1], "./")
		if _, err := os.Stat(filepath.Join(root, pkg)); err != nil {
			t.Errorf("%s: there is no %s", command, pkg)
		}
	}
	name, _, _ := strings.Cut(run, "/")
	pattern, err := regexp.Compile(name)
	if err != nil || name == "" {
		t.Errorf("%s names no benchmark: %v", command, err)
		return
	}
	for _, p := range allProofs(t) {
		if bench, ok := strings.CutPrefix(p.name, "Benchmark"); ok && (pkg == "" || p.pkg == pkg) && (pattern.MatchString(bench) || pattern.MatchString(p.name)) {
			return
		}
	}
	t.Errorf("%s runs no benchmark", command)
}
