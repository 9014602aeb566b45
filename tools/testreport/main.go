// Command testreport reads what `go test -json` writes and prints what a person wants to see of it: a line for each package,
// the output of what failed, what was skipped and why, and last one line with the counts.
//
// It ends with code 1 when something failed. With -strict, which CI uses, a skipped test is a failure too, so that no part
// goes untested because a browser or a keychain is missing.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	strict := flag.Bool("strict", false, "count a skipped test as a failure")
	flag.Parse()
	r := newReport(os.Stdout, *strict)
	if err := r.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(2)
	}
	if !r.finish() {
		os.Exit(1)
	}
}
