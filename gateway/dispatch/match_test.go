package dispatch

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

func record(providers, models, tools []string) Abilities {
	return Abilities{Record: wire.Capabilities{Providers: providers, Models: models, Tools: tools}}
}

func (a Abilities) with(inv wire.Inventory) Abilities { a.Inventory = &inv; return a }

func names(s ...string) []string { return s }

func TestMatchServesWhatRecordAndInventoryBothSay(t *testing.T) {
	two := record(names("anthropic", "ollama"), names("claude", "llama"), nil)
	paired := two.with(wire.Inventory{Providers: map[string]wire.Provider{
		"anthropic": {Models: names("claude"), State: "ready"}, "ollama": {Models: names("llama"), Lanes: 1},
	}})
	for name, tt := range map[string]struct {
		can  Abilities
		want Want
		fit  string // provider/model, or "" for none
	}{
		"a listed provider serves any model":       {record(names("p"), nil, nil), Want{Kind: wire.KindModel, Provider: "p", Model: "m"}, "p/m"},
		"models narrow providers":                  {record(names("p"), names("a"), nil), Want{Kind: wire.KindModel, Provider: "p", Model: "m"}, ""},
		"no providers, no model step":              {record(nil, names("m"), names("t")), Want{Kind: wire.KindModel, Provider: "p", Model: "m"}, ""},
		"names match exactly":                      {record(names("Echo"), nil, nil), Want{Kind: wire.KindModel, Provider: "echo"}, ""},
		"nothing asked, first of the record":       {record(names("p", "q"), names("a", "b"), nil), Want{Kind: wire.KindModel}, "p/a"},
		"nothing asked, nothing known":             {record(names("p"), nil, nil), Want{Kind: wire.KindModel}, "p/" + wire.DefaultModel},
		"the record alone would pair wrongly":      {paired, Want{Kind: wire.KindModel, Provider: "anthropic", Model: "llama"}, ""},
		"the inventory pairs rightly":              {paired, Want{Kind: wire.KindModel, Model: "llama"}, "ollama/llama"},
		"a provider that the inventory lacks":      {two.with(wire.Inventory{}), Want{Kind: wire.KindModel, Provider: "ollama"}, ""},
		"a provider that the record lacks":         {record(names("a"), nil, nil).with(wire.Inventory{Providers: map[string]wire.Provider{"b": {}}}), Want{Kind: wire.KindModel, Provider: "b"}, ""},
		"a provider that is not ready":             {two.with(wire.Inventory{Providers: map[string]wire.Provider{"ollama": {State: "needs_login"}}}), Want{Kind: wire.KindModel, Provider: "ollama"}, ""},
		"any model of an open provider":            {record(names("p"), nil, nil).with(wire.Inventory{Providers: map[string]wire.Provider{"p": {}}}), Want{Kind: wire.KindModel, Provider: "p", Model: "x"}, "p/x"},
		"an open provider takes nobody's model":    {two.with(wire.Inventory{Providers: map[string]wire.Provider{"anthropic": {}, "ollama": {Models: names("llama")}}}), Want{Kind: wire.KindModel, Provider: "anthropic"}, "anthropic/claude"},
		"an open provider with none of its own":    {record(names("cli", "ollama"), names("llama"), nil).with(wire.Inventory{Providers: map[string]wire.Provider{"cli": {}, "ollama": {Models: names("llama")}}}), Want{Kind: wire.KindModel, Provider: "cli"}, "cli/" + wire.DefaultModel},
		"the record narrows the inventory":         {record(names("p"), names("a"), nil).with(wire.Inventory{Providers: map[string]wire.Provider{"p": {Models: names("a", "b")}}}), Want{Kind: wire.KindModel, Model: "b"}, ""},
		"an inventory with nothing that is listed": {record(names("p"), names("a"), nil).with(wire.Inventory{Providers: map[string]wire.Provider{"p": {Models: names("b")}}}), Want{Kind: wire.KindModel}, ""},
		"a listed tool":                            {record(nil, nil, names("shell.run")), Want{Kind: wire.KindTool, Tool: "shell.run"}, "/"},
		"a tool that is not listed":                {record(names("shell.run"), nil, names("fs.read")), Want{Kind: wire.KindTool, Tool: "shell.run"}, ""},
		"a tool that the inventory lacks":          {record(nil, nil, names("fs.read")).with(wire.Inventory{}), Want{Kind: wire.KindTool, Tool: "fs.read"}, ""},
	} {
		tt.want.Subject = "t/a"
		got := ""
		if fit, ok := Match(tt.want, []Candidate{{Subject: "t/a", Runner: "r", Abilities: tt.can, Max: 1}}); ok {
			got = fit.Provider + "/" + fit.Model
		}
		if got != tt.fit {
			t.Errorf("%s: got %q, want %q", name, got, tt.fit)
		}
	}
}

