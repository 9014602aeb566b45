package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"text/tabwriter"

	"runnerd/internal/cli"
	"runnerd/internal/egress"
	"runnerd/internal/wire"
	"runnerd/keyring"
	"runnerd/runner/provider"
	"runnerd/runner/provider/catalog"
	"runnerd/runner/provider/openaiapi"
)

type providerCommands struct {
	List    providerList    `cmd:"" help:"Show every provider, its state, and what to do about it."`
	Enable  providerEnable  `cmd:"" help:"Serve a provider with a backend of this machine."`
	Disable providerDisable `cmd:"" help:"Stop serving a provider."`
	Test    providerTest    `cmd:"" help:"Ask a provider something and show the answer."`
}

// openCatalog joins the providers to the credential store.
func openCatalog(dir string, ring credentials, w *world, log *slog.Logger) (*catalog.Catalog, error) {
	return catalog.Open(catalog.Config{
		File: filepath.Join(dir, "providers.json"), Environ: w.environ, Log: log, Key: keyOf(ring),
		Client:   egress.Configured(egress.Options{HeadersWithin: openaiapi.Cold}),
		Endpoint: w.getenv("RUNNERD_OPENAI_BASE_URL"), Ollama: w.getenv("RUNNERD_OLLAMA_URL"),
	})
}

// changed lets a running daemon know.
func (i installed) changed(ctx context.Context, w *world) error {
	dir, err := i.dir(w)
	if err != nil {
		return err
	}
	return reload(ctx, dir)
}

func (i installed) withCatalog(ctx context.Context, w *world, do func(*catalog.Catalog) error) error {
	return i.withKeyring(ctx, w, func(ring keyring.Keyring) error {
		dir, err := i.dir(w)
		if err != nil {
			return err
		}
		c, err := openCatalog(dir, ring, w, slog.New(slog.NewTextHandler(w.stderr, nil)))
		if err != nil {
			return err
		}
		return do(c)
	})
}

type providerList struct{ installed }

// A providerLine is one provider as `provider list --json` shows it.
type providerLine struct {
	Name      string   `json:"name"`
	Backend   string   `json:"backend"`
	State     string   `json:"state"`
	AuthClass string   `json:"authClass,omitempty"`
	Version   string   `json:"version,omitempty"`
	Path      string   `json:"path,omitempty"`
	BaseURL   string   `json:"baseUrl,omitempty"`
	Models    []string `json:"models,omitempty"`
	Lanes     int      `json:"lanes,omitempty"`
	Detected  bool     `json:"detected,omitempty"`
	Remedy    string   `json:"remedy,omitempty"`
}

func (c *providerList) Run(ctx context.Context, out *cli.Out, w *world) error {
	return c.withCatalog(ctx, w, func(cat *catalog.Catalog) error {
		lines := []providerLine{}
		for _, f := range cat.Probe(ctx) {
			e, s := f.Entry, f.Status
			lines = append(lines, providerLine{e.Name, e.Backend, s.State, s.AuthClass, s.Version, s.Path, e.BaseURL, s.Models, e.StepsAtOnce(), f.Detected, s.Remedy})
		}
		return out.Print(map[string]any{"providers": lines}, func(w io.Writer) {
			t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "PROVIDER\tBACKEND\tLOGIN\tSTATE\tWHAT TO DO")
			for _, l := range lines {
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", l.Name, l.Backend, l.AuthClass, l.State, l.Remedy)
			}
			_ = t.Flush() // stdout is gone: nobody is left to tell
		})
	})
}

type providerEnable struct {
	installed
	Name        string   `arg:"" help:"Name that workflows use: anthropic, openai, ollama, or your own."`
	Backend     string   `help:"What serves it: claude-cli, codex-cli, openai-compatible or echo; may be left out for a provider that is known already."`
	BaseURL     string   `name:"base-url" placeholder:"URL" help:"Address of the endpoint, as http://127.0.0.1:1234/v1."`
	Path        string   `placeholder:"FILE" help:"Where the vendor's program is, if it is not found by itself."`
	Model       []string `sep:"none" help:"Model to offer; may be given several times. Left out: what the backend lists."`
	Lanes       int      `help:"Steps at once; one for a subscription login unless given."`
	AcceptTerms bool     `help:"Confirm that using this login so is allowed by your plan with the vendor."`
}

