package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// An event is one line of `go test -json`. An empty Test means the package.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

type key struct{ pkg, test string }

// A report counts tests and keeps the output of those that have not passed.
type report struct {
	out     io.Writer
	strict  bool
	outputs map[key][]string
	running map[key]bool
	skips   []string
	broken  map[string]bool // packages in which a test failed by itself

	passed, failed, skipped int
}

func newReport(out io.Writer, strict bool) *report {
	return &report{out: out, strict: strict, outputs: map[key][]string{}, running: map[key]bool{}, broken: map[string]bool{}}
}

// read takes events until there are no more. A line that is none is printed: it comes from the go command itself.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var ev event
		if err := json.Unmarshal(lines.Bytes(), &ev); err != nil || ev.Action == "" {
			fmt.Fprintln(r.out, lines.Text())
			continue
		}
		r.take(ev)
	}
	return lines.Err()
}

func (r *report) take(ev event) {
	k := key{ev.Package, ev.Test}
	switch ev.Action {
	case "build-output":
		fmt.Fprint(r.out, ev.Output)
	case "run":
		r.running[k] = true
	case "output":
		r.outputs[k] = append(r.outputs[k], ev.Output)
	case "pass":
		if ev.Test != "" {
			r.passed++
		} else {
			fmt.Fprintf(r.out, "ok    %s  %.1fs\n", ev.Package, ev.Elapsed)
		}
		r.forget(k)
	case "skip":
		if ev.Test != "" && !strings.HasPrefix(ev.Test, "Fuzz") { // a seed that a fuzz target has no use for
			r.skipped++
			r.skips = append(r.skips, ev.Package+" "+ev.Test+": "+reason(r.outputs[k]))
		}
		r.forget(k)
	case "fail":
		r.fail(k, ev)
	}
}

func (r *report) fail(k key, ev event) {
	if ev.Test != "" {
		r.failed++
		r.broken[ev.Package] = true
		fmt.Fprintf(r.out, "FAIL  %s %s\n%s", ev.Package, ev.Test, strings.Join(r.outputs[k], ""))
		r.forget(k)
		return
	}
	// A package fails by itself when it does not build, panics, or takes too long: then tests that ran have no end.
	for _, open := range slices.SortedFunc(maps.Keys(r.running), func(a, b key) int { return strings.Compare(a.test, b.test) }) {
		if open.pkg == ev.Package && open.test != "" {
			r.failed++
			r.broken[ev.Package] = true
			fmt.Fprintf(r.out, "FAIL  %s %s did not end\n%s", open.pkg, open.test, strings.Join(r.outputs[open], ""))
			r.forget(open)
		}
	}
	if !r.broken[ev.Package] {
		r.failed++
	}
	fmt.Fprintf(r.out, "FAIL  %s  %.1fs\n%s", ev.Package, ev.Elapsed, strings.Join(r.outputs[k], ""))
	r.forget(k)
}

func (r *report) forget(k key) {
	delete(r.running, k)
	delete(r.outputs, k)
}

// finish prints the end of the report and says whether all is well.
func (r *report) finish() bool {
	for _, s := range r.skips {
		fmt.Fprintln(r.out, "SKIP ", s)
	}
	if r.strict && r.skipped > 0 {
		fmt.Fprintln(r.out, "nothing may be skipped here: install what is missing")
		r.failed += r.skipped
	}
	if r.passed+r.failed == 0 {
		fmt.Fprintln(r.out, "no test was run")
		r.failed++
	}
	if r.skipped > 0 && !r.strict {
		fmt.Fprintf(r.out, "%d skipped\n", r.skipped)
	}
	fmt.Fprintf(r.out, "%d passed, %d failed\n", r.passed, r.failed)
	return r.failed == 0
}

// reason is what a test said when it skipped.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "===") {
			return line
		}
	}
	return "no reason was given"
}
