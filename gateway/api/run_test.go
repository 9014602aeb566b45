package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
	"runnerd/internal/schema/schematest"
)

const identityNode = `{"id":"echo","typeId":"core.identity","name":"echo","position":{"x":0,"y":0},"config":{},"inputs":{"payload":{"type":"variable","variableName":"payload"}}}`

func delayed(ms int) string {
	return node("wait", "core.delay", fmt.Sprintf(`"delayMs":{"type":"static","value":%d}`, ms))
}

func TestRunIsCreatedReadAndListed(t *testing.T) {
	w := newWorld(t)
	w.define(alice.Tenant(), "same", identityNode)
	a := w.as(alice, "POST", "/v1/runs", `{"workflowId":"same","inputs":{"payload":{"n":1},"more":true},"tags":["x"],"metadata":{"ticket":"T-12"},"tenantId":"default","scopeId":"any"}`)
	var made createReply
	a.into(http.StatusCreated, &made)
	if made.EventsURL != "/v1/runs/"+made.RunID+"/events" || made.StatusURL != "/v1/runs/"+made.RunID || made.Status != "running" {
		t.Errorf("created %+v", made)
	}
	a = w.as(alice, "GET", made.StatusURL, "")
	var snapshot struct {
		RunID, Status string
		Variables     map[string]any
		Tags          []string
		Metadata      map[string]any
		Owner         map[string]string
	}
	a.into(http.StatusOK, &snapshot)
	schematest.Document(t, "run-snapshot", a.body)
	if d := cmp.Diff(map[string]any{"payload": map[string]any{"n": 1.0}, "more": true}, snapshot.Variables); d != "" {
		t.Error(d)
	}
	if snapshot.RunID != made.RunID || snapshot.Status != "completed" || snapshot.Metadata["ticket"] != "T-12" || snapshot.Owner["principal"] != "alice" {
		t.Errorf("snapshot %+v", snapshot)
	}
	log := w.events(alice, made.RunID)
	if !log.IsComplete || len(log.Events) < 4 {
		t.Errorf("log %s", log.Events)
	}
	var list runList
	w.as(alice, "GET", "/v1/runs", "").into(http.StatusOK, &list)
	if len(list.Runs) != 1 || list.Runs[0].RunID != made.RunID || list.Runs[0].Status != "completed" {
		t.Errorf("list %+v", list)
	}
}

func TestCreateRefusesWhatItCannotDo(t *testing.T) {
	w := newWorld(t)
	before := w.trace()
	for name, row := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"no workflow":        {`{}`, 400, "validation_error"},
		"unknown workflow":   {`{"workflowId":"nothing"}`, 400, "validation_error"},
		"missing input":      {`{"workflowId":"chat"}`, 400, "validation_error"},
		"inputs no object":   {`{"workflowId":"chat","inputs":[1]}`, 400, "validation_error"},
		"bad option":         {`{"workflowId":"chat","inputs":{"prompt":"x"},"configurable":{"recursionLimit":0}}`, 400, "validation_error"},
		"bad runner wait":    {`{"workflowId":"chat","inputs":{"prompt":"x"},"configurable":{"runner.waitMs":-1}}`, 400, "validation_error"},
		"another tenant":     {`{"workflowId":"chat","inputs":{"prompt":"x"},"tenantId":"rival"}`, 403, "forbidden"},
		"callback":           {`{"workflowId":"chat","inputs":{"prompt":"x"},"callbackUrl":"https://a.example/"}`, 400, "capability_required"},
		"mock provider":      {`{"workflowId":"chat","inputs":{"prompt":"x"},"configurable":{"mockProvider":{"id":"stream-text"}}}`, 403, "mock_provider_forbidden"},
		"101 tags":           {`{"workflowId":"chat","inputs":{"prompt":"x"},"tags":["a"` + strings.Repeat(`,"a"`, 100) + `]}`, 400, "validation_error"},
		"metadata no object": {`{"workflowId":"chat","inputs":{"prompt":"x"},"metadata":1}`, 400, "validation_error"},
		"forged subject":     {`{"workflowId":"chat","inputs":{"prompt":"x"},"metadata":{"runnerd.subject":"default/bob"}}`, 400, "validation_error"},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.as(alice, "POST", "/v1/runs", row.body)
			a.t = t
			a.refused(row.status, row.code)
		})
	}
	if after := w.trace(); after != before {
		t.Errorf("left behind: %s", after)
	}
}

