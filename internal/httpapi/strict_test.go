package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/internal/wire"
)

type inner struct {
	From  string  `json:"from"`
	Score float32 `json:"score,omitempty"`
}

type embedded struct {
	Shared string `json:"shared"`
}

type everything struct {
	embedded
	Name   string            `json:"name"`
	Count  int8              `json:"count"`
	Size   uint              `json:"size"`
	Ratio  float64           `json:"ratio"`
	On     bool              `json:"on"`
	Tags   []string          `json:"tags"`
	Labels map[string]string `json:"labels"`
	Edges  []inner           `json:"edges"`
	Maybe  *inner            `json:"maybe"`
	Raw    json.RawMessage   `json:"raw"`
	Any    any               `json:"any"`
	Bytes  []byte            `json:"bytes"`
	At     time.Time         `json:"at"`
	Quoted int64             `json:"quoted,string"`
	Plain  string
	Never  string `json:"-"`
	hidden string //lint:ignore U1000 it is there to be refused
}

func TestUnmarshalNamesWhatIsWrong(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, tt := range map[string]struct{ in, want string }{
		"null root":                       {`null`, "body must be an object"},
		"array root":                      {`[]`, "body must be an object"},
		"string root":                     {`"x"`, "body must be an object"},
		"number root":                     {`1`, "body must be an object"},
		"unknown member":                  {`{"nme":"x"}`, "nme is not a member of this object"},
		"unknown member inside":           {`{"edges":[{"from":"a"},{"form":"b"}]}`, "edges[1].form is not a member of this object"},
		"other case":                      {`{"Name":"x"}`, "Name is not a member of this object"},
		"Go name of a tagged field":       {`{"Size":1}`, "Size is not a member of this object"},
		"excluded field":                  {`{"Never":"x"}`, "Never is not a member of this object"},
		"unexported field":                {`{"hidden":"x"}`, "hidden is not a member of this object"},
		"name of the embedded type":       {`{"embedded":{}}`, "embedded is not a member of this object"},
		"member twice":                    {`{"name":"a","name":"b"}`, "name stands twice"},
		"member twice in disguise":        {`{"name":"a","n\u0061me":"b"}`, "name stands twice"},
		"member twice where all is open":  {`{"any":[{"x":{"y":1,"y":2}}]}`, "any[0].x.y stands twice"},
		"member twice in raw":             {`{"raw":{"y":1,"y":2}}`, "raw.y stands twice"},
		"label twice":                     {`{"labels":{"a":"1","a":"2"}}`, "labels.a stands twice"},
		"null for a string":               {`{"name":null}`, "name must be a string"},
		"null for an array":               {`{"tags":null}`, "tags must be an array"},
		"null for a map":                  {`{"labels":null}`, "labels must be an object"},
		"null inside an array":            {`{"tags":["a",null]}`, "tags[1] must be a string"},
		"number for a string":             {`{"name":1}`, "name must be a string"},
		"object for an array":             {`{"tags":{}}`, "tags must be an array"},
		"array for an object":             {`{"labels":[]}`, "labels must be an object"},
		"array for a pointer":             {`{"maybe":[]}`, "maybe must be an object"},
		"array for bytes":                 {`{"bytes":[1,2]}`, "bytes must be a string"},
		"string for a bool":               {`{"on":"true"}`, "on must be true or false"},
		"string for a number":             {`{"ratio":"1"}`, "ratio must be a number"},
		"fraction for an integer":         {`{"count":1.5}`, "count must be an integer"},
		"integer out of range":            {`{"count":128}`, "count is out of range"},
		"negative for unsigned":           {`{"size":-1}`, "size must be an integer"},
		"number beyond float64":           {`{"ratio":1e999999}`, "ratio is out of range"},
		"number beyond float32":           {`{"edges":[{"score":1e39}]}`, "edges[0].score is out of range"},
		"number beyond float64, open":     {`{"any":[1,-1e400]}`, "any[1] is out of range"},
		"number beyond float64, raw":      {`{"raw":{"a":1e999999}}`, "raw.a is out of range"},
		"lone high surrogate":             {`{"name":"\ud800"}`, "name holds half of a surrogate pair"},
		"lone low surrogate":              {`{"name":"\udc00"}`, "name holds half of a surrogate pair"},
		"two high surrogates":             {`{"name":"\ud800\ud800"}`, "name holds half of a surrogate pair"},
		"high surrogate, then a letter":   {`{"name":"\ud800x"}`, "name holds half of a surrogate pair"},
		"high surrogate, then a newline":  {`{"name":"\ud800\n"}`, "name holds half of a surrogate pair"},
		"lone surrogate in a key":         {`{"any":{"\udfff":1}}`, "any holds half of a surrogate pair"},
		"surrogate as UTF-8":              {"{\"name\":\"\xed\xa0\x80\"}", "body is not valid UTF-8"},
		"latin-1":                         {"{\"name\":\"\xe9\"}", "body is not valid UTF-8"},
		"two documents":                   {`{}{}`, "body is not valid JSON at byte 3: invalid character '{' after top-level value"},
		"cut":                             {`{"name":"x"`, "body is not valid JSON at byte 11: unexpected end of JSON input"},
		"comment":                         {`{} // x`, "body is not valid JSON at byte 4: invalid character '/' after top-level value"},
		"not a number":                    {`{"ratio":NaN}`, "body is not valid JSON at byte 10: invalid character 'N' looking for beginning of value"},
		"too deep":                        {`{"any":` + deep(wire.MaxDepth) + `}`, "is nested deeper"},
		"far too deep":                    {`{"any":` + deep(100_000) + `}`, "body is not valid JSON"},
		"what a type's own reader says":   {`{"at":"yesterday"}`, "yesterday"},
		"bad number in quotes":            {`{"quoted":"x"}`, "string"},
		"name that would break a message": {`{"a\nb.c":1}`, `"a\nb.c" is not a member of this object`},
	} {
		t.Run(name, func(t *testing.T) {
			var v everything
			err := Unmarshal([]byte(tt.in), &v)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if err != nil && len(err.Error()) > 300 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestUnmarshalAcceptsWhatTheTypeDescribes(t *testing.T) {
	in := ` { "shared" : "s", "name":"\ud83d\ude00 \u2028 \"", "count":-128, "size":7, "ratio":-1.5e3, "on" : false,
		"tags":[ ], "labels":{ }, "edges":[ {"from":"a"} , {} ], "maybe":null, "raw":{"x":[null,true]}, "any":null,
		"bytes":"YQ==", "at":"2026-01-02T03:04:05Z", "quoted":"9007199254740993", "Plain":"p" } `
	var got everything
	if err := Unmarshal([]byte(in), &got); err != nil {
		t.Fatal(err)
	}
	deepest := strings.Repeat("[", wire.MaxDepth) + strings.Repeat("]", wire.MaxDepth)
	if err := Unmarshal([]byte(deepest), new(any)); err != nil {
		t.Error(err)
	}
	want := everything{
		embedded: embedded{"s"},
		Name:     "😀 \u2028 \"", Count: -128, Size: 7, Ratio: -1500, Tags: []string{}, Labels: map[string]string{},
		Edges: []inner{{From: "a"}, {}}, Raw: json.RawMessage(`{"x":[null,true]}`), Bytes: []byte("a"),
		At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Quoted: 1<<53 + 1, Plain: "p",
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(everything{})); d != "" {
		t.Error(d)
	}
}

func TestManyMembersAreComparedInGoodTime(t *testing.T) {
	var b strings.Builder
	for i := range 50_000 {
		b.WriteString(`,"k` + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + time.Duration(i).String() + `":1`)
	}
	doc := "{" + b.String()[1:]
	start := time.Now()
	var v any
	if err := Unmarshal([]byte(doc+"}"), &v); err != nil {
		t.Error(err)
	}
	if err := Unmarshal([]byte(doc+`,"k`+"a0s"+`":1}`), &v); err == nil {
		t.Error("the repeated member was not found")
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

// repeats tells by encoding/json's tokens alone whether an object has a member twice.
func repeats(t *testing.T, dec *json.Decoder) bool {
	tok, err := dec.Token()
	if err != nil {
		t.Fatal(err)
	}
	delim, _ := tok.(json.Delim)
	found, seen := false, map[any]bool{}
	for delim != 0 && dec.More() {
		if delim == '{' {
			key, _ := dec.Token()
			found = found || seen[key]
			seen[key] = true
		}
		found = repeats(t, dec) || found
	}
	if delim != 0 {
		_, _ = dec.Token()
	}
	return found
}

// FuzzUnmarshal: what is accepted holds no member twice, can be written, and reads back the same; nothing panics.
func FuzzUnmarshal(f *testing.F) {
	for _, s := range []string{
		`null`, `{}`, `{"name":"x","tags":["a"],"edges":[{"from":"a"}],"labels":{"a":"b"},"any":{"a":[1,2,{"b":null}]}}`,
		`{"any":{"a":1,"a":2}}`, `{"name":"\ud83d\ude00"}`, `{"name":"\ud83d"}`, `{"ratio":1e999999}`, `{"quoted":"12"}`,
		`{"bytes":"YQ==","at":"2026-01-02T03:04:05Z","count":-1,"size":1,"on":true,"maybe":{"from":""},"raw":[{}]}`, `"\u`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var open any
		if err := Unmarshal(in, &open); err == nil {
			dec := json.NewDecoder(bytes.NewReader(in))
			dec.UseNumber()
			if repeats(t, dec) {
				t.Errorf("accepted a member twice: %s", in)
			}
			if _, err := dec.Token(); err != io.EOF {
				t.Errorf("accepted more than a document: %s", in)
			}
		}
		var v, again everything
		err := Unmarshal(in, &v)
		if bad, ok := errors.AsType[*wire.FieldError](err); ok && (bad.Field == "" || bad.Reason == "") {
			t.Errorf("%s: the error names nothing: %+v", in, bad)
		}
		if err != nil || math.IsNaN(v.Ratio) || v.At.Year() > 9999 || v.Tags == nil || v.Labels == nil || v.Edges == nil || v.Bytes == nil {
			return // nil is written as null, which we do not take
		}
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("accepted %s but cannot write it: %v", in, err)
		}
		if err := Unmarshal(out, &again); err != nil {
			t.Fatalf("accepted %s but not %s: %v", in, out, err)
		}
		second, err := json.Marshal(again)
		if err != nil || !bytes.Equal(out, second) {
			t.Errorf("%s became %s", out, second)
		}
	})
}
