package runner

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"time"

	"runnerd/internal/redact"
	"runnerd/internal/wire"
	"runnerd/runner/journal"
	"runnerd/runner/link"
	"runnerd/runner/policy"
)

// A Config is what a runner needs of its process.
type Config struct {
	Dir         string           // the data folder, for the owner alone
	Credentials link.Credentials // where the runner's own tokens are, and everything that output must not show
	Client      *http.Client     // to the gateway: egress.Configured with HTTP1
	Providers   Providers
	Mask        *redact.Set // shared with the logger; made if nil. What it knows already stays masked.
	Rules       policy.Rules
	MaxSteps    int    // steps at once; wire.DefaultMaxStep if 0
	Version     string // of the program
	Log         *slog.Logger
	Control     func(dir string) (net.Listener, error) // local.Listen; nil: no commands are taken
	Clock       Clock                                  // the system's if nil
	Journal     journal.Options                        // Owner is set by the runner
}

func (c *Config) complete() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New("runner: "+what+" must be set"))
		}
	}
	need(c.Dir != "", "Dir")
	need(c.Credentials != nil, "Credentials")
	need(c.Client != nil, "Client")
	need(c.Providers != nil, "Providers")
	need(c.Log != nil, "Log")
	if c.MaxSteps < 0 || c.MaxSteps > wire.MaxHeld/2 {
		errs = append(errs, errors.New("runner: MaxSteps must be between 1 and 512"))
	}
	if c.MaxSteps == 0 {
		c.MaxSteps = wire.DefaultMaxStep
	}
	if c.Mask == nil {
		c.Mask = &redact.Set{}
	}
	if c.Clock == nil {
		c.Clock = systemClock()
	}
	return errors.Join(errs...)
}

func (c *Config) temp() string { return filepath.Join(c.Dir, "tmp") }

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

const (
	headStart    = 100 * time.Millisecond // of the first look at the providers, before the first connection (UD-13 allows 1 s)
	probeEvery   = 15 * time.Minute       // while all is well
	probeSoon    = 2 * time.Minute        // while something is not
	lastWords    = 5 * time.Second        // of a stopping runner: for results and the last report
	boundedAgain = time.Hour              // after so long with short streams, a long one is tried again
	plainAgain   = time.Hour              // after so long a plain host is asked again whether it takes reports
	noticeSleep  = 10 * time.Second       // how often the clocks are compared, and by how much they may differ
)

// grace is how long a stopping runner waits for its steps, so that all is said within wire.Drain (UD-21).
const grace = wire.Drain - wire.KillAfter - lastWords
