package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"runnerd/internal/cli"
)

type grammar struct {
	Greet      greet          `cmd:"" help:"Say hello."`
	Fail       fail           `cmd:"" help:"Go wrong."`
	Completion cli.Completion `cmd:"" help:"Print a completion script."`
}

type greet struct {
	Name string   `arg:"" help:"Whom."`
	From string   `default:"us" help:"Who says it."`
	Tags []string `help:"Any number."`
}

func (g *greet) Run(out *cli.Out) error {
	out.Note("about to greet")
	return out.Print(map[string]any{"name": g.Name, "from": g.From, "tags": g.Tags}, func(w io.Writer) {
		fmt.Fprintf(w, "hello %s from %s\n", g.Name, g.From)
	})
}

type fail struct {
	Usage bool
	Wait  bool
}

func (f *fail) Run(ctx context.Context) error {
	if f.Wait {
		return context.Cause(ctx)
	}
	if f.Usage {
		return cli.Usagef("listen: must not be empty")
	}
	return errors.New("the disk is full")
}

type answer struct {
	Code     int
	Out, Err string
}

func run(ctx context.Context, env map[string]string, args ...string) answer {
	var out, errs bytes.Buffer
	app := cli.App{Name: "demo", About: "A demo.", Env: "DEMO_", Grammar: &grammar{}}
	code := app.Run(ctx, args, func(k string) string { return env[k] }, &out, &errs)
	return answer{code, out.String(), errs.String()}
}

func TestAnswersAndExitCodes(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for name, c := range map[string]struct {
		ctx  context.Context
		env  map[string]string
		args []string
		want answer
	}{
		"text":                       {args: []string{"greet", "ada"}, want: answer{0, "about to greet\nhello ada from us\n", ""}},
		"flags after the argument":   {args: []string{"greet", "ada", "--from", "me"}, want: answer{0, "about to greet\nhello ada from me\n", ""}},
		"environment under the flag": {env: map[string]string{"DEMO_FROM": "env"}, args: []string{"greet", "ada"}, want: answer{0, "about to greet\nhello ada from env\n", ""}},
		"flag over the environment":  {env: map[string]string{"DEMO_FROM": "env"}, args: []string{"greet", "ada", "--from=me"}, want: answer{0, "about to greet\nhello ada from me\n", ""}},
		"json keeps stdout clean":    {args: []string{"greet", "ada", "--json", "--tags", "a,b"}, want: answer{0, `{"from":"us","name":"ada","tags":["a","b"]}` + "\n", "about to greet\n"}},
		"failure":                    {args: []string{"fail"}, want: answer{1, "", "demo: the disk is full\n"}},
		"the caller's mistake":       {args: []string{"fail", "--usage"}, want: answer{2, "", "demo: listen: must not be empty\n"}},
		"unknown command":            {args: []string{"nope"}, want: answer{2, "", "demo: unexpected argument nope\n"}},
		"unknown flag":               {args: []string{"greet", "ada", "--nope"}, want: answer{2, "", "demo: unknown flag --nope\n"}},
		"missing argument":           {args: []string{"greet"}, want: answer{2, "", "demo: expected \"<name>\"\n"}},
		"stopped by a signal":        {ctx: stopped, args: []string{"fail", "--wait"}, want: answer{130, "", "demo: interrupted\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := c.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			if diff := cmp.Diff(c.want, run(ctx, c.env, c.args...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestHelpNamesEveryCommand(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}} {
		got := run(t.Context(), nil, args...)
		if got.Code != 0 || !strings.Contains(got.Out, "greet") || !strings.Contains(got.Out, "completion") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

func TestCompletionKnowsCommandsAndFlags(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		got := run(t.Context(), nil, "completion", shell)
		for _, word := range []string{"greet", "--from", "--json"} {
			if got.Code != 0 || !strings.Contains(got.Out, word) {
				t.Errorf("%s does not know %s: %+v", shell, word, got)
			}
		}
	}
}

func TestBashCompletesWithTheScript(t *testing.T) {
	script := run(t.Context(), nil, "completion", "bash").Out
	cmd := exec.Command("bash", "-c", script+`COMP_WORDS=(demo greet --f); COMP_CWORD=2; _demo; echo "${COMPREPLY[@]}"`)
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "--from\n" {
		t.Errorf("completed to %q (%v), want --from", out, err)
	}
}
