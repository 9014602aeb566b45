// Package vendorcli is what driving any vendor's command line has in common: finding the program, a child environment that
// holds no key but its own provider's, the prompt on standard input, output read line by line amid noise, and each kind of
// end told apart (UD-40 to UD-50, UD-62). It promises that an end it does not understand is a failure.
package vendorcli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"time"

	"runnerd/internal/redact"
	"runnerd/internal/wire"
	"runnerd/runner/process"
	"runnerd/runner/provider"
	"runnerd/runner/provider/detect"
	"runnerd/runner/provider/failure"
)

// A Config is how the owner set a program up.
type Config struct {
	Backend  string // claude-cli, codex-cli
	Program  string // the name to look for
	Path     string // where it is; empty: look for it
	Environ  []string
	BaseURL  string // another address of the vendor's API, as a company's gateway
	Failures *failure.Table
	Stall    time.Duration // silence that counts as a stall
	// Key gives the API key that the owner stored for this provider. Without one the program uses its own login.
	Key func(context.Context) (redact.Secret, error)
}

// A Call is one run of the program.
type Call struct {
	Args  []string
	Env   map[string]string
	Stdin string
	Dir   string
	// Line is given each line that is a JSON object; what is not is noise, and kept with the end (UD-52).
	Line func(doc json.RawMessage)
}

// Run runs the program. With a nil error it ended by itself; what it said decides whether that is a success.
func (c Config) Run(ctx context.Context, call Call) (process.End, *wire.StepError) {
	path, err := c.find(ctx)
	if err != nil {
		return process.End{}, &wire.StepError{Code: wire.CodeCLINotFound, Message: fmt.Sprintf("%s is not installed: %v", c.Program, err)}
	}
	end, err := process.Run(ctx, process.Spec{
		Path: path, Args: call.Args, Env: process.Env(c.Environ, call.Env), Dir: call.Dir,
		Stdin: []byte(call.Stdin), Stall: c.Stall,
		Line: func(line []byte) {
			if len(line) > 0 && line[0] == '{' && json.Valid(line) {
				call.Line(line)
			}
		},
	})
	switch {
	case err == nil:
		return end, nil
	case errors.Is(err, process.ErrStalled):
		return end, &wire.StepError{Code: wire.CodeCLIStalled, Message: fmt.Sprintf("%s printed nothing for %v", c.Program, c.Stall)}
	case errors.Is(err, process.ErrSpawn) && errors.Is(err, fs.ErrNotExist):
		return end, &wire.StepError{Code: wire.CodeCLINotFound, Message: err.Error()}
	case errors.Is(err, process.ErrSpawn):
		return end, &wire.StepError{Code: wire.CodeCLISpawnFailed, Message: err.Error()}
	}
	return end, provider.Ended(ctx).Error
}

// Login gives the environment and the auth class of a run: the stored key under the program's variable name, or nothing.
func (c Config) Login(ctx context.Context, name string, env map[string]string) (map[string]string, string, *wire.StepError) {
	env = maps.Clone(env)
	key, err := c.Key(ctx)
	if err != nil {
		return nil, "", &wire.StepError{Code: wire.CodeCredentialLocked, Message: "the stored key cannot be read: " + err.Error(), Retriable: true}
	}
	if key.IsZero() {
		return env, wire.AuthSubscription, nil
	}
	env[name] = key.Reveal()
	return env, wire.AuthAPIKey, nil
}

// Fail makes the output of a program that ended without an answer.
func (c Config) Fail(end process.End, said string) wire.Output {
	return wire.Output{Exit: Exit(end), Error: c.Failures.Classify(c.Backend, said, end.Stderr, end.Stdout)}
}

// Exit is an end as results carry it.
func Exit(end process.End) *wire.Exit { return &wire.Exit{Code: end.Code, Signal: end.Signal} }

func (c Config) find(ctx context.Context) (string, error) {
	return detect.Finder{Environ: c.Environ}.Find(ctx, c.Program, c.Path)
}

// A Probe asks the program itself: its version, and whether it is logged in.
type Probe struct {
	Version []string // arguments that print the version
	Status  []string // arguments whose exit code 0 means logged in
	Login   string   // the command that the owner runs to log in
	Install string   // how the program is installed
}

// Probe looks whether the program is there and can be used. Each question has its own deadline (UD-42).
func (c Config) Probe(ctx context.Context, p Probe) provider.Status {
	path, err := c.find(ctx)
	if err != nil {
		return provider.Status{State: provider.NotInstalled, Remedy: p.Install}
	}
	version, err := c.ask(ctx, path, p.Version, nil)
	if err != nil || version.Code != 0 {
		return provider.Status{State: provider.Broken, Path: path, Remedy: fmt.Sprintf("run `%s --version` and see what is wrong: %s", path, lastLine(version.Stderr))}
	}
	s := provider.Status{Path: path, Version: lastLine(version.Stdout), AuthClass: wire.AuthSubscription}
	key, err := c.Key(ctx)
	switch {
	case err != nil:
		s.State, s.Remedy = provider.NeedsKey, "unlock the credential store: "+err.Error()
		return s
	case !key.IsZero():
		s.AuthClass, s.Ready, s.State = wire.AuthAPIKey, true, provider.Ready
		return s
	}
	login, err := c.ask(ctx, path, p.Status, nil)
	if err != nil || login.Code != 0 {
		s.State, s.Remedy = provider.NeedsLogin, "run `"+p.Login+"` on this computer"
		if errors.Is(err, context.DeadlineExceeded) {
			s.Remedy = "its login check does not answer: " + s.Remedy
		}
		return s
	}
	s.Ready, s.State = true, provider.Ready
	return s
}

func (c Config) ask(ctx context.Context, path string, args []string, env map[string]string) (process.End, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return process.Run(ctx, process.Spec{Path: path, Args: args, Env: process.Env(c.Environ, env)})
}