func TestMatchChoosesAmongEquals(t *testing.T) {
	can := record(names("p"), nil, nil)
	early, late := at, at.Add(time.Hour)
	for name, tt := range map[string]struct {
		from  []Candidate
		named store.RunnerID
		want  store.RunnerID
	}{
		"fewest steps in hand":    {[]Candidate{{Runner: "a", Hand: 2, Max: 4}, {Runner: "b", Hand: 1, Max: 4, Used: late}}, "", "b"},
		"then the longest idle":   {[]Candidate{{Runner: "a", Used: late, Max: 4}, {Runner: "b", Used: early, Max: 4}}, "", "b"},
		"never used is idlest":    {[]Candidate{{Runner: "a", Used: early, Max: 4}, {Runner: "b", Max: 4}}, "", "b"},
		"then by id":              {[]Candidate{{Runner: "b", Max: 4}, {Runner: "a", Max: 4}}, "", "a"},
		"the named one":           {[]Candidate{{Runner: "a", Max: 4}, {Runner: "b", Hand: 3, Max: 4}}, "b", "b"},
		"the named one or none":   {[]Candidate{{Runner: "a", Max: 4}}, "b", ""},
		"not a full one":          {[]Candidate{{Runner: "a", Hand: 1, Max: 1}, {Runner: "b", Hand: 3, Max: 4}}, "", "b"},
		"not the named, full one": {[]Candidate{{Runner: "a", Hand: 1, Max: 1}, {Runner: "b", Max: 4}}, "a", ""},
	} {
		for i := range tt.from {
			tt.from[i].Subject, tt.from[i].Abilities = "t/a", can
		}
		if got, _ := Match(Want{Subject: "t/a", Kind: wire.KindModel, Provider: "p", Named: tt.named}, tt.from); got.Runner != tt.want {
			t.Errorf("%s: got %q, want %q", name, got.Runner, tt.want)
		}
	}
}

func TestMatchKeepsToAProvidersLanes(t *testing.T) {
	can := record(names("login", "local"), nil, nil).with(wire.Inventory{Providers: map[string]wire.Provider{"login": {Lanes: 1}, "local": {}}})
	c := []Candidate{{Subject: "t/a", Runner: "r", Abilities: can, Max: 8, Hand: 1, Lanes: map[string]int{"login": 1}}}
	if _, ok := Match(Want{Subject: "t/a", Kind: wire.KindModel, Provider: "login"}, c); ok {
		t.Error("a login with one lane was given a second step")
	}
	if fit, ok := Match(Want{Subject: "t/a", Kind: wire.KindModel}, c); !ok || fit.Provider != "local" {
		t.Errorf("a step that takes anything got %+v, %v; want the provider with a lane", fit, ok)
	}
}

// T01, T03: however well others' runners fit, and however badly one's own, a step never crosses subjects.
func TestMatchNeverCrossesSubjects_T01_T03(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		subjects := []store.Subject{"t/a", "t/b", "u/a"}
		var from []Candidate
		for i := range rapid.IntRange(0, 6).Draw(t, "runners") {
			from = append(from, Candidate{
				Subject:   rapid.SampledFrom(subjects).Draw(t, "subject"),
				Runner:    store.RunnerID(fmt.Sprint("r", i)),
				Abilities: record(rapid.SliceOfNDistinct(rapid.SampledFrom(names("p", "q")), 0, 2, rapid.ID[string]).Draw(t, "providers"), nil, nil),
				Max:       rapid.IntRange(0, 2).Draw(t, "max"), Hand: rapid.IntRange(0, 2).Draw(t, "hand"),
			})
		}
		w := Want{
			Subject: rapid.SampledFrom(subjects).Draw(t, "asks"), Kind: wire.KindModel,
			Provider: rapid.SampledFrom(names("", "p", "q")).Draw(t, "provider"),
			Named:    store.RunnerID(rapid.SampledFrom(names("", "r0", "r1")).Draw(t, "named")),
		}
		fit, ok := Match(w, from)
		for _, c := range from {
			if ok && c.Runner == fit.Runner && (c.Subject != w.Subject || c.Hand >= c.Max) {
				t.Fatalf("%+v was given to %+v", w, c)
			}
		}
	})
}
