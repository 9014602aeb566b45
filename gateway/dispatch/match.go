package dispatch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// Abilities say what a runner can do: its registration record, narrowed by its inventory if it ever sent one.
type Abilities struct {
	Record    wire.Capabilities
	Inventory *wire.Inventory
}

// ReadAbilities reads them from the runner's row.
func ReadAbilities(r store.Runner) (Abilities, error) {
	var a Abilities
	if len(r.Record) > 0 {
		var reg wire.Registration
		if err := json.Unmarshal(r.Record, &reg); err != nil {
			return a, fmt.Errorf("read record of runner %s: %w", r.ID, err)
		}
		a.Record = reg.Capabilities
	}
	if len(r.Inventory) > 0 {
		if err := json.Unmarshal(r.Inventory, &a.Inventory); err != nil {
			return a, fmt.Errorf("read inventory of runner %s: %w", r.ID, err)
		}
	}
	return a, nil
}

// A Want is what a step asks for. Provider and Model may be empty: whatever the runner has.
type Want struct {
	Subject  store.Subject
	Kind     string
	Provider string
	Model    string
	Tool     string
	Named    store.RunnerID // only this runner, if set
}

// WantOf gives what a step asks for.
func WantOf(s store.Step) Want {
	return Want{s.Subject, s.Kind, s.Provider, s.Model, s.Tool, s.Named}
}

// A Candidate is a runner that could be given work now.
type Candidate struct {
	Subject   store.Subject
	Runner    store.RunnerID
	Abilities Abilities
	Max       int            // lanes
	Hand      int            // lanes taken
	Lanes     map[string]int // of them, by provider
	Used      time.Time      // when it was last given a step
}

// A Fit is the runner for a step, and what was settled where the step left it open.
type Fit struct {
	Runner   store.RunnerID
	Provider string
	Model    string
}

// Match chooses the runner for a step: subject, then record, then inventory, then capacity; among equals the named one, the
// one with the fewest steps in hand, then the one that has been idle longest (design, section 4).
func Match(w Want, from []Candidate) (Fit, bool) {
	var best Fit
	var chosen *Candidate
	for i := range from {
		c := &from[i]
		if c.Subject != w.Subject || w.Named != "" && c.Runner != w.Named {
			continue
		}
		fit, ok := c.serve(w)
		if !ok || c.Hand >= c.Max || chosen != nil && !before(c, chosen) {
			continue
		}
		best, chosen = fit, c
	}
	return best, chosen != nil
}

func before(a, b *Candidate) bool {
	return cmp.Or(cmp.Compare(a.Hand, b.Hand), a.Used.Compare(b.Used), cmp.Compare(a.Runner, b.Runner)) < 0
}

func (c *Candidate) serve(w Want) (Fit, bool) {
	if w.Kind == wire.KindTool {
		return Fit{Runner: c.Runner}, c.Abilities.tool(w.Tool)
	}
	for _, p := range c.Abilities.Record.Providers {
		if w.Provider != "" && p != w.Provider {
			continue
		}
		if model, ok := c.Abilities.model(p, w.Model); ok && c.lane(p) {
			return Fit{c.Runner, p, model}, true
		}
	}
	return Fit{}, false
}

func (a Abilities) tool(name string) bool {
	return slices.Contains(a.Record.Tools, name) && (a.Inventory == nil || slices.Contains(a.Inventory.Tools, name))
}

// model says which model of the provider serves a step that asks for one, or for any. The record's models narrow those of
// every provider; the inventory says which belong together.
func (a Abilities) model(provider, asked string) (string, bool) {
	has, open := a.Record.Models, len(a.Record.Models) == 0 // open: a model that is not listed may be asked for
	if a.Inventory != nil {
		p, ok := a.Inventory.Providers[provider]
		if !ok || p.State != "" && p.State != "ready" {
			return "", false
		}
		if len(p.Models) > 0 {
			has, open = a.narrow(p.Models), false
		} else if asked == "" {
			// Any model, says the provider; the record's belong to it unless another provider lists them.
			has, open = slices.DeleteFunc(slices.Clone(has), a.listed), true
		}
	}
	switch {
	case asked != "":
		return asked, open || slices.Contains(has, asked)
	case len(has) > 0:
		return has[0], true
	}
	return wire.DefaultModel, open
}

func (a Abilities) narrow(models []string) []string {
	if len(a.Record.Models) == 0 {
		return models
	}
	return slices.DeleteFunc(slices.Clone(models), func(m string) bool { return !slices.Contains(a.Record.Models, m) })
}

func (a Abilities) listed(model string) bool {
	for _, p := range a.Inventory.Providers {
		if slices.Contains(p.Models, model) {
			return true
		}
	}
	return false
}

func (c *Candidate) lane(provider string) bool {
	if c.Abilities.Inventory == nil {
		return true
	}
	lanes := c.Abilities.Inventory.Providers[provider].Lanes
	return lanes == 0 || c.Lanes[provider] < lanes
}
