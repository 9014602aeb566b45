package clitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

func jsonLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: jsonlines FILE...")
	}
	for _, file := range args {
		if err := objects(ts.ReadFile(file)); err != nil {
			ts.Fatalf("%s: %v", file, err)
		}
	}
}

// objects says why a text is not one JSON object a line.
func objects(text string) error {
	if !strings.HasSuffix(text, "\n") {
		return fmt.Errorf("does not end with a line: %q", text)
	}
	for line := range strings.Lines(text) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil || v == nil {
			return fmt.Errorf("not a JSON object: %q", line)
		}
	}
	return nil
}

func members(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: json FILE MEMBER=ENV...")
	}
	lines := strings.Split(strings.TrimRight(ts.ReadFile(args[0]), "\n"), "\n")
	last := lines[len(lines)-1]
	dec := json.NewDecoder(bytes.NewReader([]byte(last)))
	dec.UseNumber()
	var doc any
	if err := dec.Decode(&doc); err != nil {
		ts.Fatalf("%s: %v: %q", args[0], err, last)
	}
	for _, arg := range args[1:] {
		path, env, ok := strings.Cut(arg, "=")
		if !ok {
			ts.Fatalf("%s is not MEMBER=ENV", arg)
		}
		v, err := member(doc, path)
		if err != nil {
			ts.Fatalf("%s: %v in %s", args[0], err, last)
		}
		ts.Setenv(env, v)
	}
}

// member goes into a document along a path like runners.0.id.
func member(doc any, path string) (string, error) {
	for name := range strings.SplitSeq(path, ".") {
		switch d := doc.(type) {
		case map[string]any:
			v, ok := d[name]
			if !ok {
				return "", fmt.Errorf("there is no %s", path)
			}
			doc = v
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(d) {
				return "", fmt.Errorf("there is no %s", path)
			}
			doc = d[i]
		default:
			return "", fmt.Errorf("there is no %s", path)
		}
	}
	return fmt.Sprint(doc), nil
}
