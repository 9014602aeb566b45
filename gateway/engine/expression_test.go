package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"runnerd/gateway/engine"
)

// computed runs a node that puts out what an expression is worth, and gives it, or the code of the failure.
func computed(t testing.TB, source, inputs string) (string, *world) {
	t.Helper()
	quoted, _ := json.Marshal(source)
	w := newWorld(t, workflow(t, `{"variables":[{"name":"pw","type":"string","sensitive":true},{"name":"n","type":"number","defaultValue":7}]}`, []string{
		`a core.identity {"inputs":{"x":{"type":"variable","variableName":"x","optional":true}}}`,
		`e core.identity {"inputs":{"v":{"type":"expression","expression":` + string(quoted) + `}}}`,
	}, []string{"a>e"}))
	w.created.Inputs = json.RawMessage(inputs)
	w.create()
	if e := engine.Snapshot(w.wf, w.s).Error; e != nil {
		return e.Code, w
	}
	var p struct{ Outputs struct{ V json.RawMessage } }
	if err := json.Unmarshal(w.log[len(w.log)-1].Payload, &p); err != nil {
		t.Fatal(err)
	}
	return string(p.Outputs.V), w
}

func TestExpressionHasItsValue(t *testing.T) {
	inputs := `{"x":{"list":[3,1,2],"text":"a,b","deep":{"er":[{"k":1},{"k":2}]},"none":null},"s":"héllo","o":{"b":2,"a":1},"flag":true}`
	for source, want := range map[string]string{
		`1 + 2 * 3`:                                  `7`,
		`1 / 2`:                                      `0.5`,
		`n + 1`:                                      `8`,
		`variables.n == n`:                           `true`,
		`variables["s"] + "!"`:                       `"héllo!"`,
		`nodes.a.x.text`:                             `"a,b"`,
		`nodes["a"].x.list[0]`:                       `3`,
		`nodes.a?.nothing?.there`:                    `null`,
		`split(nodes.a.x.text, ",")`:                 `["a","b"]`,
		`join(["a","b"], "-")`:                       `"a-b"`,
		`join(split("a,b", ","))`:                    `"ab"`,
		`sort(nodes.a.x.list)`:                       `[1,2,3]`,
		`map(nodes.a.x.deep.er, .k * 10)`:            `[10,20]`,
		`nodes.a.x.deep.er | filter(.k > 1) | len()`: `1`,
		`filter(1..5, # % 2 == 0)`:                   `[2,4]`,
		`reduce(nodes.a.x.list, #acc + #, 0)`:        `6`,
		`sum(nodes.a.x.list)`:                        `6`,
		`{"a": flag ? "yes" : "no", "b": [1, nil]}`:  `{"a":"yes","b":[1,null]}`,
		`let y = n * 2; y + 1`:                       `15`,
		`keys(o)`:                                    `["a","b"]`,
		`values(o)`:                                  `[1,2]`,
		`groupBy(["ab","ac","b"], #[0:1])`:           `{"a":["ab","ac"],"b":["b"]}`,
		`keys(groupBy(["ab","ac","b"], #[0:1]))`:     `["a","b"]`,
		`values(groupBy(["b","a"], #))`:              `[["a"],["b"]]`,
		`s matches "^h.*o$"`:                         `true`,
		`not (s matches "^x")`:                       `true`,
		`replace("aaa", "a", "b")`:                   `"bbb"`,
		`replace("aaa", "a", "b", 2)`:                `"bba"`,
		`repeat("ab", 2)`:                            `"abab"`,
		`upper(s) + string(1)`:                       `"HÉLLO1"`,
		`"ell" in o`:                                 `false`,
		`s contains "ll" && s startsWith "h"`:        `true`,
		`missing ?? "default"`:                       `"default"`,
		`fromJSON("[1,{\"a\":2}]")[1].a`:             `2`,
		`toJSON({"a": 1})`:                           `"{\n  \"a\": 1\n}"`,
		`nil`:                                        `null`,
		`max(1, 2.5)`:                                `2.5`,
	} {
		if got, _ := computed(t, source, inputs); got != want {
			t.Errorf("%s = %s, want %s", source, got, want)
		}
	}
}

func TestExpressionWithoutAValueFailsItsNode(t *testing.T) {
	for _, source := range []string{
		`1 / "a"`, `nodes.a.x.text`, `[1][5]`, `filter(1..3, #)`, `join([1])`, `join(1)`, `repeat(1, 1)`, `repeat("a", -1)`, `replace(1, "a", "b")`,
		`keys(1)`, `values([1])`, `1 matches "a"`, `1 % 0`, `0/0`, `groupBy([1,2], #)`, `keys(groupBy([1], #))`, `int("x")`, `reduce(1..100, [#acc], 0)`,
	} {
		if got, _ := computed(t, source, `{}`); got != "expression_failed" {
			t.Errorf("%s = %s, want expression_failed", source, got)
		}
	}
}

