package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/engine"
	"runnerd/internal/schema/schematest"
	"runnerd/internal/wire"
)

// fixtures are the published workflows of the protocol's conformance suite.
func fixtures(tb testing.TB) map[string][]byte {
	tb.Helper()
	files, err := filepath.Glob("testdata/workflows/*.json")
	if err != nil || len(files) == 0 {
		tb.Fatalf("no fixtures (%v)", err)
	}
	docs := map[string][]byte{}
	for _, file := range files {
		doc, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		docs[strings.TrimSuffix(filepath.Base(file), ".json")] = doc
	}
	return docs
}

func TestParseTakesEveryPublishedWorkflow(t *testing.T) {
	for name, doc := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			wf, err := engine.Parse(doc)
			if err != nil {
				t.Fatal(err)
			}
			if wf.ID != name || string(wf.Doc()) != string(doc) {
				t.Errorf("id %s and %d bytes, want %s and the document as it was", wf.ID, len(wf.Doc()), name)
			}
		})
	}
}

// Every published workflow whose node types are here does what its row in the fixtures' readme says.
func TestPublishedWorkflowsRun(t *testing.T) {
	docs := fixtures(t)
	tried := map[string]bool{}
	for name, c := range map[string]struct {
		inputs, configurable string
		script               func(*world)
		want                 string // status, and code if failed
	}{
		"conformance-noop":                {want: "completed"},
		"conformance-identity":            {inputs: `{"payload":{"n":1}}`, want: "completed"},
		"conformance-delay":               {inputs: `{"delayMs":10}`, want: "completed"},
		"conformance-cancellable":         {script: func(w *world) { w.mustDo(engine.Cancel{}) }, want: "cancelled"},
		"conformance-failure":             {want: "failed node_failed"},
		"conformance-idempotent":          {inputs: `{"nonce":"x"}`, want: "completed"},
		"conformance-multi-node":          {want: "completed"},
		"conformance-capability-missing":  {want: "failed capability_not_provided"},
		"conformance-configurable-schema": {configurable: `{"recursionLimit":5}`, want: "completed"},
		"conformance-cap-breach":          {configurable: `{"recursionLimit":3}`, want: "failed recursion_limit_exceeded"},
		"conformance-run-duration-breach": {configurable: `{"runTimeoutMs":1000}`, want: "failed run_timeout"},
		"conformance-version-fold":        {want: "completed"},
		"conformance-message-reducer":     {want: "completed"},
		"conformance-agent-identity":      {want: "completed"},
		"conformance-agent-reasoning": {script: func(w *world) {
			want := "run.started|node.started reasoner|agent.reasoned reasoner|agent.toolCalled reasoner openwop.echo:echo reasoner:1|" +
				"agent.toolReturned reasoner reasoner:1 ok|agent.handoff reasoner|agent.decided reasoner|node.completed reasoner|run.completed {}"
			if got := strings.Join(w.story(), "|"); got != want {
				t.Errorf("log\n got %s\nwant %s", got, want)
			}
		}, want: "completed"},
		"conformance-replay-side-effect": {inputs: `{"delayMs":30000}`, script: func(w *world) {
			w.pass(time.Second)
			w.mustDo(engine.Cancel{})
			again := w.fork(engine.Fork{Mode: engine.ModeReplay})
			again.pass(time.Minute)
			endsWith(t, again, "replay_source_missing")
			branch := w.fork(engine.Fork{Mode: engine.ModeBranch})
			branch.pass(time.Minute)
			branch.is("completed")
			again = branch.fork(engine.Fork{Mode: engine.ModeReplay, RunID: "run_3"})
			again.pass(time.Minute)
			again.is("completed")
		}, want: "cancelled"},
		"conformance-stream-text": {
			configurable: `{"mockProvider":{"id":"stream-text","config":{"tokens":["Hel","lo ","you"],"delayMsPerToken":100,"finishReason":"length","model":"mm","usage":{"totalTokens":9}}}}`,
			script:       func(w *world) { w.pass(299 * time.Millisecond); w.is("running") }, want: "completed",
		},
		"conformance-mcp-tool-roundtrip": {script: func(w *world) { w.result("mcp-call:1:1", `{"result":{"text":"roundtrip-probe"}}`) }, want: "completed"},
		"conformance-phase4-nondet-tool": {script: func(w *world) {
			w.result("structured-call:1:1", `{"text":"{\"valid\":true}"}`)
			again := w.fork(engine.Fork{Mode: engine.ModeReplay})
			if diff := cmp.Diff(w.list(), again.list()); diff != "" {
				t.Errorf("the replay differs:\n%s", diff)
			}
		}, want: "completed"},
		"conformance-phase4-replay-divergence": {script: func(w *world) { w.result("structured-call:1:1", `{"text":"{\"valid\":true}"}`) }, want: "completed"},
		"conformance-subworkflow-child":        {want: "completed"},
		"conformance-subworkflow-parent": {script: func(w *world) {
			wf, err := engine.Parse(docs[w.child().WorkflowID])
			if err != nil {
				t.Fatal(err)
			}
			kid := newWorld(t, wf)
			kid.created = w.child().Created
			kid.create()
			end, _, _ := engine.ChildResult(wf, kid.s)
			w.childEnds(end)
			if got := string(engine.Snapshot(w.wf, w.s).Variables["childOutcome"]); got != `"child-completed"` {
				t.Errorf("childOutcome = %s", got)
			}
		}, want: "completed"},
		"conformance-approval": {script: func(w *world) {
			w.is("waiting-approval")
			w.mustAnswer("gate", "ann", `{"action":"accept"}`)
		}, want: "completed"},
		"conformance-clarification": {script: func(w *world) {
			w.is("waiting-input")
			w.mustAnswer("ask", "ann", `{"answers":{"q1":"blue"}}`)
		}, want: "completed"},
		"conformance-interrupt-auth-required": {script: func(w *world) {
			if err := w.do(engine.Resolve{NodeID: "gate", Value: []byte(`{"action":"accept"}`), By: "token"}); !errors.Is(err, engine.ErrAuthRequired) {
				t.Errorf("by token alone: %v, want ErrAuthRequired", err)
			}
			w.is("waiting-approval")
			w.mustAnswer("gate", "ann", `{"action":"accept"}`)
		}, want: "completed"},
		"conformance-interrupt-quorum": {script: func(w *world) {
			for _, voter := range []string{"alice", "bob", "carol"} {
				w.is("waiting-approval")
				w.mustAnswer("gate", "key1", `{"action":"accept","voter":"`+voter+`"}`)
			}
		}, want: "completed"},
		"conformance-interrupt-external-event": {script: func(w *world) {
			w.is("waiting-external")
			answer := engine.Resolve{InterruptID: "wait-for-external:i1", Value: []byte(`{"orderId":"fixture-order-1","status":"pending"}`)}
			if err := w.do(answer); !engine.Refused(err) {
				t.Errorf("an event of another order: %v, want it refused", err)
			}
			w.is("waiting-external")
			answer.Value = []byte(`{"orderId":"fixture-order-1","status":"completed","amount":7}`)
			w.mustDo(answer)
		}, want: "completed"},
	} {
		tried[name] = true
		t.Run(name, func(t *testing.T) {
			wf, err := engine.Parse(docs[name])
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, wf)
			w.created.Inputs, w.created.Configurable = []byte(c.inputs), []byte(c.configurable)
			w.create()
			if c.script != nil {
				c.script(w)
			}
			w.pass(1e12)
			got := engine.Snapshot(wf, w.s)
			status := got.Status
			if got.Error != nil {
				status += " " + got.Error.Code
			}
			if status != c.want {
				t.Errorf("ended %s, want %s: %v", status, c.want, w.story())
			}
		})
	}
	for name := range docs {
		if !tried[name] {
			t.Errorf("nothing runs %s", name)
		}
	}
}

