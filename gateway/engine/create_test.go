package engine_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/engine"
)

func TestCheckCreateNamesWhatIsWrong(t *testing.T) {
	wf := workflow(t, `{"variables":[{"name":"must","type":"string","required":true},{"name":"may","type":"string","required":true,"defaultValue":"x"},{"name":"can","type":"number"}]}`,
		[]string{"a core.noop"}, nil)
	for name, c := range map[string]struct {
		inputs, configurable string
		want                 []string
	}{
		"all that is needed":        {inputs: `{"must":"a"}`},
		"null is a value":           {inputs: `{"must":null}`},
		"names that nobody knows":   {inputs: `{"must":1,"other":{"a":[]}}`, configurable: `{"other":true,"promptOverrides":{}}`},
		"every option":              {inputs: `{"must":1}`, configurable: `{"recursionLimit":1e2,"runTimeoutMs":1.0,"model":"m","temperature":2,"maxTokens":1,"promptOverrides":{"a":"b"},"ai.provider":"p","ai.credentialRef":"r","mockProvider":{"id":"stream-text","config":{}},"runner.id":"r","runner.waitMs":0,"runner.timeoutMs":86400000}`},
		"nothing":                   {want: []string{"inputs.must is required"}},
		"an empty object":           {inputs: `{}`, want: []string{"inputs.must is required"}},
		"inputs that are no object": {inputs: `[]`, want: []string{"inputs must be an object"}},
		"null for inputs":           {inputs: `null`, want: []string{"inputs must be an object"}},
		"members given twice":       {inputs: `{"must":1,"must":2}`, configurable: `{"a":1,"a":1}`, want: []string{"inputs must be valid JSON in UTF-8 without repeated members", "configurable must be valid JSON in UTF-8 without repeated members"}},
		"text that is not UTF-8":    {inputs: "{\"must\":\"\xff\"}", want: []string{"inputs must be valid JSON in UTF-8 without repeated members"}},
		"deep inputs":               {inputs: `{"must":` + strings.Repeat("[", 52) + strings.Repeat("]", 52) + `}`, want: []string{"inputs must not be nested deeper than 52 levels"}},
		"options of wrong types": {inputs: `{"must":1}`, configurable: `{"recursionLimit":"5","runTimeoutMs":null,"model":7,"temperature":"hot","maxTokens":1.5,"promptOverrides":{"a":1},"ai.provider":[],"ai.credentialRef":{},"mockProvider":"x","runner.id":1,"runner.waitMs":true,"runner.timeoutMs":"1"}`,
			want: []string{
				"configurable.recursionLimit must be an integer of 1 or more", "configurable.runTimeoutMs must be an integer of 1 or more",
				`configurable["ai.provider"] must be a string`, "configurable.model must be a string", "configurable.maxTokens must be an integer from 1 to 2147483647",
				`configurable["runner.id"] must be a string`, `configurable["runner.waitMs"] must be an integer from 0 to 86400000`,
				`configurable["runner.timeoutMs"] must be an integer from 1 to 86400000`, `configurable["ai.credentialRef"] must be a string`,
				"configurable.temperature must be a number from 0 to 2", "configurable.promptOverrides.a must be a string", "configurable.mockProvider must be an object",
			}},
		"options out of range": {inputs: `{"must":1}`, configurable: `{"recursionLimit":0,"runTimeoutMs":-1,"model":"","temperature":2.1,"maxTokens":0,"mockProvider":{"config":[],"x":1},"runner.id":"","runner.waitMs":86400001,"runner.timeoutMs":0}`,
			want: []string{
				"configurable.recursionLimit must be an integer of 1 or more", "configurable.runTimeoutMs must be an integer of 1 or more",
				"configurable.model must not be empty", "configurable.maxTokens must be an integer from 1 to 2147483647", `configurable["runner.id"] must not be empty`,
				`configurable["runner.waitMs"] must be an integer from 0 to 86400000`, `configurable["runner.timeoutMs"] must be an integer from 1 to 86400000`,
				"configurable.temperature must be a number from 0 to 2", "configurable.mockProvider.id is required",
				"configurable.mockProvider.x is not a member of this object", "configurable.mockProvider.config must be an object",
			}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range flat(engine.CheckCreate(wf, json.RawMessage(c.inputs), json.RawMessage(c.configurable))) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("mistakes (-want +got):\n%s", diff)
			}
			if w := (engine.Created{RunID: "r", Inputs: json.RawMessage(c.inputs), Configurable: json.RawMessage(c.configurable)}); c.want != nil {
				if _, err := engine.Decide(wf, nil, w, engine.Env{}); err == nil || errors.Is(err, engine.ErrStale) {
					t.Errorf("the run was created all the same (%v)", err)
				}
			}
		})
	}
}

func TestCheckCreateHoldsConfigurableAgainstTheWorkflowsSchema(t *testing.T) {
	wf, err := engine.Parse(fixtures(t)["conformance-configurable-schema"])
	if err != nil {
		t.Fatal(err)
	}
	for doc, want := range map[string]string{
		``: "", `{}`: "", `{"recursionLimit":3,"tags":["a"]}`: "",
		`{"other":1}`:   "configurable additional properties 'other' not allowed, by the workflow's configurableSchema",
		`{"tags":[1]}`:  "configurable.tags[0] got number, want string, by the workflow's configurableSchema",
		`{"tags":"no"}`: "configurable.tags got string, want array, by the workflow's configurableSchema",
	} {
		got := ""
		if err := engine.CheckCreate(wf, nil, json.RawMessage(doc)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("configurable %s: %q, want %q", doc, got, want)
		}
	}
}

// flat gives the single errors of joined ones.
func flat(err error) (all []error) {
	for _, err := range joined(err) {
		if deeper := joined(err); len(deeper) == 1 && deeper[0] == err {
			all = append(all, err)
		} else {
			all = append(all, flat(err)...)
		}
	}
	return all
}
