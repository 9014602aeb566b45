package failure_test

import (
	"encoding/json"
	"os"
	"testing"

	"runnerd/internal/wire"
	"runnerd/runner/provider/failure"
)

// The corpus holds what programs and APIs really print, each with the code it must have (UD-49, UD-50, UD-51).
func TestEveryTextOfTheCorpusHasItsCode(t *testing.T) {
	table, err := failure.Load()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("testdata/corpus.json")
	if err != nil {
		t.Fatal(err)
	}
	var corpus []struct {
		Backend, Text string
		Code          wire.Code
		Retriable     bool
	}
	if err := json.Unmarshal(b, &corpus); err != nil {
		t.Fatal(err)
	}
	used := map[wire.Code]bool{}
	for _, c := range corpus {
		got := table.Classify(c.Backend, c.Text)
		used[got.Code] = true
		if got.Code != c.Code || got.Retriable != c.Retriable {
			t.Errorf("%s: %q is %s (retriable %v), want %s (%v)", c.Backend, c.Text, got.Code, got.Retriable, c.Code, c.Retriable)
		}
	}
	for i, r := range table.Rules {
		if !used[r.Code] {
			t.Errorf("no text of the corpus has the code of rule %d, %s", i, r.Code)
		}
	}
}

func TestAnUnknownTextIsAFailureThatKeepsTheText(t *testing.T) {
	table, err := failure.Load()
	if err != nil {
		t.Fatal(err)
	}
	for text, message := range map[string]string{
		"":                       "the provider failed without saying why",
		"a brand new way to say": "a brand new way to say",
	} {
		if got := table.Classify("claude-cli", "", text); got.Code != wire.CodeProviderError || got.Message != message {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func FuzzClassify(f *testing.F) {
	table, err := failure.Load()
	if err != nil {
		f.Fatal(err)
	}
	f.Add("codex-cli", "exceeded retry limit, last status: 429 Too Many Requests")
	f.Fuzz(func(t *testing.T, backend, text string) {
		e := table.Classify(backend, text)
		if !e.Code.Known() || e.Message == "" {
			t.Errorf("%+v", e)
		}
	})
}
