package engine

import (
	"encoding/json"
	"slices"
	"time"
)

// A RunSnapshot is the document of GET /v1/runs/{runId} (wire 5.2).
type RunSnapshot struct {
	RunID         string                     `json:"runId"`
	WorkflowID    string                     `json:"workflowId"`
	Status        string                     `json:"status"`
	CurrentNodeID string                     `json:"currentNodeId,omitzero"`
	Owner         *Owner                     `json:"owner,omitzero"`
	StartedAt     *time.Time                 `json:"startedAt,omitzero"`
	CompletedAt   *time.Time                 `json:"completedAt,omitzero"`
	Variables     map[string]json.RawMessage `json:"variables"`
	NodeStates    map[string]NodeSnapshot    `json:"nodeStates"`
	Error         *SnapshotError             `json:"error,omitzero"`
	Tags          []string                   `json:"tags"`
	Metadata      json.RawMessage            `json:"metadata"`
	Configurable  json.RawMessage            `json:"configurable"`
	Metrics       *Metrics                   `json:"metrics,omitzero"`
	Agent         *agentRef                  `json:"agent,omitzero"`     // that acts, or acted last
	Interrupt     *Interrupt                 `json:"interrupt,omitzero"` // only with ShowInterrupt
	ForkedFrom    *ForkSnapshot              `json:"forkedFrom,omitzero"`
	Parent        *ParentRef                 `json:"parent,omitzero"` // of a run that a node of another started
	EngineVersion string                     `json:"engineVersion"`
	LogVersion    int                        `json:"eventLogSchemaVersion"`
}

// A NodeSnapshot is where a node stands: status pending, running, suspended, paused, completed, failed, skipped or cancelled; and
// while it runs, what it waits for: queued, accepted, timer, retry or child.
type NodeSnapshot struct {
	Status      string         `json:"status"`
	Phase       string         `json:"phase,omitzero"`
	Attempts    int            `json:"attempts,omitzero"`
	StepID      string         `json:"stepId,omitzero"` // while its step is outstanding
	ChildRunID  string         `json:"childRunId,omitzero"`
	StartedAt   *time.Time     `json:"startedAt,omitzero"`
	CompletedAt *time.Time     `json:"completedAt,omitzero"`
	Error       *SnapshotError `json:"error,omitzero"`
}

// A ParentRef names the node that started a run.
type ParentRef struct {
	RunID  string `json:"runId"`
	NodeID string `json:"nodeId"`
}

// A ForkSnapshot names the run that a run was forked from.
type ForkSnapshot struct {
	RunID   string `json:"runId"`
	FromSeq int64  `json:"fromSeq"`
	Mode    string `json:"mode"`
}

// A SnapshotError is closed (wire 5.2).
type SnapshotError struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Details json.RawMessage `json:"details,omitzero"`
}

// Metrics are there once something is known.
type Metrics struct {
	Cost Cost `json:"openwopCost"`
}

// A Cost adds up what the run's model steps used; provider and model are those of the last.
type Cost struct {
	USD      float64 `json:"usd,omitzero"`
	Tokens   Tokens  `json:"tokens"`
	Model    string  `json:"model,omitzero"`
	Provider string  `json:"provider,omitzero"`
}

// Tokens are counted by the providers.
type Tokens struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

type cost struct {
	Cost
	known bool
}

func (c *cost) add(payload json.RawMessage) error {
	var u providerUsage
	if err := decode(payload, &u); err != nil {
		return err
	}
	c.known = true
	c.USD += u.CostEstimateUSD
	c.Tokens.Input += u.InputTokens
	c.Tokens.Output += u.OutputTokens
	c.Provider, c.Model = u.Provider, u.Model
	return nil
}

// A SnapshotOption asks for more than everybody may see.
type SnapshotOption uint8

// ShowInterrupt adds what the run waits for, for a caller who may answer it (wire 7.4).
const ShowInterrupt SnapshotOption = iota + 1

