// Package process runs one child process for one step. It promises that nothing user-supplied stands on a command line
// unless the caller puts it there, that standard input is written and closed, that output is read in bounded memory, and that
// when Run returns, the child and everything it started is gone, whatever they did about it (faults.md section 12, UD-33 to
// UD-36, UD-40).
//
//	started --exit--------------------> group killed --> pipes drained, at most 2 s --> reaped, marked processes killed
//	   | ctx ends, or no output for Stall
//	   +--TERM to the group--> 5 s --> KILL to the group --^
//
// Decisions: on Linux the group is killed before its leader is reaped, so that its number cannot have been given to another
// process (K11), and descendants that left the group are found by a mark in their environment (K03). Parent-death signals are
// not used, because they fire when a thread of ours ends (K12).
package process

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"runnerd/internal/fault"
	"runnerd/internal/wire"
)

// drain is how long a pipe that a grandchild keeps open may delay the end of a step (UD-34).
const drain = 2 * time.Second

// markName is the environment variable that marks a step's processes.
const markName = "RUNNERD_STEP_MARK"

// Causes of an end that came from us.
var (
	ErrStalled = errors.New("no output for too long")
	ErrSpawn   = errors.New("start the program")
)

// A Spec says what to run.
type Spec struct {
	Path  string
	Args  []string
	Env   []string // the whole environment: see Env
	Dir   string
	Stdin []byte // written, then closed
	// Line is called with each line of standard output, without its end, from one goroutine. The slice is reused.
	Line func(line []byte)
	// MaxLine cuts longer lines, in bytes; 0 means 4 MiB.
	MaxLine int
	// Stall ends a child that wrote nothing for so long; 0 means never.
	Stall time.Duration
}

// An End is how the child ended.
type End struct {
	Code     int    // -1 when a signal ended it
	Signal   string // name of that signal
	Stdout   string // the last 8 KiB (UD-49)
	Stderr   string
	Bytes    int64 // of standard output
	Cut      int64 // bytes of lines over MaxLine that were dropped
	Duration time.Duration
}

// Run starts the child and waits for its end. The error is nil when the child ended by itself, whatever its code; it wraps
// ErrSpawn when nothing was started; otherwise it is the cause for which the child was ended: ErrStalled, or ctx's.
func Run(parent context.Context, spec Spec) (End, error) {
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	out, errs := newLines(spec.MaxLine, spec.Line), &tail{}
	if spec.Stall > 0 {
		watch := time.AfterFunc(spec.Stall, func() { stop(ErrStalled) })
		defer watch.Stop()
		out.seen = func() { watch.Reset(spec.Stall) }
		errs.seen = out.seen
	}
	mark := rand.Text()
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env = append(slices.Clone(spec.Env), markName+"="+mark)
	cmd.Dir = spec.Dir
	group := newGroup(cmd)
	begin := time.Now()
	pipes, err := open(cmd, group, spec.Stdin, out, errs)
	if err != nil {
		return End{Code: -1}, fmt.Errorf("%w: %w", ErrSpawn, err)
	}
	fault.Point("R07")
	ended := make(chan struct{})
	go func() { group.awaitExit(); close(ended) }()
	cause := await(ctx, group, ended)
	group.kill()
	sweep(mark)
	pipes.drain()
	_ = cmd.Wait() // its exit code is in ProcessState
	group.close()
	out.flush()
	return End{
		Code: cmd.ProcessState.ExitCode(), Signal: signalName(cmd.ProcessState), Duration: time.Since(begin),
		Stdout: out.tail.String(), Stderr: errs.String(), Bytes: out.total, Cut: out.cut,
	}, cause
}

// await returns when the child has ended: nil when it did so by itself, else why we ended it.
func await(ctx context.Context, g *group, ended <-chan struct{}) error {
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	g.terminate()
	select {
	case <-ended:
	case <-time.After(wire.KillAfter):
		g.kill()
		<-ended
	}
	return context.Cause(ctx)
}
