package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"runnerd/internal/cli"
	"runnerd/runner"
	"runnerd/runner/local"
)

type statusCommand struct{ folder }

// Run asks the running daemon; without one it says what is known of the installation.
func (c *statusCommand) Run(ctx context.Context, out *cli.Out, w *world) error {
	dir, err := c.dir(w)
	if err != nil {
		return err
	}
	s, err := local.Dial(dir).Status(ctx)
	if errors.Is(err, local.ErrNotRunning) {
		id, err := runner.LoadIdentity(dir)
		if err != nil {
			return err
		}
		s = local.Status{
			Version: programVersion(), Gateway: id.Gateway, RunnerID: id.RunnerID, Subject: id.Subject, State: "stopped",
			Link: local.Link{State: local.Offline, Reason: "the runner is not running; start it with `runnerd run`"}, Steps: []local.Step{}, Providers: []local.Provider{},
			Reconnects: map[string]int{},
		}
	} else if err != nil {
		return err
	}
	return out.Print(s, func(o io.Writer) { show(o, s) })
}

func show(o io.Writer, s local.Status) {
	fmt.Fprintf(o, "%s, %s at %s as %s\n", s.Link.State, s.State, s.Gateway, s.Subject)
	if s.Link.Reason != "" {
		fmt.Fprintln(o, " ", s.Link.Reason)
	}
	if s.Link.Mode != "" {
		fmt.Fprintf(o, "  %s: %s\n", s.Link.Mode, s.Link.ModeReason)
	}
	if s.Link.LastReportMs > 0 {
		fmt.Fprintf(o, "last report answered %v ago\n", (time.Duration(s.Link.LastReportMs) * time.Millisecond).Round(time.Second))
	}
	if s.Link.ClockSkewMs > 60_000 || s.Link.ClockSkewMs < -60_000 {
		fmt.Fprintf(o, "clock skew of %d min: set this machine's clock\n", s.Link.ClockSkewMs/60_000)
	}
	for _, step := range s.Steps {
		fmt.Fprintf(o, "step %s of %s: %s, %s\n", step.StepID, step.RunID, step.Phase, time.Since(step.Since).Round(time.Second))
	}
	if s.Outbox.Pending+s.Outbox.Parked > 0 {
		fmt.Fprintf(o, "results not yet acknowledged: %d, of which parked: %d\n", s.Outbox.Pending+s.Outbox.Parked, s.Outbox.Parked)
	}
	for _, p := range s.Providers {
		fmt.Fprintf(o, "provider %s (%s): %s", p.Name, p.Backend, p.State)
		if p.Remedy != "" {
			fmt.Fprint(o, ": ", p.Remedy)
		}
		fmt.Fprintln(o)
	}
	for _, warning := range s.Warnings {
		fmt.Fprintln(o, "attention:", warning)
	}
	if s.LastError != "" {
		fmt.Fprintln(o, "last error:", s.LastError)
	}
}

type (
	pauseCommand  struct{ folder }
	resumeCommand struct{ folder }
	drainCommand  struct{ folder }
)

// Run tells the daemon.
func (c *pauseCommand) Run(ctx context.Context, out *cli.Out, w *world) error {
	return c.tell(ctx, out, w, "paused", (*local.Client).Pause)
}

// Run tells the daemon.
func (c *resumeCommand) Run(ctx context.Context, out *cli.Out, w *world) error {
	return c.tell(ctx, out, w, "resumed", (*local.Client).Resume)
}

// Run tells the daemon.
func (c *drainCommand) Run(ctx context.Context, out *cli.Out, w *world) error {
	return c.tell(ctx, out, w, "draining", (*local.Client).Drain)
}

func (f folder) tell(ctx context.Context, out *cli.Out, w *world, done string, what func(*local.Client, context.Context) error) error {
	dir, err := f.dir(w)
	if err != nil {
		return err
	}
	if err := what(local.Dial(dir), ctx); err != nil {
		return err
	}
	return out.Print(map[string]string{"state": done}, func(o io.Writer) { fmt.Fprintln(o, done) })
}

// reload has a running daemon look at its providers again; that none runs is no error.
func reload(ctx context.Context, dir string) error {
	if err := local.Dial(dir).Reload(ctx); !errors.Is(err, local.ErrNotRunning) {
		return err
	}
	return nil
}
