// Package provider says what a backend is: the code on the laptop that turns one model step into one call of a vendor's
// command line, an endpoint or the built-in echo, with the logins that are there. Workflows name a provider; which backend
// serves it is chosen here (design, section 6).
package provider

import (
	"context"
	"errors"

	"runnerd/internal/wire"
)

// A Backend runs model steps. Run blocks until the step has ended: it returns an output in every case, one whose Error is
// set when the step failed, and by then every process that it started is gone. When ctx ends it stops, within
// wire.KillAfter, and says cancelled or step_timeout by ctx's cause. Run may be called from many goroutines.
type Backend interface {
	Run(ctx context.Context, step Step, progress func(delta string)) wire.Output
	// Probe looks at what is there now: installed, logged in, which models. It has its own deadlines and never blocks for
	// longer than ctx.
	Probe(ctx context.Context) Status
}

// A Step is a model step as a backend sees it.
type Step struct {
	RunID  string
	StepID string
	Model  string
	Inputs wire.ModelInputs
	Dir    string // an empty private folder, removed after the step
}

// A Status is what a probe found.
type Status struct {
	Ready     bool
	State     string // "ready", or what is missing in one or two words: not_installed, needs_login, unreachable, too_old, disabled
	Remedy    string // the exact command or action that makes it ready
	Version   string
	Path      string // where it was found, for the owner's eyes only; never sent
	Models    []string
	AuthClass string // wire.Auth...
}

// The states of a Status.
const (
	Ready        = "ready"
	Disabled     = "disabled"
	NotInstalled = "not_installed"
	NeedsLogin   = "needs_login"
	NeedsKey     = "needs_key"
	Unreachable  = "unreachable"
	TooOld       = "too_old"
	Broken       = "broken"
)

// The causes of the end of a step's context, as the runner sets them.
var (
	ErrCancelled = errors.New("the step was cancelled")
	ErrTimeout   = errors.New("the step took longer than it may")
)

// Ended makes the output of a step whose context ended.
func Ended(ctx context.Context) wire.Output {
	if errors.Is(context.Cause(ctx), ErrTimeout) {
		return wire.Failed(wire.CodeStepTimeout, "%v", ErrTimeout)
	}
	return wire.Failed(wire.CodeCancelled, "%v", ErrCancelled)
}
