package clitest

import "testing"

func TestOneObjectALine(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		ok   bool
	}{
		"one":              {`{"a":1}` + "\n", true},
		"two":              {`{"a":1}` + "\n{}\n", true},
		"none":             {"", false},
		"no end":           {`{"a":1}`, false},
		"words":            {"{}\nhello\n", false},
		"an array":         {"[]\n", false},
		"null":             {"null\n", false},
		"two in a line":    {"{} {}\n", false},
		"one on two lines": {"{\n}\n", false},
	} {
		if err := objects(c.text); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMembersAreFoundAlongAPath(t *testing.T) {
	doc := map[string]any{"runners": []any{map[string]any{"id": "r1", "online": true}}, "n": 12}
	for path, want := range map[string]string{
		"runners.0.id": "r1", "runners.0.online": "true", "n": "12", "runners.1.id": "", "nope": "", "n.more": "", "runners.x": "",
	} {
		got, err := member(doc, path)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", path, got, err, want)
		}
	}
}
