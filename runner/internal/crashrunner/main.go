// Command crashrunner is a runner for crash tests: it is built with the tag faultpoint and killed at the moments that the
// environment names. Its credentials are in its folder and its provider writes down every turn, in a file that outlives it.
// It is no part of what is released.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"runnerd/internal/egress"
	"runnerd/internal/fault"
	"runnerd/internal/redact"
	"runnerd/internal/wire"
	"runnerd/runner"
	"runnerd/runner/provider"
	"runnerd/runner/step"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "crashrunner:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	if !fault.Enabled {
		return fmt.Errorf("built without the tag faultpoint")
	}
	r, err := runner.New(runner.Config{
		Dir: dir, Credentials: files(dir), Client: egress.Configured(egress.Options{HTTP1: true}), Providers: ledger(dir), Version: "crash test",
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// files are credentials in files, for tests alone.
type files string

func (d files) path(name string) string { return filepath.Join(string(d), "secret-"+name) }

func (d files) Get(_ context.Context, name string) (redact.Secret, error) {
	b, err := os.ReadFile(d.path(name))
	return redact.New(string(b)), err
}

func (d files) Set(_ context.Context, name string, s redact.Secret) error {
	return os.WriteFile(d.path(name), []byte(s.Reveal()), 0o600)
}

func (d files) Delete(_ context.Context, name string) error { return os.Remove(d.path(name)) }

func (d files) List(context.Context) ([]string, error) {
	found, err := filepath.Glob(d.path("*"))
	for i := range found {
		found[i] = strings.TrimPrefix(found[i], d.path(""))
	}
	return found, err
}

// ledger is a provider that writes a line for each turn before it does anything else: what costs money.
type ledger string

func (l ledger) Probe(context.Context) []step.Provider {
	return []step.Provider{{ID: "fake", Name: "ledger", Backend: turns(l), AuthClass: wire.AuthNone, State: provider.Ready}}
}

type turns string

func (turns) Probe(context.Context) provider.Status {
	return provider.Status{Ready: true, State: provider.Ready}
}

// Run takes its turn, says something, and goes on for as long as its first message asks.
func (t turns) Run(ctx context.Context, s provider.Step, progress func(string)) wire.Output {
	f, err := os.OpenFile(filepath.Join(string(t), "turns"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, s.StepID)
	}
	if err != nil {
		return wire.Failed(wire.CodeProviderError, "%v", err)
	}
	f.Close()
	fault.Point("R07")
	progress("partial")
	if wait, err := time.ParseDuration(s.Inputs.Messages[0].Content.String()); err == nil {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return provider.Ended(ctx)
		}
	}
	return wire.Output{Text: "done " + s.StepID}
}
