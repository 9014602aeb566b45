package runner

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"runnerd/internal/wire"
	"runnerd/runner/local"
	"runnerd/runner/provider"
	"runnerd/runner/provider/catalog"
	"runnerd/runner/step"
)

// Providers is what this machine may have to run models with. Probe looks, and may take its time.
type Providers interface {
	Probe(ctx context.Context) []step.Provider
}

// Catalog makes Providers of the real catalog.
func Catalog(c *catalog.Catalog) Providers { return fromCatalog{c} }

type fromCatalog struct{ *catalog.Catalog }

func (c fromCatalog) Probe(ctx context.Context) []step.Provider {
	var all []step.Provider
	for _, f := range c.Catalog.Probe(ctx) {
		p := step.Provider{
			ID: f.Entry.Name, Name: f.Entry.Backend, Models: f.Status.Models, Lanes: f.Entry.StepsAtOnce(),
			AuthClass: f.Status.AuthClass, State: f.Status.State, Remedy: f.Status.Remedy,
		}
		p.Backend, _, _ = c.Backend(f.Entry.Name)
		if p.Backend == nil && p.State == provider.Ready {
			p.State = provider.Broken // it went away in between
		}
		all = append(all, p)
	}
	return all
}

// A shelf is what the last look found, by id. It is never changed, only replaced.
type shelf map[string]step.Provider

// inventory is the shelf as the gateway is told. What no report could carry, it leaves out.
func (s shelf) inventory() *wire.Inventory {
	inv := &wire.Inventory{Providers: map[string]wire.Provider{}}
	for _, id := range s.ids() {
		p := s[id]
		one := wire.Provider{Models: p.Models, Lanes: p.Lanes, Backend: p.Name, AuthClass: p.AuthClass, State: p.State, Remedy: p.Remedy}
		if len(one.Models) > wire.MaxProviders {
			one.Models = one.Models[:wire.MaxProviders]
		}
		if (wire.Inventory{Providers: map[string]wire.Provider{id: one}}).Validate() == nil && len(inv.Providers) < wire.MaxProviders {
			inv.Providers[id] = one
		}
	}
	return inv
}

// ids are the names, in the order in which a step that names none gets one: echo last, it is no model.
func (s shelf) ids() []string {
	ids := slices.Sorted(maps.Keys(s))
	if i := slices.Index(ids, catalog.EchoName); i >= 0 {
		ids = append(slices.Delete(ids, i, i+1), catalog.EchoName)
	}
	return ids
}

// registered are the names for the registration record: all, since the inventory says which of them are ready; for a plain
// host, which has the record alone, those that are.
func (s shelf) registered(plain bool) []string {
	var ids []string
	for _, id := range s.ids() {
		if !plain || s[id].State == provider.Ready {
			ids = append(ids, id)
		}
	}
	return ids[:min(len(ids), wire.MaxProviders)]
}

// probe looks at the providers until ctx ends: at the start, now and then, and when asked to. It is a loop of its own, so
// that whatever blocks in it delays no report (UD-13).
func (r *Runner) probe(ctx context.Context) {
	for {
		next := make(shelf)
		for _, p := range r.cfg.Providers.Probe(ctx) {
			next[p.ID] = p
		}
		if ctx.Err() != nil {
			return
		}
		r.shelve(next)
		wait := probeEvery
		for _, p := range next {
			if p.State != provider.Ready && p.State != provider.Disabled {
				wait = probeSoon
			}
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-r.look:
			t.Stop()
		case <-t.C:
		}
	}
}

// shelve puts what was found in the place of what was known, and lets the gateway know if it differs.
func (r *Runner) shelve(next shelf) {
	r.mu.Lock()
	was := r.shelf
	r.shelf = next
	differs := was == nil || !reflect.DeepEqual(was.inventory(), next.inventory())
	if differs {
		r.stocked = false // the inventory is part of the next report
	}
	redial := r.registeredNames != nil && slices.ContainsFunc(next.ids(), func(id string) bool {
		return next[id].State == provider.Ready && !slices.Contains(r.registeredNames, id)
	})
	if r.plain && r.registeredNames != nil {
		redial = !slices.Equal(next.registered(true), r.registeredNames)
	}
	r.mu.Unlock()
	if was == nil {
		close(r.probed)
	}
	switch {
	case redial: // the record is too narrow: only a new connection can widen it
		r.hangUp(errProvidersChanged)
	case differs:
		r.sayNow()
	}
}

// provider is what serves an id now.
func (r *Runner) provider(id string) (step.Provider, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.shelf[id]
	return p, ok
}

// knowsProviders says whether the first look has ended.
func (r *Runner) knowsProviders() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shelf != nil
}

// lookSoon asks for another look.
func (r *Runner) lookSoon() {
	select {
	case r.look <- struct{}{}:
	default:
	}
}

func (s shelf) status(inUse map[string]int) []local.Provider {
	list := make([]local.Provider, 0, len(s))
	for _, id := range s.ids() {
		p := s[id]
		list = append(list, local.Provider{
			Name: id, Backend: p.Name, AuthClass: p.AuthClass, State: p.State, Remedy: p.Remedy, Models: p.Models, Lanes: p.Lanes, InUse: inUse[id],
		})
	}
	return list
}