func (c *providerEnable) Run(ctx context.Context, out *cli.Out, w *world) error {
	return c.withCatalog(ctx, w, func(cat *catalog.Catalog) error {
		e := catalog.Entry{Name: c.Name}
		for _, known := range cat.Entries() {
			if known.Name == c.Name {
				e = known
			}
		}
		e.Disabled = false
		c.overlay(&e)
		if e.Backend == "" {
			return cli.Usagef("backend: name one with --backend")
		}
		if terms := catalog.Terms(e.Backend); terms != "" && !e.TermsAccepted {
			fmt.Fprintln(w.stderr, terms)
			yes, err := confirm(w, "Enable it?")
			if errors.Is(err, errNoTerminal) || err == nil && !yes {
				return fmt.Errorf("%s was not enabled: confirm the vendor's terms, or give --accept-terms", c.Name)
			}
			if err != nil {
				return err
			}
			e.TermsAccepted = true
		}
		if err := cat.Enable(e); err != nil {
			return cli.Usagef("%v", err)
		}
		if err := c.changed(ctx, w); err != nil {
			return err
		}
		return out.Print(e, func(w io.Writer) { fmt.Fprintf(w, "%s is served by %s\n", e.Name, e.Backend) })
	})
}

// overlay puts what the command line gave over the entry.
func (c *providerEnable) overlay(e *catalog.Entry) {
	if c.Backend != "" {
		e.Backend = c.Backend
	}
	if c.BaseURL != "" {
		e.BaseURL = c.BaseURL
	}
	if c.Path != "" {
		e.Path = c.Path
	}
	if len(c.Model) > 0 {
		e.Models = c.Model
	}
	if c.Lanes != 0 {
		e.Lanes = c.Lanes
	}
	e.TermsAccepted = e.TermsAccepted || c.AcceptTerms
}

type providerDisable struct {
	installed
	Name string `arg:"" help:"Name of the provider."`
}

func (c *providerDisable) Run(ctx context.Context, out *cli.Out, w *world) error {
	return c.withCatalog(ctx, w, func(cat *catalog.Catalog) error {
		if err := errors.Join(cat.Disable(c.Name), c.changed(ctx, w)); err != nil {
			return err
		}
		return out.Print(map[string]any{"name": c.Name, "disabled": true}, func(w io.Writer) { fmt.Fprintln(w, c.Name, "is no longer served") })
	})
}

type providerTest struct {
	installed
	Name   string `arg:"" help:"Name of the provider."`
	Model  string `help:"Model to ask."`
	Prompt string `default:"Say hello in five words." help:"What to ask. It may cost a turn of your plan."`
}

func (c *providerTest) Run(ctx context.Context, out *cli.Out, w *world) error {
	return c.withCatalog(ctx, w, func(cat *catalog.Catalog) error {
		for _, f := range cat.Probe(ctx) {
			if f.Entry.Name == c.Name && !f.Status.Ready {
				return fmt.Errorf("%s is %s: %s", c.Name, f.Status.State, f.Status.Remedy)
			}
		}
		b, _, ok := cat.Backend(c.Name)
		if !ok {
			return fmt.Errorf("%w: %s", catalog.ErrUnknown, c.Name)
		}
		tmp, err := os.MkdirTemp("", "runnerd-test-*")
		if err != nil {
			return fmt.Errorf("make a working folder: %w", err)
		}
		defer func() { _ = os.RemoveAll(tmp) }() // a leftover empty folder harms nobody
		answer := b.Run(ctx, provider.Step{RunID: "test", StepID: "test:1:1", Model: c.Model, Dir: tmp, Inputs: wire.ModelInputs{
			Messages: []wire.Message{{Role: "user", Content: wire.Text(c.Prompt)}},
		}}, func(delta string) {
			if !out.JSON {
				fmt.Fprint(out, delta)
			}
		})
		if answer.Error != nil {
			return answer.Error
		}
		return out.Print(answer, func(w io.Writer) { fmt.Fprintln(w) })
	})
}
