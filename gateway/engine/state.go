package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"
)

// The statuses of a run that this package gives (wire 5.2).
const (
	StatusPending   = "pending"
	StatusRunning   = "running"
	StatusPaused    = "paused"
	StatusCompleted = "completed"
	StatusFailed    = "failed"
	StatusCancelled = "cancelled"

	StatusWaitingApproval = "waiting-approval"
	StatusWaitingInput    = "waiting-input"
	StatusWaitingExternal = "waiting-external"
)

// A State is the fold of a run's log: everything that Decide looks at. It is a value of one run of one workflow; Clone it
// before two goroutines use it.
type State struct {
	wf        *Workflow
	runID     string
	seq       int64 // of the last event; -1 before the first
	status    string
	begun     *begun             // nil before run.started
	changed   map[string]changed // variables that nodes changed; replaced, never changed
	children  int                // runs that it may still start
	fork      *ForkedFrom
	recording *Recording // of a replay, once it is attached
	nodes     []nodeState
	starts    int // node.started so far
	active    int // nodes in status nodeActive
	copied    int // bytes of outputs that came from no runner
	clock     runClock
	paused    *pausing

	draining     *pausing // until what is active has ended
	ended        time.Time
	end          json.RawMessage // payload of the terminal event
	endUntrusted bool
	cost         cost
}

// begun is what run.started said. It is shared by clones and never changes, but for what Reveal adds.
type begun struct {
	runStarted
	at        time.Time
	untrusted bool
	inputs    map[string]json.RawMessage
	options   options
	hidden    map[string]bool // inputs that are masked whatever the definition says
	revealed  bool
}

type nodeStatus uint8

const (
	nodePending nodeStatus = iota
	nodeActive
	nodeCompletedStatus
	nodeFailedStatus
	nodeSkippedStatus
	nodeCancelledStatus
)

func (s nodeStatus) String() string {
	return [...]string{"pending", "running", "completed", "failed", "skipped", "cancelled"}[s]
}

// A phase says what an active node waits for.
type phase uint8

const (
	phaseNone      phase = iota
	phaseQueued          // its step, for a runner
	phaseAccepted        // its step, for a result
	phaseTimer           // its own timer
	phaseRetry           // its next attempt
	phaseSuspended       // a person, or a system outside: its interrupt
	phaseCut             // the run to be resumed: its attempt was cut by a pause
	phaseChild           // another run
)

func (p phase) String() string {
	return [...]string{"", "queued", "accepted", "timer", "retry", "suspended", "cut", "child"}[p]
}

type nodeState struct {
	status    nodeStatus
	phase     phase
	attempts  int
	call, try int // of its step (design, section 5)
	asked     int // how often that step was put into the queue
	untrusted bool
	started   time.Time // of the first attempt
	ended     time.Time
	payload   json.RawMessage // of the event that ended it, or of node.retried
	stream    stream
	gate      *gate  // its last interrupt; replaced, never changed
	asks      int    // interrupts so far
	retries   int    // node.retried so far
	loop      *loop  // of an agent's node; replaced, never changed
	child     string // the run that it started
}

// ErrStale means that the input is about something that is no longer outstanding: the caller ignores it.
var ErrStale = errors.New("the run no longer waits for this")

// ErrMasked means that the log holds less than the next decision needs: call Reveal first.
var ErrMasked = errors.New("the run's masked values were not revealed")

// NewState is the state of a run whose log is empty.
func NewState(wf *Workflow) *State {
	return &State{wf: wf, seq: -1, status: StatusPending, nodes: make([]nodeState, len(wf.nodes))}
}

// Fold gives the state after the events of a log.
func Fold(wf *Workflow, events iter.Seq2[Event, error]) (*State, error) {
	s := NewState(wf)
	for e, err := range events {
		if err == nil {
			err = s.Apply(e)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Clone gives a state that changes independently.
func (s *State) Clone() *State {
	c := *s
	c.nodes = append([]nodeState(nil), s.nodes...)
	return &c
}

// LastSequence is the sequence of the last event, -1 before the first.
func (s *State) LastSequence() int64 { return s.seq }

// Terminal reports whether the run has ended.
func (s *State) Terminal() bool {
	return s.status == StatusCompleted || s.status == StatusFailed || s.status == StatusCancelled
}

// Status is the run's status of wire 5.2. A run that waits for somebody says so whatever else goes on beside it: that is what
// somebody has to know.
func Status(s *State) string {
	if s.paused != nil && !s.Terminal() {
		return StatusPaused
	}
	if i := s.waiting(); i >= 0 {
		return s.nodes[i].gate.status()
	}
	return s.status
}

// Reveal gives back the values that the log holds masked: sensitive inputs, and the runner that the run asks for by name.
// Both are objects, as the client sent them with the run. Without anything masked it does nothing.
func (s *State) Reveal(inputs, configurable json.RawMessage) error {
	if s.begun == nil || s.begun.Masked == nil {
		return nil
	}
	b := *s.begun
	var err error
	if b.inputs, err = members(inputs); err != nil {
		return fmt.Errorf("reveal inputs: %w", err)
	}
	if b.options, err = readOptions(configurable); err != nil {
		return fmt.Errorf("reveal configurable: %w", err)
	}
	b.revealed = true
	s.begun = &b
	return nil
}

// Apply folds the next event into the state. It does not look at types that it does not know. An error means that the log is
// not one that this workflow's runs can have; the state is then of no use.
func (s *State) Apply(e Event) error {
	if err := s.apply(e); err != nil {
		return fmt.Errorf("event %d of run %s, %s: %w", e.Sequence, e.RunID, e.Type, err)
	}
	return nil
}

func (s *State) apply(e Event) error {
	switch {
	case e.Sequence != s.seq+1:
		return fmt.Errorf("sequence %d was expected", s.seq+1)
	case s.Terminal():
		return errors.New("the log has ended")
	case s.begun == nil && e.Type != TypeRunStarted:
		return errors.New("a log begins with run.started")
	case s.begun != nil && e.RunID != s.runID:
		return fmt.Errorf("the log is of run %s", s.runID)
	}
	s.seq = e.Sequence
	if err := s.fold(e); err != nil {
		return err
	}
	if s.fork != nil && e.Sequence == max(s.fork.FromSeq, 1)-1 {
		s.boundary()
	}
	if e.Clock != 0 {
		s.clock.toggle(e.Clock)
	}
	return nil
}

func members(doc json.RawMessage) (map[string]json.RawMessage, error) {
	if len(doc) == 0 {
		return nil, nil
	}
	var m map[string]json.RawMessage
	err := decode(doc, &m)
	return m, err
}
