package engine_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/engine"
)

// Each row is an edge's condition on a step's output, and whether the node behind it runs.
func TestConditionHolds(t *testing.T) {
	long := strings.Repeat("x", 70<<10)
	for name, c := range map[string]struct {
		output, condition string
		want              bool
	}{
		"equal text":                        {`{"a":"x"}`, `{"type":"equals","left":"a","right":"x"}`, true},
		"other text":                        {`{"a":"x"}`, `{"type":"equals","left":"a","right":"y"}`, false},
		"the same number written otherwise": {`{"a":1.0}`, `{"type":"equals","left":"a","right":1}`, true},
		"the same object in other order":    {`{"a":{"b":1,"c":2}}`, `{"type":"equals","left":"a","right":{"c":2,"b":1}}`, true},
		"text is no number":                 {`{"a":"1"}`, `{"type":"equals","left":"a","right":1}`, false},
		"a path":                            {`{"a":{"b":{"c":true}}}`, `{"type":"equals","left":"a.b.c","right":true}`, true},
		"a path from all outputs":           {`{"a":{"b":1}}`, `{"type":"equals","left":"output.a.b","right":1}`, true},
		"an output whose name has a dot":    {`{"a.b":1}`, `{"type":"equals","left":"a.b","right":1}`, true},
		"an output named status":            {`{"status":200}`, `{"type":"equals","left":"status","right":200}`, true},
		"the node's status":                 {`{}`, `{"type":"equals","left":"status","right":"completed"}`, true},
		"nothing is equal to nothing":       {`{}`, `{"type":"equals","left":"a","right":null}`, false},
		"null is null":                      {`{"a":null}`, `{"type":"equals","left":"a","right":null}`, true},
		"a path through text":               {`{"a":"b"}`, `{"type":"equals","left":"a.b","right":"b"}`, false},
		"what is not there differs":         {`{}`, `{"type":"notEquals","left":"a","right":1}`, true},
		"what is the same does not differ":  {`{"a":1}`, `{"type":"notEquals","left":"a","right":1}`, false},
		"a part of a text":                  {`{"a":"all is well"}`, `{"type":"contains","left":"a","right":"is"}`, true},
		"no part of a text":                 {`{"a":"all is well"}`, `{"type":"contains","left":"a","right":"IS"}`, false},
		"a number in a text":                {`{"a":"1"}`, `{"type":"contains","left":"a","right":1}`, false},
		"an item of a list":                 {`{"a":[1,{"b":2}]}`, `{"type":"contains","left":"a","right":{"b":2}}`, true},
		"no item of a list":                 {`{"a":[1]}`, `{"type":"contains","left":"a","right":2}`, false},
		"an object contains nothing":        {`{"a":{"b":1}}`, `{"type":"contains","left":"a","right":"b"}`, false},
		"a pattern":                         {`{"a":"v1.2"}`, `{"type":"regex","left":"a","right":"^v[0-9]"}`, true},
		"a pattern that does not match":     {`{"a":"1.2"}`, `{"type":"regex","left":"a","right":"^v[0-9]"}`, false},
		"a pattern on a number":             {`{"a":1}`, `{"type":"regex","left":"a","right":"1"}`, false},
		"what is too long to look at":       {`{"a":"` + long + `"}`, `{"type":"contains","left":"a","right":"x"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, workflow(t, "", []string{`a runnerd.tool {"config":{"tool":"t"}}`, "b core.noop"}, []string{`a>b {"condition":` + c.condition + `}`}))
			w.create()
			w.result("a:1:1", c.output)
			got := engine.Snapshot(w.wf, w.s).NodeStates["b"].Status
			if want := map[bool]string{true: "completed", false: "skipped"}[c.want]; got != want {
				t.Errorf("node b is %s, want %s", got, want)
			}
		})
	}
}

func TestEventIsWrittenAndReadTheSameByEitherPackage(t *testing.T) {
	w := newWorld(t, engine.Builtin())
	w.created.Inputs = json.RawMessage(`{"prompt":"a <b> & \u2028 \ud83d\ude00", "n": [1.50, 10000000000000000000001]}`)
	w.create()
	w.accept("chat:1:1")
	for _, e := range w.log {
		ours, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		std, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var read engine.Event
		if err := json.Unmarshal(ours, &read); err != nil {
			t.Fatal(err)
		}
		again, err := engine.DecodeEvent(ours)
		if err != nil {
			t.Fatal(err)
		}
		other, err := engine.DecodeEvent(std)
		if err != nil {
			t.Fatal(err)
		}
		for name, got := range map[string]engine.Event{"encoding/json": read, "DecodeEvent": again} {
			if diff := cmp.Diff(e, got); diff != "" {
				t.Errorf("%s reads our document otherwise (-want +got):\n%s", name, diff)
			}
		}
		if other.Payload = e.Payload; cmp.Diff(e, other) != "" {
			t.Errorf("DecodeEvent reads a document of encoding/json as %+v", other)
		}
	}
}
