// Command runnerd is the daemon on a person's machine: it takes steps from a gateway and runs them with the logins that are
// there.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"runnerd/internal/cli"
	"runnerd/keyring"
	"runnerd/runner"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends us at once
	w := &world{getenv: os.Getenv, environ: os.Environ(), stdin: os.Stdin, stderr: os.Stderr}
	os.Exit(run(ctx, os.Args[1:], w, os.Stdout))
}

// version is set by the linker for a release.
var version = ""

type grammar struct {
	Pair       pairCommand        `cmd:"" help:"Make this machine a runner of yours at a gateway."`
	Run        runCommand         `cmd:"" help:"Stay connected and run steps, in the foreground."`
	Status     statusCommand      `cmd:"" help:"Say how things stand."`
	Pause      pauseCommand       `cmd:"" help:"Take no new steps until resumed."`
	Resume     resumeCommand      `cmd:"" help:"Take steps again."`
	Drain      drainCommand       `cmd:"" help:"Finish the steps in hand and take no more."`
	Logout     logoutCommand      `cmd:"" help:"Give up the pairing, at the gateway and here."`
	Provider   providerCommands   `cmd:"" help:"What answers on this machine."`
	Credential credentialCommands `cmd:"" help:"Keys of providers."`
	Version    versionCommand     `cmd:"" help:"Print the version."`
	Completion cli.Completion     `cmd:"" help:"Print a shell completion script."`
}

// world is what a command needs of the process.
type world struct {
	getenv  func(string) string
	environ []string
	stdin   io.Reader
	stderr  io.Writer
}

// run is main without the process, so that tests can call it. It returns the exit code.
func run(ctx context.Context, args []string, w *world, stdout io.Writer) int {
	return cli.App{
		Name: "runnerd", About: "Runs steps of your workflows on this machine, with the logins that are on it.", Version: programVersion(),
		Env: "RUNNERD_", Grammar: &grammar{}, Bind: []any{w},
	}.Run(ctx, args, w.getenv, stdout, w.stderr)
}

type versionCommand struct{}

func (versionCommand) Run(out *cli.Out) error {
	return out.Print(map[string]string{"version": programVersion()}, func(w io.Writer) { fmt.Fprintln(w, "runnerd", programVersion()) })
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

// folder is the flag of commands that need the runner's data.
type folder struct {
	Data string `placeholder:"DIR" help:"Folder that holds everything the runner keeps."`
}

func (f folder) dir(w *world) (string, error) {
	return cli.Folder(f.Data, w.getenv, "runnerd")
}

// installed are the flags of commands that need the credential store too.
type installed struct {
	folder
	CredentialStore string `enum:"system,file,memory," default:"" help:"Where credentials are kept: system (the keychain), file (encrypted) or memory. What was chosen at pairing is remembered."`
}

// store is the kind of credential store: as given, as remembered, or the system's.
func (i installed) store(dir string) (string, error) {
	if i.CredentialStore != "" {
		return i.CredentialStore, nil
	}
	id, err := runner.LoadIdentity(dir)
	if errors.Is(err, runner.ErrNotPaired) {
		return storeSystem, nil
	}
	return id.Store, err
}

// withKeyring opens the credential store, calls do, and closes it.
func (i installed) withKeyring(ctx context.Context, w *world, do func(keyring.Keyring) error) error {
	dir, err := i.dir(w)
	if err != nil {
		return err
	}
	kind, err := i.store(dir)
	if err != nil {
		return err
	}
	ring, closeRing, err := openKeyring(ctx, dir, kind, w)
	if err != nil {
		return err
	}
	return errors.Join(do(ring), closeRing())
}