// What would take for ever, or fill the memory, ends soon, and the same way each time.
func TestExpressionThatTakesTooMuchFailsItsNode(t *testing.T) {
	many, _ := json.Marshal(make([]int, 1000))
	large := strings.Repeat("x", 200<<10)
	inputs := fmt.Sprintf(`{"xs":%s,"big":%q}`, many, large)
	for _, source := range []string{
		`count(xs, count(xs, count(xs, count(xs, true) > 0) > 0) > 0)`,
		`all(xs, all(xs, all(xs, all(xs, true))))`,
		`reduce(1..60, #acc + #acc, "x")`,
		`reduce(1..60, [#acc, #acc], 1)`,
		`reduce(1..60, concat(#acc, #acc), [1])`,
		`reduce(1..60, ({"a": #acc, "b": #acc}), 1)`,
		`len(reduce(1..60, toJSON(#acc), "\"\""))`,
		`map(1..1000000, #)`,
		`map(xs, map(xs, map(xs, 1)))`,
		`repeat(repeat("x", 100000), 100000)`,
		`repeat("x", 100000000)`,
		`replace(big, "x", big)`,
		`replace(big, "", big)`,
		`join(map(xs, ""), big)`,
		`sum(map(xs, len(filter(xs, big contains "y"))))`,
		`map(xs, big + "a")`,
		`map(xs, big == big)`,
		`let a = [xs,xs,xs,xs,xs,xs,xs,xs]; let b = [a,a,a,a,a,a,a,a]; let c = [b,b,b,b,b,b,b,b]; c`,
		`let a = [xs,xs,xs,xs,xs,xs,xs,xs]; let b = [a,a,a,a,a,a,a,a]; let c = [b,b,b,b,b,b,b,b]; toJSON(c)`,
		`let a = [xs,xs,xs,xs,xs,xs,xs,xs]; let b = [a,a,a,a,a,a,a,a]; let c = [b,b,b,b,b,b,b,b]; flatten(c)`,
		`let a = [xs,xs,xs,xs,xs,xs,xs,xs]; let b = [a,a,a,a,a,a,a,a]; let c = [b,b,b,b,b,b,b,b]; c == c`,
	} {
		before := time.Now()
		if got, _ := computed(t, source, inputs); got != "expression_failed" {
			t.Errorf("%s = %.100s, want expression_failed", source, got)
		}
		if took := time.Since(before); took > time.Minute { // some milliseconds: this only tells an endless one
			t.Errorf("%s takes %s", source, took)
		}
	}
	inputs = fmt.Sprintf(`{"a":%q,"b":%q}`, large, large)
	if got, _ := computed(t, `len(a + b)`, inputs); got != "expression_failed" {
		t.Errorf("reading more than an expression may gives %s", got)
	}
}

// What an expression cannot be is refused with the definition.
func TestParseRefusesExpressions(t *testing.T) {
	for source, says := range map[string]string{
		`1 +`:                           "cannot be read",
		`now()`:                         "calls now, which is not here",
		`date("2020-01-01")`:            "calls date, which is not here",
		`uniq([1])`:                     "calls uniq, which is not here",
		`foo(1)`:                        "calls a function that is not here",
		`variables`:                     "must name what it reads of variables",
		`variables[s]`:                  "must name what it reads of variables",
		`nodes`:                         "must name what it reads of nodes",
		`keys(nodes)`:                   "must name what it reads of nodes",
		`nodes[s]`:                      "must name what it reads of nodes",
		`nodes.nobody.x`:                `names no node: "nobody"`,
		`nodes.e.v`:                     `reads node "e", and no edges lead from there`,
		`$meter`:                        `has no name "$meter"`,
		`$env`:                          `has no name "$env"`,
		`$charge(1, 2)`:                 `has no name "$charge"`,
		`let nodes = 1; nodes`:          `may not give "nodes" another meaning`,
		`let $charge = 1; 1`:            `another meaning`,
		`s matches s`:                   "needs a regular expression that is written out",
		`s matches "("`:                 "must be a regular expression",
		`s matches "(a{1000}){1000}"`:   "must be a regular expression",
		`s matches "a{1000}b{1000}"`:    "at most 2000 steps",
		strings.Repeat("1+", 600) + "1": "cannot be read",
		strings.Repeat("(", 4000):       "cannot be read",
		strings.Repeat(" ", 5000):       "at most 4096 bytes",
	} {
		quoted, _ := json.Marshal(source)
		_, err := engine.Parse([]byte(definition("", []string{"a core.noop",
			`e core.identity {"inputs":{"v":{"type":"expression","expression":` + string(quoted) + `}}}`}, []string{"a>e"})))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60s: %v, want an error that says %q", source, err, says)
		}
	}
	for condition, says := range map[string]string{
		`{"type":"expression"}`:                          "expression is required",
		`{"type":"expression","expression":""}`:          "must be a string that is not empty",
		`{"type":"expression","expression":"nodes.b.x"}`: `edges[0].condition reads node "b", and no edges lead from there to node "a"`,
	} {
		_, err := engine.Parse([]byte(definition("", []string{"a core.noop", "b core.noop"}, []string{`a>b {"condition":` + condition + `}`})))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that says %q", condition, err, says)
		}
	}
	var nodes []string
	for i := range engine.MaxExpressions + 1 {
		nodes = append(nodes, fmt.Sprintf(`n%d core.identity {"inputs":{"v":{"type":"expression","expression":"1"}}}`, i))
	}
	if _, err := engine.Parse([]byte(definition("", nodes, nil))); err == nil || !strings.Contains(err.Error(), "the expression after the 200th") {
		t.Errorf("too many expressions: %v", err)
	}
}

