package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/mdp/qrterminal/v3"
	"golang.org/x/term"

	"runnerd/internal/cli"
	"runnerd/internal/egress"
	"runnerd/internal/redact"
	"runnerd/internal/wire"
	"runnerd/keyring"
	"runnerd/runner"
	"runnerd/runner/link"
	"runnerd/runner/local"
	"runnerd/runner/process"
)

type pairCommand struct {
	installed
	Gateway string `arg:"" name:"url" help:"Address of the gateway, as https://gateway.example.org."`
	Name    string `help:"What your page calls this machine; its host name unless given."`
	CAFile  string `name:"ca-file" type:"existingfile" placeholder:"FILE" help:"Certificate authorities to trust besides the system's."`
}

// Run shows a code and waits until somebody confirms it.
func (c *pairCommand) Run(ctx context.Context, out *cli.Out, w *world) error {
	dir, err := c.dir(w)
	if err != nil {
		return err
	}
	if id, err := runner.LoadIdentity(dir); err == nil {
		return fmt.Errorf("this installation is paired with %s already, as %s: run `runnerd logout` first, or use another folder with --data", id.Gateway, id.RunnerID)
	} else if !errors.Is(err, runner.ErrNotPaired) {
		return err
	}
	name := c.Name
	if name == "" {
		if name, err = os.Hostname(); err != nil {
			name = "laptop"
		}
	}
	kind, err := c.store(dir)
	if err != nil {
		return err
	}
	client, err := toGateway(c.CAFile)
	if err != nil {
		return err
	}
	at, err := link.New(c.Gateway, client, nil)
	if err != nil {
		return cli.Usagef("%v", err)
	}
	return c.withKeyring(ctx, w, func(ring keyring.Keyring) error {
		if _, err := ring.List(ctx); err != nil { // before somebody confirms a code in vain
			return err
		}
		got, err := runner.Pair(ctx, runner.PairConfig{
			Gateway: c.Gateway, Dir: dir, Name: name, Store: kind, Version: programVersion(), Credentials: ring, Client: client,
		}, func(code wire.PairingReply) { showCode(out, code) })
		if err != nil && ctx.Err() == nil {
			return errors.New(at.Words(err))
		}
		if err != nil {
			return err
		}
		return out.Print(map[string]string{"runnerId": got.RunnerID, "subject": got.Subject}, func(o io.Writer) {
			fmt.Fprintf(o, "Paired as a runner of %s. Start it with: runnerd run\n", got.Subject)
		})
	})
}

// showCode prints what a person confirms; with --json at once as a line of its own.
func showCode(out *cli.Out, code wire.PairingReply) {
	_ = out.Print(map[string]any{ // stdout is gone: Ctrl-C or the code's expiry ends the wait
		"userCode": code.UserCode, "verificationUri": code.VerificationURI,
		"verificationUriComplete": code.VerificationURIComplete, "expiresIn": code.ExpiresIn,
	}, func(o io.Writer) {
		fmt.Fprintf(o, "\nOpen %s\nand confirm the code  %s  (within %v)\n\n", code.VerificationURIComplete, code.UserCode, time.Duration(code.ExpiresIn)*time.Second)
		if f, ok := o.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			qrterminal.GenerateHalfBlock(code.VerificationURIComplete, qrterminal.L, o)
		}
	})
}

// toGateway is the way out to the gateway, which the owner wrote down.
func toGateway(caFile string) (client *http.Client, err error) {
	roots, err := egress.Roots(caFile)
	if err != nil {
		return nil, err
	}
	return egress.Configured(egress.Options{Roots: roots, HTTP1: true}), nil
}

type runCommand struct {
	installed
	MaxSteps int    `default:"4" help:"Steps at once."`
	CAFile   string `name:"ca-file" type:"existingfile" placeholder:"FILE" help:"Certificate authorities to trust besides the system's."`
	LogLevel string `enum:"debug,info,warn,error" default:"info" help:"What to log: debug, info, warn or error."`
}

// Run is the daemon.
func (c *runCommand) Run(ctx context.Context, out *cli.Out, w *world) error {
	if c.MaxSteps < 1 {
		return cli.Usagef("max-steps: must be 1 or more")
	}
	dir, err := c.dir(w)
	if err != nil {
		return err
	}
	if _, err := runner.LoadIdentity(dir); err != nil { // before anything is made in the folder
		return err
	}
	if err := process.Harden(); err != nil {
		return fmt.Errorf("keep credentials out of core files: %w", err)
	}
	mask := &redact.Set{}
	log, err := newLog(w.stderr, c.LogLevel, mask)
	if err != nil {
		return err
	}
	client, err := toGateway(c.CAFile)
	if err != nil {
		return err
	}
	return c.withKeyring(ctx, w, func(ring keyring.Keyring) error {
		vault := runner.NewVault(ring, mask)
		providers, err := openCatalog(dir, vault, w, log)
		if err != nil {
			return err
		}
		r, err := runner.New(runner.Config{
			Dir: dir, Credentials: vault, Client: client, Providers: runner.Catalog(providers), Mask: mask, MaxSteps: c.MaxSteps,
			Version: programVersion(), Log: log,
			Control: func(dir string) (net.Listener, error) { return local.Listen(dir, log) },
		})
		if err != nil {
			return err
		}
		out.Note("Connecting as %s. Stop with Ctrl-C: steps in hand get up to %v to finish.", r.Status().RunnerID, wire.Drain)
		if err := r.Run(ctx); !errors.Is(err, runner.ErrLoggedOut) {
			return err
		}
		out.Note("Logged out.")
		return nil
	})
}

// newLog writes JSON lines in which nothing secret stands: not by name, not by shape, not by value.
func newLog(w io.Writer, level string, mask *redact.Set) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, cli.Usagef("log-level: %v", err)
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l, ReplaceAttr: mask.Attr})), nil
}

type logoutCommand struct {
	installed
	Force  bool   `help:"Forget the pairing here even when the gateway cannot be reached. It must then be revoked there."`
	CAFile string `name:"ca-file" type:"existingfile" placeholder:"FILE" help:"Certificate authorities to trust besides the system's."`
}

// Run revokes at the gateway first, then forgets.
func (c *logoutCommand) Run(ctx context.Context, out *cli.Out, w *world) error {
	dir, err := c.dir(w)
	if err != nil {
		return err
	}
	id, err := runner.LoadIdentity(dir)
	if err != nil {
		return err
	}
	err = local.Dial(dir).Logout(ctx, c.Force)
	if errors.Is(err, local.ErrNotRunning) {
		var client *http.Client
		if client, err = toGateway(c.CAFile); err != nil {
			return err
		}
		err = c.withKeyring(ctx, w, func(ring keyring.Keyring) error {
			return runner.Logout(ctx, runner.PairConfig{Gateway: id.Gateway, Dir: dir, Version: programVersion(), Credentials: ring, Client: client}, c.Force)
		})
	}
	if err != nil {
		return err
	}
	return out.Print(map[string]any{"runnerId": id.RunnerID, "loggedOut": true}, func(o io.Writer) {
		fmt.Fprintf(o, "%s is no longer a runner of %s\n", id.RunnerID, id.Subject)
	})
}
