// Package cli is how both programs read their command line and answer it: flag over environment over default, one clear line
// on stderr and a non-zero code when something is wrong, and with --json one JSON document a line on stdout and nothing else
// there. Commands are structs with flags as fields and a method Run.
//
// Exit codes: 0 done, 1 it failed, 2 the command line is wrong, 130 ended by Ctrl-C.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// The exit codes.
const (
	OK          = 0
	Failed      = 1
	Usage       = 2
	Interrupted = 130
)

// An App is one program's command line.
type App struct {
	Name    string
	About   string
	Version string
	Env     string // prefix of its environment names: GATEWAY_, RUNNERD_
	Grammar any    // pointer to a struct of commands
	Bind    []any  // what the commands' Run methods take besides context.Context and *Out
}

// ErrUsage marks an error as the caller's mistake: exit code 2.
var ErrUsage = errors.New("usage")

// An Out is where a command's answer goes.
type Out struct {
	io.Writer // stdout
	Err       io.Writer
	JSON      bool
}

// Print writes v as one line of JSON with --json, and calls text otherwise.
func (o *Out) Print(v any, text func(io.Writer)) error {
	if !o.JSON {
		text(o.Writer)
		return nil
	}
	enc := json.NewEncoder(o.Writer)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// Note tells a person what goes on; with --json it goes to stderr, so that stdout stays machine-readable.
func (o *Out) Note(format string, args ...any) {
	w := o.Writer
	if o.JSON {
		w = o.Err
	}
	_, _ = fmt.Fprintf(w, format+"\n", args...)
}

// globals are the flags that every command has.
type globals struct {
	JSON bool `name:"json" help:"Answer with one JSON document a line on stdout; logs go to stderr."`
}

type exit int

// Run parses args and runs the selected command. It returns the exit code.
func (a App) Run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) (code int) {
	var g globals
	defer func() { // kong ends help by its Exit function
		if r := recover(); r != nil {
			e, ok := r.(exit)
			if !ok {
				panic(r)
			}
			code = int(e)
		}
	}()
	out := &Out{Writer: stdout, Err: stderr}
	parser, err := kong.New(a.Grammar,
		kong.Name(a.Name), kong.Description(a.About), kong.Writers(stdout, stderr),
		kong.Exit(func(c int) { panic(exit(c)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Resolvers(environment(a.Env, getenv)),
		kong.Embed(&g), kong.Vars{"version": a.Version},
		kong.Bind(append([]any{out}, a.Bind...)...), kong.BindTo(ctx, (*context.Context)(nil)),
	)
	if err != nil {
		panic(err) // a mistake in our own grammar
	}
	if err := kong.Bind(parser.Model).Apply(parser); err != nil {
		panic(err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", a.Name, err)
		return Usage
	}
	out.JSON = g.JSON
	err = kctx.Run()
	switch {
	case err == nil:
		return OK
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		_, _ = fmt.Fprintf(stderr, "%s: interrupted\n", a.Name)
		return Interrupted
	}
	_, _ = fmt.Fprintf(stderr, "%s: %s\n", a.Name, strings.TrimSuffix(err.Error(), "\n"))
	if errors.Is(err, ErrUsage) {
		return Usage
	}
	return Failed
}

// Usagef makes an error that is the caller's mistake.
func Usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

type usageError struct{ text string }

func (e *usageError) Error() string        { return e.text }
func (e *usageError) Is(target error) bool { return target == ErrUsage }

// environment gives a flag the value of PREFIX_FLAG_NAME when the command line has none.
func environment(prefix string, getenv func(string) string) kong.Resolver {
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if flag.Name == "help" || flag.Name == "json" {
			return nil, nil
		}
		if v := getenv(prefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))); v != "" {
			return v, nil
		}
		return nil, nil
	})
}