func TestBuiltinChatIsOneModelStep(t *testing.T) {
	wf := engine.Builtin()
	schematest.Document(t, "workflow-definition", wf.Doc())
	w := newWorld(t, wf)
	w.created.Inputs, w.created.Configurable = []byte(`{"prompt":"hi","system":"be brief"}`), []byte(`{"ai.provider":"echo","model":"m"}`)
	d := dispatched(t, w, "chat:1:1")
	if want := `{"system":"be brief","messages":[{"role":"user","content":"hi"}]}`; string(d.Inputs) != want || d.Provider != "echo" || d.Model != "m" {
		t.Errorf("dispatch = %+v with inputs %s, want %s for echo and m", d, d.Inputs, want)
	}
	w.result("chat:1:1", `{"text":"hello","model":"m"}`)
	if got := w.story(); got[len(got)-1] != `run.completed {"text":"hello","model":"m"}` {
		t.Errorf("log = %v", got)
	}
}

// Every mistake is named, with the path of its member, all at once.
func TestParseNamesEveryMistake(t *testing.T) {
	for name, c := range map[string]struct {
		doc  string
		want []string
	}{
		"no object":       {`[]`, []string{"document must be an object"}},
		"no JSON":         {`{"id":`, []string{"document must be valid JSON in UTF-8 without repeated members"}},
		"a member twice":  {`{"id":"a","id":"a"}`, []string{"document must be valid JSON in UTF-8 without repeated members"}},
		"nested too deep": {strings.Repeat("[", 60) + strings.Repeat("]", 60), []string{"document must not be nested deeper than 52 levels"}},
		"too big":         {strings.Repeat(" ", engine.MaxDefinition+1), []string{"document must have at most 4194304 bytes"}},
		"nothing in it": {`{"extra":1}`, []string{
			"id is required", "name is required", "version is required", "nodes is required", "edges is required", "triggers is required",
			"variables is required", "metadata is required", "settings is required", "extra is not a member of this object",
		}},
		"members of wrong types": {`{"id":"A b","name":"","version":7,"nodes":{},"edges":3,"triggers":[1],"variables":[{"name":"v","type":"int"},{"name":"v","type":"string","required":"yes"}],
		  "metadata":[],"settings":{"timeout":-1,"maxRetries":1.5}}`, []string{
			`id must match ^[a-z][a-z0-9_-]*$`, "name must not be empty", "version must be a string", "metadata must be an object",
			"variables[0].type must be one of string, number, boolean, object, array", `variables[1].name is the name of an earlier variable: "v"`,
			"variables[1].required must be true or false", "nodes must be an array", "nodes must hold 1 to 1000 nodes", "edges must be an array",
			"triggers[0] must be an object", "settings.timeout must be an integer from 0 to 9223372036854", "settings.maxRetries must be an integer from 0 to 2147483647",
		}},
		"nodes and edges": {definition(`{"triggers":[{"id":"t","type":"sometimes","nodeId":"nobody"},{"id":"t","type":"manual"}]}`, []string{
			`a 7up {"colour":"red"}`, `a core.noop`, `b core.noop {"inputs":{"x":{"type":"variable"},"y":{"type":"connection","nodeId":"q","outputKey":"o"},"z.z":{"type":"static"},"w":{"type":"magic"},"e":{"type":"expression","expression":""}}}`,
		}, []string{"a>nobody sometimes", `b>a {"id":"e0","condition":{"type":"regex","left":"x","right":"("},"size":1}`}), []string{
			`nodes[0].colour is not a member of this object`, `nodes[0].typeId must match ^[a-z][a-zA-Z0-9._-]*$`, `nodes[1].id is the id of an earlier node: "a"`,
			`nodes[2].inputs.e.expression must be a string that is not empty`, `nodes[2].inputs.w.type must be one of static, variable, connection, expression`,
			`nodes[2].inputs.w.value is required`, `nodes[2].inputs.x.variableName is required`, `nodes[2].inputs.y.nodeId names no node: "q"`,
			`nodes[2].inputs["z.z"].value is required`,
			`edges[0].targetNodeId names no node: "nobody"`, `edges[0].triggerRule must be one of all_success, any_success, all_complete, none_failed, any_failed`,
			`edges[1].size is not a member of this object`, `edges[1].id is the id of an earlier edge: "e0"`,
			`edges[1].condition.right must be a regular expression (RE2) of at most 1024 bytes`,
			`triggers[0].type must be one of manual, schedule, webhook, event, artifact, canvas, envelope, command, chat-message, channel-write`,
			`triggers[0].nodeId names no node: "nobody"`, `triggers[1].id is the id of an earlier trigger: "t"`,
		}},
		"a node id too long for a step id": {definition("", []string{strings.Repeat("n", engine.MaxNodeID+1) + " core.noop"}, nil), []string{
			fmt.Sprintf("nodes[0].id must have 1 to %d characters", engine.MaxNodeID),
		}},
		"cycles": {definition("", []string{"a core.noop", "b core.noop", "c core.noop", "d core.noop", "e core.noop", "f core.noop"},
			[]string{"a>b", "b>c", "c>b", "c>d", "e>e", "d>f"}), []string{
			"edges form a cycle: c -> b -> c", "edges form a cycle: e -> e",
		}},
		"a connection to a node that may run later": {definition("", []string{"a core.noop", `b core.identity {"inputs":{"x":{"type":"connection","nodeId":"a","outputKey":"y"}}}`}, nil), []string{
			`nodes[1].inputs.x connects to node "a", and no edges lead from there to node "b"`,
		}},
		"a schema that is none": {definition(`{"configurableSchema":{"type":"thing"}}`, []string{"a core.noop"}, nil), []string{"configurableSchema is not a JSON Schema"}},
		"a schema that refers to others": {definition(`{"configurableSchema":{"$defs":{"a":{}},"properties":{"x":{"$ref":"#/$defs/a"}}}}`, []string{"a core.noop"}, nil), []string{
			`configurableSchema may not refer to other schemas: it has a "$ref"`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := engine.Parse([]byte(c.doc))
			var got []string
			for _, err := range joined(err) {
				if _, ok := errors.AsType[*wire.FieldError](err); !ok {
					t.Errorf("%v is not a *wire.FieldError", err)
				}
				line := err.Error()
				if i := slices.IndexFunc(c.want, func(w string) bool { return strings.HasPrefix(line, w) }); i >= 0 {
					line = c.want[i]
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("mistakes (-want +got):\n%s", diff)
			}
		})
	}
}

func joined(err error) []error {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return all.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

func TestParseHasLimits(t *testing.T) {
	nodes, edges := make([]string, engine.MaxNodes), make([]string, engine.MaxEdges)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("n%d core.noop", i)
	}
	for i := range edges {
		edges[i] = fmt.Sprintf("n%d>n%d", i%(engine.MaxNodes-1), i%(engine.MaxNodes-1)+1)
	}
	if _, err := engine.Parse([]byte(definition("", nodes, edges))); err != nil {
		t.Errorf("a workflow of the largest size: %v", err)
	}
	_, err := engine.Parse([]byte(definition("", append(nodes, "m core.noop"), append(edges, "n0>n1"))))
	if err == nil || !strings.Contains(err.Error(), "nodes must hold 1 to 1000 nodes") || !strings.Contains(err.Error(), "edges must hold at most 5000 edges") {
		t.Errorf("error = %v, want one that names both limits", err)
	}
}

// A run of whatever is accepted can be started and comes to an end.
func FuzzParse(f *testing.F) {
	for _, doc := range fixtures(f) {
		f.Add(doc)
	}
	f.Add(engine.Builtin().Doc())
	f.Add([]byte(definition("", []string{"a core.fail", "b core.identity"}, []string{`a>b any_failed {"sourceOutput":"error"}`})))
	f.Fuzz(func(t *testing.T, doc []byte) {
		wf, err := engine.Parse(doc)
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Fatal("an error that says nothing")
			}
			return
		}
		w := newWorld(t, wf)
		w.created.Inputs = []byte(`{}`)
		if engine.CheckCreate(wf, w.created.Inputs, nil) != nil {
			return
		}
		w.create()
		if !w.s.Terminal() {
			w.mustDo(engine.Cancel{Reason: "enough"})
		}
	})
}
