package engine

import (
	"encoding/json"
	"time"

	"runnerd/internal/fence"
)

// Env is what a decision needs from outside, so that Decide stays a function: the time that events are stamped with, and
// the fencer whose randomness marks untrusted blocks.
type Env struct {
	Now   time.Time // wall time
	Clock time.Time // store time, which the run's duration is counted in; zero: Now
	Fence *fence.Fencer
	Caps  Caps

	Provides []string               // runtime capabilities (wire 11.2)
	Agents   func(id string) *Agent // the installed agents that the run may use; nil: none

	TestTypes bool // core.conformance.* and conformance.* are there
	Mock      bool // configurable mockProvider answers
	Children  bool // the caller carries out StartChild and its like: core.subWorkflow is there
}

// Caps are the host's ceilings (wire 2.1 limits). Zero means the default of package engine.
type Caps struct {
	NodeExecutions int           // node starts of one run
	RunDuration    time.Duration // without waiting in a queue or for a person
	AgentTurns     int           // model steps of one agent's node
	AgentTokens    int           // of all of them together
}

// An Input is one thing that happened to a run. The types below are all there are.
type Input interface{ input() }

// Created starts the run. It is the first input and comes once.
type Created struct {
	RunID        string
	Owner        Owner
	Inputs       json.RawMessage // object
	Configurable json.RawMessage // object
	Tags         []string
	Metadata     json.RawMessage // object, the reserved member with the subject included

	// What StartChild sets beside these, and nobody else.
	Parent    *Parent
	Untrusted bool     // the inputs hold what came from a step or from outside
	Sensitive []string // inputs that no event and no snapshot may show
}

// Owner is wire 3.3's closed object.
type Owner struct {
	Tenant    string `json:"tenant"`
	Workspace string `json:"workspace,omitzero"`
	Principal string `json:"principal,omitzero"`
}

// StepEnded brings what became of a step: the output that a runner returned (which may describe a failure), or the host's
// own verdict that no runner could take it or the one that took it was lost.
type StepEnded struct {
	StepID  string
	Output  json.RawMessage // nil when Lost
	Lost    *Lost
	Runner  string // for the debug mode's vendor events only; never in a payload of the protocol's own types
	UsedFor UsedFor
}

// UsedFor is what the offer settled where the workflow left it open.
type UsedFor struct{ Provider, Model string }

// Lost is runner_unavailable: Outcome is one of the two below (faults.md I8); anything else counts as unknown.
type Lost struct {
	Outcome string
	Message string
}

// What is known of a step whose runner is gone.
const (
	OutcomeNotStarted = "not_started" // certainly nobody began it
	OutcomeUnknown    = "unknown"     // it may have been done
)

// Progress is a piece of a running step's output. N counts from 1 per step; a repeat is dropped.
type Progress struct {
	StepID string
	N      int64
	Delta  string
}

// StepPhase tells that a step was accepted by a runner, or went back to the queue: the time until acceptance does not count
// against the run's duration.
type StepPhase struct {
	StepID   string
	Accepted bool
}

// TimerFired brings a timer that Effects set.
type TimerFired struct{ ID string }

// Cancel ends the run at once.
type Cancel struct {
	Reason string
	By     string // opaque principal
}

func (Created) input()    {}
func (StepEnded) input()  {}
func (Progress) input()   {}
func (StepPhase) input()  {}
func (TimerFired) input() {}
func (Cancel) input()     {}

// A Decision is what an input leads to. Events are complete documents, dense after the state's last sequence; they may be
// none. Effects are carried out after the events are durable, in the same transaction where they are rows.
type Decision struct {
	Events  []Event
	Effects []Effect
	Next    *State // the state after Events, for a caller that keeps states
}

// An Effect is something to do. The types below are all there are.
type Effect interface{ effect() }

// Dispatch asks for a step. Inputs are final: fenced, bound and stored once.
type Dispatch struct {
	StepID   string // nodeId:call:try
	NodeID   string
	Attempt  int    // at this step, from 1; above 1 the step exists, ended not_started, and goes back into the queue with its stored inputs
	Kind     string // wire.KindModel or wire.KindTool
	Provider string // may be empty: taken from the runner's inventory when the step is offered
	Model    string
	Tool     string
	RunnerID string // configurable["runner.id"], may be empty
	Inputs   json.RawMessage
	Wait     time.Duration // configurable["runner.waitMs"], else wire.QueueWait
	Timeout  time.Duration // configurable["runner.timeoutMs"], else wire.StepTimeout
}

// Stop abandons a step that is not terminal.
type Stop struct{ StepID, Reason string }

// SetTimer asks for a TimerFired after a while. The same id replaces the timer.
type SetTimer struct {
	ID    string
	After time.Duration
}

// ClearTimer takes a timer back.
type ClearTimer struct{ ID string }

func (Dispatch) effect()   {}
func (Stop) effect()       {}
func (SetTimer) effect()   {}
func (ClearTimer) effect() {}