// What is computed from untrusted values is untrusted, and what is sensitive is not computed with.
func TestExpressionKeepsTrustAndSecrets(t *testing.T) {
	if got, w := computed(t, `pw + "x"`, `{"pw":"hunter2"}`); got != "expression_failed" || strings.Contains(fmt.Sprint(w.log), "hunter2") {
		t.Errorf("a sensitive variable in an expression: %s", got)
	}
	wf := workflow(t, "", []string{`m core.ai.callPrompt {"config":{"prompt":"x"},"outputSensitivity":{"token":true}}`,
		`n core.ai.callPrompt {"inputs":{"prompt":{"type":"expression","expression":"upper(nodes.m.text) + string(nodes.m.token)"}}}`,
		`o core.ai.callPrompt {"inputs":{"prompt":{"type":"expression","expression":"'trusted ' + s"}}}`}, []string{"m>n", "m>o"})
	w := newWorld(t, wf)
	w.created.Inputs = json.RawMessage(`{"s":"words"}`)
	w.create()
	w.result("m:1:1", `{"text":"evil","token":"token-canary"}`)
	if in := string(w.steps["n:1:1"].Inputs); !strings.Contains(in, "UNTRUSTED") || !strings.Contains(in, "EVIL") || strings.Contains(in, "canary") {
		t.Errorf("inputs made from a step's output: %s", in)
	}
	if in := modelInputs(t, w.steps["o:1:1"]); in.Messages[0].Content.String() != "trusted words" {
		t.Errorf("inputs made from what the client sent: %+v", in)
	}
}

// An answer depends on nothing but the question, however objects are kept in memory.
func TestExpressionHasOneValue(t *testing.T) {
	var o strings.Builder
	for i := range 50 {
		fmt.Fprintf(&o, `,"k%d":%d`, i, i)
	}
	inputs := `{"o":{` + o.String()[1:] + `}}`
	want, _ := computed(t, `toJSON(o) + join(keys(o), ",") + string(values(o)) + string(o)`, inputs)
	for range 20 {
		if got, _ := computed(t, `toJSON(o) + join(keys(o), ",") + string(values(o)) + string(o)`, inputs); got != want {
			t.Fatalf("got %s, then %s", want, got)
		}
	}
}

// Whatever is accepted has a value or fails its node, and does so soon.
func FuzzExpression(f *testing.F) {
	for _, source := range []string{
		`1 + n`, `map(x, # + 1)`, `reduce(1..9, #acc + #, 0)`, `keys(o) | filter(# matches "a+")`, `let y = s; y + y`, `{"a": [x, nil]}`, `nodes.a.x[0] ?? 1`,
		`groupBy(x, #)`, `s[1:3] + repeat(s, 3)`, `x[0] > 1 ? "a" : toJSON(o)`, `replace(s, "l", "")`, `sortBy(x, -#)`, `flatten([x, [x]])`,
	} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		quoted, _ := json.Marshal(source)
		wf, err := engine.Parse([]byte(definition("", []string{`a core.identity {"inputs":{"x":{"type":"variable","variableName":"x"}}}`,
			`e core.identity {"inputs":{"v":{"type":"expression","expression":` + string(quoted) + `}}}`}, []string{"a>e"})))
		if err != nil {
			return
		}
		w := newWorld(t, wf)
		w.created.Inputs = json.RawMessage(`{"x":[1,2,3],"o":{"a":1,"b":"two"},"s":"hello","n":7}`)
		w.create()
		if !w.s.Terminal() {
			t.Errorf("%q does not end: %v", source, w.story())
		}
	})
}
