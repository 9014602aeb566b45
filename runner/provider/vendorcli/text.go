package vendorcli

import "strings"

// lastLine is the last line that says something.
func lastLine(s string) string {
	last := ""
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			last = line
		}
	}
	return last
}
