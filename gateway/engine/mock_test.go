package engine_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/engine"
	"runnerd/internal/wire"
)

const mockedNode = `a core.ai.callPrompt {"config":{"promptId":"x"}}`

func mocked(t *testing.T, config string) *world {
	t.Helper()
	w := newWorld(t, workflow(t, "", []string{mockedNode}, nil))
	w.created.Configurable = json.RawMessage(`{"mockProvider":{"id":"stream-text"` + config + `}}`)
	w.create()
	return w
}

// One chunk a token, each after its delay; the last says that it is, how it ended and what it took (wire 5.5).
func TestMockProviderSaysItsTokens(t *testing.T) {
	w := mocked(t, `,"config":{"tokens":["Hel","lo"],"delayMsPerToken":100,"finishReason":"length","model":"mm","usage":{"totalTokens":9,"own":1}}`)
	for _, want := range []int{0, 1, 2} {
		if got := len(slices.DeleteFunc(w.story(), func(l string) bool { return !strings.HasPrefix(l, "output.chunk") })); got != want {
			t.Errorf("%d chunks after %s, want %d", got, w.passed, want)
		}
		w.pass(100 * time.Millisecond)
	}
	want := []string{"run.started", "node.started a", `output.chunk a "Hel"`, `output.chunk a "lo" last`, "node.completed a",
		`run.completed {"text":"Hello","finishReason":"length","model":"mm","usage":{"totalTokens":9,"own":1},"backend":"mock"}`}
	if diff := cmp.Diff(want, w.story()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if got := string(w.log[3].Payload); !strings.Contains(got, `"meta":{"finishReason":"length","model":"mm","usage":{"totalTokens":9,"own":1}}`) {
		t.Errorf("last chunk = %s", got)
	}
	if len(w.given) > 0 {
		t.Errorf("a mock dispatches %v", w.given)
	}
	again := w.fork(engine.Fork{Mode: engine.ModeReplay})
	if diff := cmp.Diff(w.list(), again.list()); diff != "" {
		t.Errorf("replay (-source +replay):\n%s", diff)
	}
}

func TestMockProviderWithoutDelayOrTokens(t *testing.T) {
	for config, want := range map[string]string{
		``:                                  `output.chunk a "ok" last`,
		`,"config":{"tokens":["x","","z"]}`: `output.chunk a "x"|output.chunk a ""|output.chunk a "z" last`,
		`,"config":{"tokens":[]}`:           `output.chunk a "" last`,
	} {
		w := mocked(t, config)
		w.is("completed")
		if got := strings.Join(w.story()[2:len(w.log)-2], "|"); got != want {
			t.Errorf("%s: %s, want %s", config, got, want)
		}
	}
}

func TestMockedRunStopsLikeAnyOther(t *testing.T) {
	slow := `,"config":{"tokens":["a","b","c"],"delayMsPerToken":5000}`
	w := mocked(t, slow)
	w.pass(6 * time.Second)
	w.mustDo(engine.Cancel{})
	w.is("cancelled")

	w = mocked(t, slow)
	w.pass(6 * time.Second)
	w.mustDo(atOne)
	w.mustDo(engine.Resume{})
	w.pass(time.Minute)
	if got, want := strings.Join(w.story(), "|"), `run.started|node.started a|output.chunk a "a"|run.paused|run.resumed|node.started a attempt 2|`+
		`output.chunk a "a"|output.chunk a "b"|output.chunk a "c" last|node.completed a`; !strings.HasPrefix(got, want) {
		t.Errorf("log\n got %s\nwant %s", got, want)
	}

	w = newWorld(t, workflow(t, "", []string{mockedNode}, nil))
	tokens, _ := json.Marshal(slices.Repeat([]string{"x"}, 1000))
	w.created.Configurable = json.RawMessage(`{"runTimeoutMs":600000,"mockProvider":{"id":"stream-text","config":{"tokens":` + string(tokens) + `,"delayMsPerToken":5000}}}`)
	w.quick = true
	w.create()
	w.pass(2 * time.Hour)
	endsWith(t, w, "run_timeout")
}

func TestMockProviderIsCheckedBeforeTheRun(t *testing.T) {
	wf := workflow(t, "", []string{mockedNode}, nil)
	for config, field := range map[string]string{
		`{"id":"magic"}`: "configurable.mockProvider.id",
		`{}`:             "configurable.mockProvider.id",
		`{"id":"stream-text","config":{"tokens":[1]}}`:                 "configurable.mockProvider.config.tokens[0]",
		`{"id":"stream-text","config":{"tokens":"x"}}`:                 "configurable.mockProvider.config.tokens",
		`{"id":"stream-text","config":{"delayMsPerToken":5001}}`:       "configurable.mockProvider.config.delayMsPerToken",
		`{"id":"stream-text","config":{"finishReason":"bored"}}`:       "configurable.mockProvider.config.finishReason",
		`{"id":"stream-text","config":{"usage":7}}`:                    "configurable.mockProvider.config.usage",
		`{"id":"stream-text","config":{"usage":{"totalTokens":-1}}}`:   "configurable.mockProvider.config.usage.totalTokens",
		`{"id":"stream-text","config":{"speed":1}}`:                    "configurable.mockProvider.config.speed",
		`{"id":"stream-text","extra":1}`:                               "configurable.mockProvider.extra",
		`{"id":"stream-text","config":{"tokens":["` + long(1) + `"]}}`: "configurable.mockProvider.config.tokens",
	} {
		err := engine.CheckCreate(wf, nil, json.RawMessage(`{"mockProvider":`+config+`}`))
		if e, ok := errors.AsType[*wire.FieldError](leaf(err)); !ok || e.Field != field {
			t.Errorf("%.80s: %v, want an error about %s", config, err, field)
		}
	}
	if got := engine.MockProvider(json.RawMessage(`{"mockProvider":{"id":"magic"}}`)); got != "magic" {
		t.Errorf("MockProvider = %q", got)
	}
	for _, none := range []string{``, `{}`, `7`, `{"mockProvider":7}`} {
		if got := engine.MockProvider(json.RawMessage(none)); got != "" {
			t.Errorf("MockProvider(%s) = %q", none, got)
		}
	}
}

func long(n int) string { return strings.Repeat("x", n<<20) }

func leaf(err error) error {
	if all := joined(err); len(all) > 0 {
		return leaf2(all[0])
	}
	return err
}

func leaf2(err error) error {
	if all, ok := err.(interface{ Unwrap() []error }); ok && len(all.Unwrap()) > 0 {
		return leaf2(all.Unwrap()[0])
	}
	return err
}

// A host without mocks does not ask a real model instead, and one without the protocol's types for tests does not have them.
func TestTestingIsOffUnlessItIsOn(t *testing.T) {
	decide := func(node, configurable string) *engine.SnapshotError {
		wf := workflow(t, "", []string{node}, nil)
		d, err := engine.Decide(wf, nil, engine.Created{RunID: "r", Configurable: json.RawMessage(configurable)}, env())
		if err != nil || len(d.Effects) > 0 {
			t.Fatalf("%s: %s, %v", node, show(d), err)
		}
		return engine.Snapshot(wf, d.Next).Error
	}
	if got := decide(mockedNode, `{"mockProvider":{"id":"stream-text"}}`); got == nil || got.Code != "mock_provider_forbidden" {
		t.Errorf("a mock: %+v", got)
	}
	for _, node := range []string{`a core.conformance.hold {"config":{"delayMs":1}}`, "a core.conformance.side-effect", "a core.conformance.mock-agent", "a conformance.requiresMissing"} {
		if got := decide(node, ``); got == nil || got.Code != "capability_not_provided" {
			t.Errorf("%s: %+v", node, got)
		}
	}
}
