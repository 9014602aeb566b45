// Package catalog knows which providers this installation serves: those that the owner enabled, kept in providers.json, and
// those that are simply there, as Ollama on its usual port. It promises that a vendor's program with a personal subscription
// is never used before the owner enabled it and confirmed that its terms are theirs to keep (UD-64), and that a slow or
// broken provider delays and hides no other (UD-45).
package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"runnerd/internal/redact"
	"runnerd/runner/provider"
	"runnerd/runner/provider/claudecli"
	"runnerd/runner/provider/codexcli"
	"runnerd/runner/provider/echo"
	"runnerd/runner/provider/failure"
	"runnerd/runner/provider/openaiapi"
	"runnerd/runner/provider/vendorcli"
)

// EchoName is the provider and the backend that is there when nothing else is.
const EchoName = "echo"

// Backends lists the names that an entry may carry.
func Backends() []string { return []string{claudecli.Name, codexcli.Name, openaiapi.Name, EchoName} }

// Config is what a catalog needs of its process.
type Config struct {
	File     string   // providers.json
	Environ  []string // for children and for finding programs
	Client   *http.Client
	Endpoint string // an OpenAI-compatible URL from the environment, served as "openai-compatible"
	Ollama   string // where to look for Ollama; empty: its usual port; "-": nowhere
	Log      *slog.Logger
	// Key gives the stored key of a provider, the zero Secret when there is none.
	Key func(ctx context.Context, provider string) (redact.Secret, error)
}

const usualOllama = "http://127.0.0.1:11434/v1"

// A Catalog may be used from many goroutines.
type Catalog struct {
	cfg      Config
	failures *failure.Table

	mu      sync.Mutex
	entries map[string]Entry
	found   map[string]Found
}

// A Found is an entry with what its last probe saw.
type Found struct {
	Entry    Entry
	Status   provider.Status
	Detected bool // not enabled by the owner, but there
}

func (f Found) name() string { return f.Entry.Name }

// Open reads the file. One that is damaged is an error: nothing is served by guess.
func Open(cfg Config) (*Catalog, error) {
	table, err := failure.Load()
	if err != nil {
		return nil, err
	}
	entries, err := load(cfg.File)
	if err != nil {
		return nil, err
	}
	return &Catalog{cfg: cfg, failures: table, entries: entries, found: map[string]Found{}}, nil
}

// Entries lists what the owner configured, by name.
func (c *Catalog) Entries() []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return byName(maps.Values(c.entries))
}

// Enable adds or replaces an entry. It refuses a subscription program whose terms were not confirmed.
func (c *Catalog) Enable(e Entry) error {
	if err := e.Validate(); err != nil {
		return err
	}
	return c.change(func(entries map[string]Entry) error {
		entries[e.Name] = e
		return nil
	})
}

// ErrUnknown says that no provider has that name.
var ErrUnknown = errors.New("no such provider")

// Disable keeps the entry, so that what is simply there stays off too.
func (c *Catalog) Disable(name string) error {
	return c.change(func(entries map[string]Entry) error {
		e, ok := entries[name]
		if !ok {
			if _, detected := c.candidates(entries)[name]; !detected {
				return fmt.Errorf("%w: %s", ErrUnknown, name)
			}
			e = c.candidates(entries)[name].Entry
		}
		e.Disabled = true
		entries[name] = e
		return nil
	})
}

func (c *Catalog) change(edit func(map[string]Entry) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	next, err := load(c.cfg.File) // another process may have written it
	if err != nil {
		return err
	}
	if err := edit(next); err != nil {
		return err
	}
	if err := save(c.cfg.File, next); err != nil {
		return err
	}
	c.entries = next
	return nil
}

// candidates are the entries to probe: the owner's, and what may be there by itself.
func (c *Catalog) candidates(entries map[string]Entry) map[string]Found {
	all := map[string]Found{}
	if c.cfg.Ollama != "-" {
		url := cmp.Or(c.cfg.Ollama, usualOllama)
		all["ollama"] = Found{Entry: Entry{Name: "ollama", Backend: openaiapi.Name, BaseURL: url}, Detected: true}
	}
	if c.cfg.Endpoint != "" {
		all[openaiapi.Name] = Found{Entry: Entry{Name: openaiapi.Name, Backend: openaiapi.Name, BaseURL: c.cfg.Endpoint}, Detected: true}
	}
	for name, e := range entries {
		all[name] = Found{Entry: e}
	}
	return all
}

// Probe looks at every candidate, side by side, each for at most 10 s, and remembers what it saw. A provider that is only
// detected is listed when it is ready, or when the environment asked for it; echo when nothing else is ready.
func (c *Catalog) Probe(ctx context.Context) []Found {
	c.mu.Lock()
	if entries, err := load(c.cfg.File); err == nil {
		c.entries = entries // `provider enable` of another process takes effect
	} else {
		c.cfg.Log.Warn("keep the providers as they were", "err", err)
	}
	candidates := slices.Collect(maps.Values(c.candidates(c.entries)))
	c.mu.Unlock()

	results := make(chan Found, len(candidates))
	for _, f := range candidates {
		go func() {
			f.Status = c.probe(ctx, f.Entry)
			results <- f
		}()
	}
	found, ready := map[string]Found{}, false
	for range candidates {
		f := <-results
		if f.Detected && !f.Status.Ready && f.Entry.Name == "ollama" {
			continue
		}
		found[f.Entry.Name] = f
		ready = ready || f.Status.Ready
	}
	if _, named := found[EchoName]; !ready && !named {
		found[EchoName] = Found{Entry: Entry{Name: EchoName, Backend: EchoName}, Status: echo.Backend{}.Probe(ctx), Detected: true}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found = found
	return byName(maps.Values(found))
}

// probe bounds one backend's probe from outside: one that ignores its context is left behind.
func (c *Catalog) probe(ctx context.Context, e Entry) provider.Status {
	if e.Disabled {
		return provider.Status{State: provider.Disabled, Remedy: "run `runnerd provider enable " + e.Name + "`"}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	done := make(chan provider.Status, 1)
	go func() { done <- c.backend(e).Probe(ctx) }()
	select {
	case s := <-done:
		if len(e.Models) > 0 {
			s.Models = e.Models // the owner's choice
		}
		return s
	case <-ctx.Done():
		return provider.Status{State: provider.Broken, Remedy: "its check does not answer within 10 s"}
	}
}

// Backend gives what serves a provider that the last probe found ready.
func (c *Catalog) Backend(name string) (provider.Backend, Entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.found[name]
	if !ok || !f.Status.Ready {
		return nil, Entry{}, false
	}
	return c.backend(f.Entry), f.Entry, true
}

func (c *Catalog) backend(e Entry) provider.Backend {
	key := func(ctx context.Context) (redact.Secret, error) { return c.cfg.Key(ctx, e.Name) }
	cli := vendorcli.Config{
		Backend: e.Backend, Path: e.Path, Environ: c.cfg.Environ, BaseURL: e.BaseURL, Failures: c.failures, Key: key,
	}
	switch e.Backend {
	case claudecli.Name:
		cli.Program, cli.Stall = "claude", 3*time.Minute
		return claudecli.Backend{Config: cli}
	case codexcli.Name:
		cli.Program, cli.Stall = "codex", 10*time.Minute // it prints nothing while it thinks (UD-53)
		return codexcli.Backend{Config: cli}
	case openaiapi.Name:
		return openaiapi.Backend{BaseURL: e.BaseURL, Client: c.cfg.Client, Failures: c.failures, Key: key, Models: e.Models, Local: e.local()}
	}
	return echo.Backend{}
}
