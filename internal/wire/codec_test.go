package wire_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"runnerd/internal/wire"
)

// decoders is every message that a peer may send us, by the folder of its golden files.
var decoders = map[string]func([]byte) (any, error){
	"registration": closed[wire.Registration],
	"dispatch":     closed[wire.Dispatch],
	"result":       closed[wire.Result],
	"report":       closed[wire.Report],
	"pairing":      closed[wire.PairingRequest],
	"token":        closed[wire.TokenRequest],
	"model":        closed[wire.ModelInputs],
	"reply":        open[wire.ReportReply],
	"verdicts":     open[wire.Verdicts],
}

func closed[T wire.Validator](b []byte) (any, error) { return wire.Decode[T](b) }
func open[T wire.Validator](b []byte) (any, error)   { return wire.DecodeReply[T](b) }

func TestGoldenMessagesAreReadAndWrittenBackTheSame(t *testing.T) {
	for kind, decode := range decoders {
		for _, file := range files(t, "testdata/"+kind+"/ok*.json") {
			t.Run(file, func(t *testing.T) {
				in := read(t, file)
				v, err := decode(in)
				if err != nil {
					t.Fatalf("decode: %v", err)
				}
				out, err := wire.Encode(v)
				if err != nil {
					t.Fatalf("encode: %v", err)
				}
				if diff := cmp.Diff(compact(t, in), string(out)); diff != "" {
					t.Errorf("written back differently (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// Each bad-*.json holds {"document": ..., "names": "..."}: the error must name what is wrong.
func TestBadMessagesAreRefusedNamingTheField(t *testing.T) {
	for kind, decode := range decoders {
		for _, file := range files(t, "testdata/"+kind+"/bad-*.json") {
			t.Run(file, func(t *testing.T) {
				var c struct {
					Document json.RawMessage
					Names    string
				}
				if err := json.Unmarshal(read(t, file), &c); err != nil {
					t.Fatal(err)
				}
				if _, err := decode(c.Document); err == nil || !strings.Contains(err.Error(), c.Names) {
					t.Errorf("error = %v, want one that names %q", err, c.Names)
				}
			})
		}
	}
}

func TestDocumentsThatAreNotOneCleanObjectAreRefused(t *testing.T) {
	ok := string(read(t, "testdata/result/ok-text.json"))
	for name, doc := range map[string]string{
		"empty":             "",
		"null":              "null",
		"array":             "[]",
		"string":            `"x"`,
		"cut":               ok[:len(ok)/2],
		"followed by more":  ok + "{}",
		"invalid UTF-8":     strings.Replace(ok, "hello", "he\xffllo", 1),
		"lone surrogate":    strings.Replace(ok, "hello", `he\ud800llo`, 1),
		"member twice":      strings.Replace(ok, `"seq"`, `"seq":1,"seq"`, 1),
		"other case":        strings.Replace(ok, `"runId"`, `"RunId"`, 1),
		"a number too big":  strings.Replace(ok, `"seq":17`, `"seq":1e999999`, 1),
		"a number past int": strings.Replace(ok, `"seq":17`, `"seq":9223372036854775808`, 1),
		"a fraction":        strings.Replace(ok, `"seq":17`, `"seq":1.5`, 1),
		"100,000 levels":    `{"runId":"r","stepId":"s","seq":1,"output":{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if v, err := wire.Decode[wire.Result]([]byte(doc)); err == nil {
				t.Errorf("accepted as %+v", v)
			}
		})
	}
}

func TestFailureReadsAnyShapeOfError(t *testing.T) {
	for output, want := range map[string]*wire.StepError{
		`{"text":"hi"}`:  nil,
		`{"error":null}`: nil,
		`{"error":{"code":"busy","message":"no"}}`: {Code: wire.CodeBusy, Message: "no"},
		`{"error":{"code":"busy"}}`:                {Code: wire.CodeBusy, Message: "busy"},
		`{"error":"it broke"}`:                     {Code: wire.CodeProviderError, Message: "the runner reported an error of unknown shape"},
		`{"error":{"code":7}}`:                     {Code: wire.CodeProviderError, Message: "the runner reported an error of unknown shape"},
	} {
		if diff := cmp.Diff(want, wire.Failure(json.RawMessage(output))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", output, diff)
		}
	}
}

// What we accept we can write, and what we write reads back the same.
func FuzzDecode(f *testing.F) {
	for kind := range decoders {
		matches, _ := filepath.Glob("testdata/" + kind + "/ok*.json")
		for _, file := range matches {
			b, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		for kind, decode := range decoders {
			v, err := decode(doc)
			if err != nil {
				continue
			}
			out, err := wire.Encode(v)
			if err != nil {
				t.Fatalf("%s: accepted but not writable: %v", kind, err)
			}
			again, err := decode(out)
			if err != nil {
				t.Fatalf("%s: own writing %s refused: %v", kind, out, err)
			}
			twice, err := wire.Encode(again)
			if err != nil || !bytes.Equal(out, twice) {
				t.Fatalf("%s: %s read back as %s (%v)", kind, out, twice, err)
			}
		}
	})
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	matches, err := filepath.Glob(pattern)
	if err != nil || len(matches) == 0 {
		t.Fatalf("no files match %s (%v)", pattern, err)
	}
	return matches
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func compact(t *testing.T, b []byte) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