// Snapshot is the document of a run's state. Sensitive variables are masked, and so is the runner that the run asked for; it
// is the same before and after Reveal.
func Snapshot(wf *Workflow, s *State, options ...SnapshotOption) RunSnapshot {
	doc := RunSnapshot{
		RunID: s.runID, WorkflowID: wf.ID, Status: Status(s), CompletedAt: when(s.ended), EngineVersion: EngineVersion, LogVersion: LogVersion,
		Variables: map[string]json.RawMessage{}, NodeStates: map[string]NodeSnapshot{}, Tags: []string{},
		Metadata: json.RawMessage("{}"), Configurable: json.RawMessage("{}"),
	}
	if s.begun == nil {
		return doc
	}
	s.describe(&doc)
	for _, i := range wf.order {
		n, id := &s.nodes[i], wf.nodes[i].id
		doc.NodeStates[id] = s.node(i)
		if n.status == nodeActive && doc.CurrentNodeID == "" && !s.Terminal() {
			doc.CurrentNodeID = id
		}
	}
	if i := s.waiting(); i >= 0 && s.paused == nil {
		doc.CurrentNodeID = wf.nodes[i].id
		if slices.Contains(options, ShowInterrupt) {
			in := s.interruptOf(i, s.nodes[i].gate)
			doc.Interrupt = &in
		}
	}
	if s.status == StatusFailed {
		doc.Error = errorOf(s.end)
	}
	doc.Agent = s.agent()
	if s.cost.known {
		doc.Metrics = &Metrics{s.cost.Cost}
	}
	return doc
}

// describe copies what the run was started with.
func (s *State) describe(doc *RunSnapshot) {
	b := s.begun
	doc.Owner, doc.StartedAt = b.Owner, when(b.at)
	for name := range s.variables() {
		v, _ := s.variable(name)
		if v.variable != "" {
			v.raw = json.RawMessage(masked)
		}
		doc.Variables[name] = v.raw
	}
	if s.fork != nil {
		doc.ForkedFrom = &ForkSnapshot{s.fork.RunID, s.fork.FromSeq, s.fork.Mode}
	}
	if b.Parent != nil {
		doc.Parent = &ParentRef{b.Parent.RunID, b.Parent.NodeID}
	}
	if b.Tags != nil {
		doc.Tags = b.Tags
	}
	if len(b.Metadata) > 0 {
		doc.Metadata = b.Metadata
	}
	if len(b.Configurable) > 0 {
		doc.Configurable = b.Configurable
	}
	if b.Masked != nil && b.Masked.Runner { // the log does not have it, and the document is a fold of the log
		all, _ := members(doc.Configurable)
		all[keyRunner] = json.RawMessage(masked)
		doc.Configurable = mustEncode(all)
	}
}

// agent is that of a node that is active, else of the one that began last.
func (s *State) agent() *agentRef {
	var last *agentRef
	var began time.Time
	for _, i := range s.wf.order {
		switch n, ref := &s.nodes[i], s.wf.nodes[i].agent; {
		case ref == nil || n.started.IsZero():
		case n.status == nodeActive && !s.Terminal():
			return ref
		case !n.started.Before(began):
			last, began = ref, n.started
		}
	}
	return last
}

func (s *State) node(i int) NodeSnapshot {
	n := &s.nodes[i]
	doc := NodeSnapshot{Status: n.status.String(), Phase: n.phase.String(), Attempts: n.attempts, StartedAt: when(n.started), CompletedAt: when(n.ended)}
	doc.ChildRunID = n.child
	switch n.phase {
	case phaseQueued, phaseAccepted:
		doc.StepID = s.stepID(i)
	case phaseCut:
		doc.Status, doc.Phase = "paused", ""
	case phaseSuspended: // the protocol's word for it (wire 5.2)
		doc.Status, doc.Phase = "suspended", ""
	}
	if n.status == nodeFailedStatus {
		doc.Error = errorOf(n.payload)
	}
	return doc
}

// errorOf is the error of a node.failed or run.failed.
func errorOf(payload json.RawMessage) *SnapshotError {
	var p struct {
		Error *SnapshotError `json:"error"`
	}
	if decode(payload, &p) != nil || p.Error == nil {
		return nil
	}
	return p.Error
}

func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
