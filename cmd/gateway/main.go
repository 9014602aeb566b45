// Command gateway is the host: it keeps runs, hands their steps to people's own runners, and serves the phone page.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"runnerd/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends us at once
	w := &world{getenv: os.Getenv, environ: os.Environ(), stderr: os.Stderr}
	os.Exit(run(ctx, os.Args[1:], w, os.Stdout))
}

// version is set by the linker for a release.
var version = ""

type grammar struct {
	Dev        devCommand       `cmd:"" help:"Start everything on this machine: gateway, runner, page."`
	Serve      serveCommand     `cmd:"" help:"Serve runners and people."`
	User       userCommands     `cmd:"" help:"People who may sign in."`
	Key        keyCommands      `cmd:"" help:"API keys for programs."`
	Runner     runnerCommands   `cmd:"" help:"People's paired machines."`
	Workflow   workflowCommands `cmd:"" help:"Workflow definitions."`
	Status     statusCommand    `cmd:"" help:"Say what this gateway is and holds."`
	Version    versionCommand   `cmd:"" help:"Print the version."`
	Completion cli.Completion   `cmd:"" help:"Print a shell completion script."`
}

// world is what a command needs of the process.
type world struct {
	getenv  func(string) string
	environ []string
	stderr  io.Writer
}

// run is main without the process, so that tests can call it. It returns the exit code.
func run(ctx context.Context, args []string, w *world, stdout io.Writer) int {
	return cli.App{
		Name: "gateway", About: "A host for workflows whose steps run on people's own machines.", Version: programVersion(),
		Env: "GATEWAY_", Grammar: &grammar{}, Bind: []any{w},
	}.Run(ctx, args, w.getenv, stdout, w.stderr)
}

type versionCommand struct{}

func (versionCommand) Run(out *cli.Out) error {
	return out.Print(map[string]string{"version": programVersion()}, func(w io.Writer) { fmt.Fprintln(w, "gateway", programVersion()) })
}

func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "0.0.0-dev"
}
