package dispatch

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

func noSecret([]byte) bool { return false }

func TestAFrameIsTheSameBytesEachTime(t *testing.T) {
	s := store.Step{Run: "run_1", ID: "ask:1:1", Seq: 17, Kind: wire.KindModel, Provider: "p", UseProv: "p", UseModel: "m \"1\" <é>",
		Inputs: []byte(`{"messages":[{"role":"user","content":"<UNTRUSTED x=\"1\">"}], "n":1e3}`)}
	f := frameOf(s)
	if !bytes.Equal(f.Data, frameOf(s).Data) || f.Seq != 17 {
		t.Error("two frames of one offer differ")
	}
	got, err := wire.Decode[wire.Dispatch](f.Data)
	if err != nil {
		t.Fatal(err)
	}
	want := wire.Dispatch{RunID: "run_1", StepID: "ask:1:1", Seq: 17, Kind: "model", Provider: "p", Model: "m \"1\" <é>", Inputs: []byte(s.Inputs)}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestPrepareRefusesWhatNoFrameMayCarry(t *testing.T) {
	model := func(inputs string) store.Step {
		return store.Step{Run: "r", ID: "n:1:1", Kind: wire.KindModel, Inputs: []byte(inputs)}
	}
	long := `{"x":"` + strings.Repeat("y", wire.MaxFrame) + `"}`
	nearly := `{"x":"` + strings.Repeat("y", wire.MaxFrame-1600) + `"}`
	deep := `{"x":` + strings.Repeat("[", wire.MaxDepth) + strings.Repeat("]", wire.MaxDepth) + `}`
	for name, tt := range map[string]struct {
		step store.Step
		want wire.Code
	}{
		"good":                              {model(`{"messages":[]}`), ""},
		"on several lines":                  {model("{\"messages\":\r\n []}"), ""},
		"too large":                         {model(long), wire.CodeFrameTooLarge},
		"too large with the longest names":  {model(nearly), wire.CodeFrameTooLarge},
		"not an object":                     {model(`[]`), wire.CodeInvalidInput},
		"not JSON":                          {model("{\n"), wire.CodeInvalidInput},
		"nested deeper than a runner reads": {model(deep), wire.CodeInvalidInput},
		"a tool without a name":             {store.Step{Run: "r", ID: "n:1:1", Kind: wire.KindTool, Inputs: []byte(`{}`)}, wire.CodeInvalidInput},
		"what looks like a credential":      {model(`{"messages":"sk-canary"}`), wire.CodePolicyDenied},
	} {
		s, refused := prepare(tt.step, func(b []byte) bool { return bytes.Contains(b, []byte("sk-canary")) })
		var got wire.Code
		if refused != nil {
			got = refused.Code
			if strings.Contains(refused.Message, "canary") {
				t.Errorf("%s: the message repeats it: %s", name, refused.Message)
			}
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
		if refused == nil && bytes.ContainsAny(s.Inputs, "\r\n") {
			t.Errorf("%s: inputs are on several lines", name)
		}
	}
}

func FuzzPrepareMakesFramesThatRunnersRead(f *testing.F) {
	f.Add("n:1:1", wire.KindModel, "p", "m", "", []byte(`{"messages":[]}`))
	f.Add("n:1:1", wire.KindTool, "", "", "fs.read", []byte("{\"a\":\r1}"))
	f.Fuzz(func(t *testing.T, id, kind, provider, model, tool string, inputs []byte) {
		s := store.Step{Run: "r", ID: store.StepID(id), Kind: kind, Provider: provider, Model: model, Tool: tool, Inputs: inputs}
		s, refused := prepare(s, noSecret)
		if refused != nil {
			return
		}
		s.Seq, s.UseProv, s.UseModel = 1, s.Provider, s.Model
		if kind == wire.KindModel {
			fit, ok := Match(Want{Kind: kind, Provider: provider, Model: model}, []Candidate{{Runner: "k", Max: 1, Abilities: record(names("p", provider), nil, nil)}})
			if !ok {
				return
			}
			s.UseProv, s.UseModel = fit.Provider, fit.Model
		}
		data := frameOf(s).Data
		got, err := wire.Decode[wire.Dispatch](data)
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if got.RunID != "r" || got.StepID != id || got.Tool != tool || len(data) > wire.MaxFrame || bytes.ContainsAny(data, "\r\n") {
			t.Errorf("frame %q", data)
		}
	})
}