func TestRunnerOptionsReachTheStep(t *testing.T) {
	w := newWorld(t)
	id := w.create(alice, `{"workflowId":"chat","inputs":{"prompt":"x"},"configurable":{"runner.id":"rnr_x","runner.waitMs":86400000,"runner.timeoutMs":1000}}`)
	err := w.store.View(t.Context(), func(r store.Reader) error {
		for step, err := range r.StepsOfRun(alice.Tenant(), store.RunID(id)) {
			if err != nil {
				return err
			}
			if step.Named != "rnr_x" || step.Wait.Hours() != 24 || step.Timeout.Seconds() != 1 || step.Subject != alice {
				t.Errorf("step %+v", step)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSameKeyMakesOneRun(t *testing.T) { // UD-26, wire section 9
	w := newWorld(t)
	w.define(alice.Tenant(), "same", identityNode)
	w.define(carol.Tenant(), "same", identityNode)
	const key, body = "Idempotency-Key", `{"workflowId":"same","inputs":{"payload":{"a":1,"b":12345678901234567890}}}`
	first := w.as(alice, "POST", "/v1/runs", body, key, "k1")
	if first.status != 201 || first.header.Get(headerReplay) != "" {
		t.Fatalf("first: %d %v", first.status, first.header)
	}
	again := w.as(alice, "POST", "/v1/runs", ` {"inputs": {"payload": {"b": 12345678901234567890, "a": 1}}, "workflowId": "same"}`, key, "k1")
	if again.status != 201 || again.body != first.body || again.header.Get(headerReplay) != "true" {
		t.Errorf("again: %d %s, replay %q; first %s", again.status, again.body, again.header.Get(headerReplay), first.body)
	}
	other := w.as(alice, "POST", "/v1/runs", strings.Replace(body, "67890", "67891", 1), key, "k1")
	other.refused(http.StatusConflict, "idempotency_key_mismatch")
	if strings.Contains(other.body, "runId") || strings.Contains(other.body, "run_") {
		t.Errorf("a mismatch tells of the run: %s", other.body)
	}
	for name, a := range map[string]answer{
		"another person":    w.as(bob, "POST", "/v1/runs", body, key, "k1"),
		"another tenant":    w.as(carol, "POST", "/v1/runs", body, key, "k1"),
		"another key":       w.as(alice, "POST", "/v1/runs", body, key, "k2"),
		"no key":            w.as(alice, "POST", "/v1/runs", body),
		"after a refusal":   w.as(alice, "POST", "/v1/runs", body, key, "k3", "X-Other", "1"),
		"key in upper case": w.as(alice, "POST", "/v1/runs", body, key, "K1"),
	} {
		if a.status != 201 || a.body == first.body || a.header.Get(headerReplay) == "true" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	w.as(alice, "POST", "/v1/runs", `{"workflowId":"nothing"}`, key, "k9").refused(400, "validation_error")
	if a := w.as(alice, "POST", "/v1/runs", body, key, "k9"); a.status != 201 {
		t.Errorf("a refusal was kept: %d %s", a.status, a.body)
	}
	for _, bad := range []string{"", "a b", "ä", strings.Repeat("x", 256)} {
		w.as(alice, "POST", "/v1/runs", body, key, bad).refused(400, "validation_error")
	}
	w.as(alice, "POST", "/v1/runs", body, key, "a", key, "b").refused(400, "validation_error")
	for _, key := range []string{"k1", "k9"} {
		if strings.Contains(w.log.String(), `"`+key+`"`) {
			t.Errorf("the key %s is in the log", key)
		}
	}
}

func TestSimultaneousRepeatsMakeOneRun(t *testing.T) {
	w := newWorld(t)
	w.define(alice.Tenant(), "same", identityNode)
	bodies := make([]string, 16)
	var wg sync.WaitGroup
	for i := range bodies {
		wg.Go(func() { bodies[i] = w.as(alice, "POST", "/v1/runs", `{"workflowId":"same"}`, headerKey, "k").body })
	}
	wg.Wait()
	for _, b := range bodies {
		if b != bodies[0] || !strings.Contains(b, "run_") {
			t.Errorf("%s and %s", b, bodies[0])
		}
	}
	var list runList
	w.as(alice, "GET", "/v1/runs", "").into(200, &list)
	if len(list.Runs) != 1 {
		t.Errorf("%d runs", len(list.Runs))
	}
}

func TestCancelEndsARunAtOnceAndIsRepeatable(t *testing.T) {
	w := newWorld(t)
	w.define(alice.Tenant(), "slow", delayed(60_000))
	id := w.create(alice, `{"workflowId":"slow"}`)
	path := "/v1/runs/" + id + "/cancel"
	for range 2 {
		var got cancelReply
		w.as(alice, "POST", path, `{"reason":"changed my mind"}`).into(200, &got)
		if got != (cancelReply{id, "cancelled"}) {
			t.Errorf("got %+v", got)
		}
	}
	log := w.events(alice, id)
	last := string(log.Events[len(log.Events)-1])
	if !log.IsComplete || !strings.Contains(last, "run.cancelled") || !strings.Contains(last, "changed my mind") || strings.Count(fmt.Sprintf("%s", log.Events), "run.cancelled") != 1 {
		t.Errorf("log %s", log.Events)
	}
	first := w.as(alice, "POST", path, "", headerKey, "c1")
	if again := w.as(alice, "POST", path, "", headerKey, "c1"); again.body != first.body || again.header.Get(headerReplay) != "true" {
		t.Errorf("again %s, first %s", again.body, first.body)
	}
}

func TestListPinsWhatRunsAndPages(t *testing.T) { // UD-87
	w := newWorld(t)
	w.define(alice.Tenant(), "slow", delayed(60_000))
	w.define(alice.Tenant(), "same", identityNode)
	slow := w.create(alice, `{"workflowId":"slow"}`)
	var want []string
	for range 5 {
		want = append([]string{w.create(alice, `{"workflowId":"same"}`)}, want...)
	}
	ids := func(path string) (got []string, next string) {
		var list runList
		w.as(alice, "GET", path, "").into(200, &list)
		for _, r := range list.Runs {
			got = append(got, r.RunID)
		}
		return got, list.Next
	}
	got, next := ids("/v1/runs")
	if d := cmp.Diff(append([]string{slow}, want...), got); d != "" || next != "" {
		t.Errorf("next %q %s", next, d)
	}
	got, next = ids("/v1/runs?limit=3")
	if d := cmp.Diff(want[:3], got); d != "" || next == "" {
		t.Errorf("first page: next %q %s", next, d)
	}
	got, next = ids("/v1/runs?limit=3&before=" + strings.ReplaceAll(next, "+", "%2B"))
	if d := cmp.Diff(append([]string{slow}, want[3:]...), got); d != "" || next != "" {
		t.Errorf("second page: next %q %s", next, d)
	}
	for _, bad := range []string{"?limit=0", "?limit=201", "?limit=x", "?before=yesterday", "?before=", "?limit=1&limit=2"} {
		w.as(alice, "GET", "/v1/runs"+bad, "").refused(400, "validation_error")
	}
	chat := w.create(alice, `{"workflowId":"chat","inputs":{"prompt":"  `+strings.Repeat("ä", 100)+`\nmore"}}`)
	var list runList
	w.as(alice, "GET", "/v1/runs?limit=1", "").into(200, &list)
	if list.Runs[0].RunID != chat || list.Runs[0].Title != strings.Repeat("ä", 79)+"…" {
		t.Errorf("line %+v", list.Runs[0])
	}
}

func TestWorkflowsAreReadAndListed(t *testing.T) {
	w := newWorld(t)
	w.define(alice.Tenant(), "same", identityNode)
	a := w.as(alice, "GET", "/v1/workflows/same", "")
	if a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	schematest.Document(t, "workflow-definition", a.body)
	schematest.Document(t, "workflow-definition", w.as(alice, "GET", "/v1/workflows/chat", "").body)
	w.as(carol, "GET", "/v1/workflows/same", "").refused(404, "not_found")
	var list workflowList
	w.as(alice, "GET", host+"/workflows", "").into(200, &list)
	if len(list.Workflows) != 2 || !list.Workflows[0].Builtin || list.Workflows[0].ID != "chat" || list.Workflows[1].ID != "same" {
		t.Errorf("list %+v", list)
	}
}

func FuzzCreateBody(f *testing.F) {
	f.Add(`{"workflowId":"chat","inputs":{"prompt":"x"},"configurable":{"runner.waitMs":1},"tags":["a"],"metadata":{}}`)
	f.Add(`{"workflowId":"chat","tenantId":"x","callbackUrl":"https://a"}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, body string) {
		var in createRequest
		if httpapi.Unmarshal([]byte(body), &in) != nil || in.Validate() != nil {
			return
		}
		one, err := digestOf(in)
		if err != nil {
			t.Fatalf("%s is taken and has no digest: %v", body, err)
		}
		again, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		var back createRequest
		if err := httpapi.Unmarshal(again, &back); err != nil {
			t.Fatalf("%s does not read back: %v", again, err)
		}
		if two, err := digestOf(back); err != nil || one != two {
			t.Errorf("%s has two digests, %v", body, err)
		}
	})
}
