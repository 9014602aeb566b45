package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/mdp/qrterminal/v3"
	"golang.org/x/term"

	"runnerd/gateway/admin"
	"runnerd/gateway/identity"
	"runnerd/internal/cli"
)

// devUser is the one person of a gateway on one's own machine.
const devUser = "me"

// devKeyLife bounds the keys that starts for a program make.
const devKeyLife = 30 * 24 * time.Hour

type devCommand struct {
	address
	NoOpen    bool     `help:"Do not open the page in a browser."`
	Workflows []string `type:"existingpath" placeholder:"DIR" help:"Load workflow definitions from this file or folder."`
	NoRunner  bool     `help:"Do not start a runner in this process."`
}

// A ready is the one line that dev prints with --json once everything answers.
type ready struct {
	URL        string `json:"url"`
	SignInLink string `json:"signInLink"`
	APIKey     string `json:"apiKey"`
	DataDir    string `json:"dataDir"`
}

// Run starts the gateway and a runner, prints how to get in, and serves until it is told to stop.
func (c *devCommand) Run(ctx context.Context, out *cli.Out, w *world) error {
	docs, err := definitions(c.Workflows)
	if err != nil {
		return err
	}
	if c.LogLevel == "info" && !out.JSON {
		c.LogLevel = "warn" // a person reads this screen
	}
	return c.with(ctx, w, storage{}, func(ctx context.Context, s *serving) error { return c.serve(ctx, out, w, s, docs) })
}

func (c *devCommand) serve(parent context.Context, out *cli.Out, w *world, s *serving, docs []definition) error {
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop(nil)
	wg.Go(func() { stop(s.gateway.Run(ctx, s.listener, s.socket)) })

	got, err := c.prepare(ctx, out, s, docs)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	if !c.NoRunner {
		online, err := c.startRunner(ctx, w, s, &wg)
		if err != nil {
			return fmt.Errorf("start the runner: %w", err)
		}
		select {
		case <-online:
		case <-time.After(10 * time.Second):
			s.log.Warn("the runner is not online yet; the page shows when it is")
		case <-ctx.Done():
		}
	}
	if ctx.Err() == nil {
		if err := out.Print(got, func(o io.Writer) { welcome(o, got) }); err != nil {
			return err
		}
		if !c.NoOpen && !out.JSON {
			openBrowser(ctx, w, s.dir, got.SignInLink)
		}
	}
	<-ctx.Done()
	stop(nil)
	wg.Wait()
	if parent.Err() != nil {
		return nil // Ctrl-C is how dev ends
	}
	return context.Cause(ctx)
}

// prepare makes the person, a sign-in link and, for a program, a key, and loads the workflows. A key that nobody is shown
// would only be one more that could leak.
func (c *devCommand) prepare(ctx context.Context, out *cli.Out, s *serving, docs []definition) (ready, error) {
	a := s.gateway.Admin
	link, err := a.AddUser(ctx, admin.UserRef{User: devUser})
	if e, ok := errors.AsType[*admin.Error](err); ok && e.Code == admin.CodeConflict {
		link, err = a.LinkUser(ctx, admin.UserRef{User: devUser})
	}
	if err != nil {
		return ready{}, err
	}
	got := ready{URL: s.url, SignInLink: link.Link, DataDir: s.dir}
	if out.JSON {
		key, err := a.CreateKey(ctx, admin.NewKey{User: devUser, Name: "dev", LifeSeconds: int64(devKeyLife.Seconds())})
		if err != nil {
			return ready{}, err
		}
		got.APIKey = key.Key
	}
	if _, err := importAll(ctx, a, string(identity.DefaultTenant), docs); err != nil {
		return ready{}, err
	}
	return got, nil
}

func welcome(o io.Writer, r ready) {
	fmt.Fprintf(o, "\nOpen this link to sign in (once, within an hour):\n\n  %s\n\n", r.SignInLink)
	if f, ok := o.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		qrterminal.GenerateHalfBlock(r.SignInLink, qrterminal.L, o)
	}
	fmt.Fprintf(o, "\nData: %s\nStop: Ctrl-C\n", r.DataDir)
}

// openBrowser opens the page where there is a display. That it cannot is no error: the link is on the screen. The link
// itself goes into a file for this person alone, since other people of the machine may read command lines.
func openBrowser(ctx context.Context, w *world, dir, link string) {
	file := filepath.Join(dir, "sign-in.html")
	page := fmt.Sprintf("<!doctype html><meta http-equiv=refresh content=\"0;url=%s\"><a href=\"%s\">Sign in</a>\n", link, link)
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		return
	}
	var cmd *exec.Cmd
	switch runtime.GOOS {
	case "darwin":
		cmd = exec.CommandContext(ctx, "open", file)
	case "windows":
		cmd = exec.CommandContext(ctx, "rundll32", "url.dll,FileProtocolHandler", file)
	default:
		if w.getenv("DISPLAY") == "" && w.getenv("WAYLAND_DISPLAY") == "" {
			return
		}
		cmd = exec.CommandContext(ctx, "xdg-open", file)
	}
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }() // however it ended, it is not ours to tell
	}
}

// runnerDir is where the runner of a dev gateway keeps what is its own.
func (s *serving) runnerDir() string { return filepath.Join(s.dir, "runner") }
