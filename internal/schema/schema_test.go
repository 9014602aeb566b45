package schema

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"runnerd/internal/wire"
)

var load = sync.OnceValues(Load)

func set(t testing.TB) *Set {
	s, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEveryEventTypeOfTheCatalogueHasAPayload(t *testing.T) {
	raw, err := Raw(event)
	if err != nil {
		t.Fatal(err)
	}
	var catalogue struct {
		Defs struct{ RunEventType struct{ Enum []string } } `json:"$defs"`
	}
	if err := json.Unmarshal(raw, &catalogue); err != nil {
		t.Fatal(err)
	}
	if len(catalogue.Defs.RunEventType.Enum) < 100 {
		t.Errorf("the catalogue has %d types", len(catalogue.Defs.RunEventType.Enum))
	}
	for _, typ := range catalogue.Defs.RunEventType.Enum {
		if set(t).payloads[typ] == nil {
			t.Errorf("%s has no payload schema", typ)
		}
	}
}

func TestEvent(t *testing.T) {
	doc := func(typ, payload string) string {
		return `{"eventId":"e1","runId":"r1","type":"` + typ + `","sequence":0,"timestamp":"2026-01-02T03:04:05.678Z","payload":` + payload + `}`
	}
	for name, tt := range map[string]struct{ in, field string }{
		"good":                       {doc("node.started", `{"nodeId":"a","typeId":"core.noop","attempt":1}`), ""},
		"payload lacks a member":     {doc("node.started", `{"nodeId":"a"}`), "document"},
		"payload of a wrong kind":    {doc("node.started", `{"nodeId":1,"typeId":"core.noop"}`), "nodeId"},
		"closed payload with more":   {doc("provider.usage", `{"provider":"p","model":"m","inputTokens":1,"outputTokens":1,"key":"k"}`), "document"},
		"vendor type":                {doc("runnerd.step.offered", `{"any":1}`), ""},
		"reserved first segment":     {doc("core.step.offered", `{}`), "type"},
		"vendor type of one segment": {doc("offered", `{}`), "type"},
		"negative sequence":          {strings.Replace(doc("runnerd.x", `{}`), `"sequence":0`, `"sequence":-1`, 1), "sequence"},
		"timestamp that is none":     {strings.Replace(doc("runnerd.x", `{}`), "2026-01-02T", "yesterday ", 1), "timestamp"},
		"open to members of its own": {strings.Replace(doc("runnerd.x", `{}`), `{`, `{"contentTrust":"untrusted",`, 1), ""},
		"not JSON":                   {`{`, "document"},
	} {
		t.Run(name, func(t *testing.T) {
			err := set(t).Event([]byte(tt.in))
			bad, _ := errors.AsType[*wire.FieldError](err)
			if (err == nil) != (tt.field == "") || bad != nil && bad.Field != tt.field {
				t.Errorf("got %v, want an error at %q", err, tt.field)
			}
		})
	}
}

func TestDocument(t *testing.T) {
	for name, tt := range map[string]struct {
		name, in string
		ok       bool
	}{
		"envelope":             {"error-envelope", `{"error":"not_found","message":"no such run"}`, true},
		"envelope with more":   {"error-envelope", `{"error":"not_found","message":"no such run","code":1}`, false},
		"frame":                {"self-hosted-runner-dispatch-frame", `{"runId":"r","stepId":"s","seq":1,"kind":"model","provider":"p","model":"m","inputs":{}}`, true},
		"frame with more":      {"self-hosted-runner-dispatch-frame", `{"runId":"r","stepId":"s","seq":1,"kind":"model","provider":"p","model":"m","inputs":{},"token":"t"}`, false},
		"model step, no model": {"self-hosted-runner-dispatch-frame", `{"runId":"r","stepId":"s","seq":1,"kind":"model","inputs":{}}`, false},
		"unknown name":         {"no-such", `{}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := set(t).Document(tt.name, []byte(tt.in)); (err == nil) != tt.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCompileFetchesNothing(t *testing.T) {
	for in, ok := range map[string]bool{
		`{"type":"object","required":["a"]}`:                                true,
		`{"$ref":"https://openwop.dev/spec/v1/error-envelope.schema.json"}`: true,
		`{"$ref":"https://127.0.0.1:1/x.json"}`:                             false,
		`{"$ref":"file:///etc/passwd"}`:                                     false,
		`{"$schema":"https://127.0.0.1:1/draft"}`:                           false,
		`{"pattern":"(?<=x)y"}`:                                             false,
		`{"type":"nothing"}`:                                                false,
		`{`:                                                                 false,
	} {
		if _, err := Compile([]byte(in)); (err == nil) != ok {
			t.Errorf("%s: %v", in, err)
		}
	}
	s, err := Compile([]byte(`{"properties":{"list":{"items":{"properties":{"n":{"type":"integer"}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Validate([]byte(`{"list":[{"n":1},{"n":"x"}]}`))
	if bad, _ := errors.AsType[*wire.FieldError](err); bad == nil || bad.Field != "list[1].n" {
		t.Errorf("got %v", err)
	}
}

func TestLookAhead(t *testing.T) {
	p, err := compileRegexp(`^(?!(?:core|[)]local)\.)[a-z]+(\.[a-z]+)+$`)
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]bool{"acme.x": true, "core.x": false, "corex.y": true, "acme.core.x": true, "x": false, "": false} {
		if got := p.MatchString(in); got != want {
			t.Errorf("%q: %v", in, got)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if _, err := Load(); err != nil {
			b.Fatal(err)
		}
	}
}
