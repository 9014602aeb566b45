package engine

import (
	"encoding/json"
	"time"

	"runnerd/internal/wire"
)

// The types of event that the engine writes (wire section 12).
const (
	TypeRunStarted      = "run.started"
	TypeRunCompleted    = "run.completed"
	TypeRunFailed       = "run.failed"
	TypeRunCancelled    = "run.cancelled"
	TypeRunPaused       = "run.paused"
	TypeRunResumed      = "run.resumed"
	TypeNodeStarted     = "node.started"
	TypeNodeCompleted   = "node.completed"
	TypeNodeFailed      = "node.failed"
	TypeNodeSkipped     = "node.skipped"
	TypeNodeCancelled   = "node.cancelled"
	TypeNodeRetried     = "node.retried"
	TypeNodeSuspended   = "node.suspended"
	TypeNodeResumed     = "node.resumed"
	TypeOutputChunk     = "output.chunk"
	TypeProviderUsage   = "provider.usage"
	TypeCapBreached     = "cap.breached"
	TypeNodeDispatched  = "node.dispatched"
	TypeVariableChanged = "variable.changed"
	TypeReplayDiverged  = "replay.diverged"

	TypeAgentStarted   = "agent.invocation.started"
	TypeAgentCompleted = "agent.invocation.completed"
	TypeAgentReasoned  = "agent.reasoned"
	TypeAgentDecided   = "agent.decided"
	TypeAgentHandoff   = "agent.handoff"
	TypeToolCalled     = "agent.toolCalled"
	TypeToolReturned   = "agent.toolReturned"

	TypeInterruptRequested    = "interrupt.requested"
	TypeInterruptResolved     = "interrupt.resolved"
	TypeApprovalReceived      = "approval.received"
	TypeClarificationResolved = "clarification.resolved"
)

// Our own types, which only the debug mode shows (wire 6.1 and 6.3). They hold neither a runner's id nor a subject.
const (
	TypeRunPausing   = "runnerd.run.pausing"   // a pause waits for what is active
	TypeStepAccepted = "runnerd.step.accepted" // a runner holds the start permit
	TypeAgentStep    = "runnerd.agent.step"    // what a step of an agent's loop returned, for the next
	TypeStepQueued   = "runnerd.step.queued"   // it waits for a runner again
)

// EngineVersion and LogVersion stand on run.started and on snapshots.
const (
	EngineVersion = "1"
	LogVersion    = 2
)

// Codes that a failed node or run may carry besides those of internal/wire.
const (
	codeCapability     = "capability_not_provided"
	codeRecursionLimit = "recursion_limit_exceeded"
	codeRunTimeout     = "run_timeout"
	codeNodeFailed     = "node_failed" // core.fail, unless it names another
	codeExpression     = "expression_failed"
	codeUntrusted      = "untrusted_content_refused" // untrusted content would have chosen what only an author may
	codeRejected       = "approval_rejected"
	codeExpired        = "interrupt_expired"
	codeNotRecorded    = "replay_source_missing"
	codeAgentTurns     = "agent_turns_exceeded"
	codeAgentTokens    = "agent_tokens_exceeded"
	codeMock           = "mock_provider_forbidden"
	codeChild          = "child_run_failed"

	codeInvalidInput = string(wire.CodeInvalidInput)
	codeTooLarge     = string(wire.CodeResultTooLarge)
)

// masked stands in events and snapshots for what they may not show.
const masked = `"[redacted]"`

// runStarted is everything about a run that later decisions need, apart from what may not stand in a log: Masked names that,
// and State.Reveal gives it back.
type runStarted struct {
	WorkflowID    string          `json:"workflowId"`
	Inputs        json.RawMessage `json:"inputs"`
	Configurable  json.RawMessage `json:"configurable,omitzero"`
	Transport     string          `json:"transport"`
	EngineVersion string          `json:"engineVersion"`
	Owner         *Owner          `json:"owner,omitzero"`
	Tags          []string        `json:"tags,omitzero"`
	Metadata      json.RawMessage `json:"metadata,omitzero"`
	Masked        *maskedMembers  `json:"masked,omitzero"`
	Parent        *Parent         `json:"parent,omitzero"`
}

// maskedMembers names the sensitive inputs, and says whether the run asks for a runner by name: a log is copied by a fork,
// and copied history carries no runner id (wire 14.10).
type maskedMembers struct {
	Inputs []string `json:"inputs,omitzero"`
	Runner bool     `json:"runner,omitzero"`
}

type nodeStarted struct {
	NodeID  string `json:"nodeId"`
	TypeID  string `json:"typeId"`
	Attempt int    `json:"attempt"`
}

type nodeDispatched struct { // closed
	ChildRunID      string `json:"childRunId"`
	ChildWorkflowID string `json:"childWorkflowId"`
	ChildStatus     string `json:"childStatus"`
}

type variableChanged struct {
	Name     string          `json:"name"`
	Previous json.RawMessage `json:"previous,omitzero"`
	Next     json.RawMessage `json:"next"`
	NodeID   string          `json:"nodeId"`
}

// nodeCompleted carries three members beside the protocol's: Untrusted names the outputs that are, when only some of them are;
// Sensitive says which output is the value of which sensitive variable, so that it can be passed on though it is masked; and
// SpentMs is the duration of a child run, which counts against the run's.
type nodeCompleted struct {
	NodeID     string            `json:"nodeId"`
	Outputs    json.RawMessage   `json:"outputs"`
	DurationMs int64             `json:"durationMs"`
	Untrusted  []string          `json:"untrusted,omitzero"`
	Sensitive  map[string]string `json:"sensitive,omitzero"` // output -> variable; "": not kept at all
	SpentMs    int64             `json:"spentMs,omitzero"`
}

// nodeFailed carries Outputs beside the protocol's members: what a failed step had put out all the same (UD-49); and SpentMs.
type nodeFailed struct {
	NodeID   string          `json:"nodeId"`
	Error    nodeError       `json:"error"`
	Attempts int             `json:"attempts"`
	Outputs  json.RawMessage `json:"outputs,omitzero"`
	SpentMs  int64           `json:"spentMs,omitzero"`
}

type nodeError struct {
	Code      string          `json:"code"`
	Message   string          `json:"message"`
	Details   json.RawMessage `json:"details,omitzero"`
	Retryable bool            `json:"retryable"`
}

// nodeRetried announces the attempt that starts after the delay.
type nodeRetried struct {
	NodeID    string    `json:"nodeId"`
	Attempt   int       `json:"attempt"`
	DelayMs   int64     `json:"delayMs"`
	LastError nodeError `json:"lastError"`
}

type nodeEnded struct { // node.skipped, node.cancelled
	NodeID string `json:"nodeId"`
	Reason string `json:"reason"`
}

type nodeSuspended struct {
	NodeID      string `json:"nodeId"`
	InterruptID string `json:"interruptId"`
	Kind        string `json:"kind"`
	Key         string `json:"key"`
}

// suspendRequest is closed: what identifies it stands on node.suspended (wire section 12).
type suspendRequest struct {
	Kind         string          `json:"kind"`
	Key          string          `json:"key"`
	Data         json.RawMessage `json:"data"`
	ResumeSchema json.RawMessage `json:"resumeSchema,omitzero"`
	TimeoutMs    int64           `json:"timeoutMs,omitzero"`
}

func (p *suspendRequest) timeout() time.Duration {
	return time.Duration(min(max(p.TimeoutMs, 0), maxWait)) * time.Millisecond
}

type interruptResolved struct {
	NodeID      string          `json:"nodeId"`
	InterruptID string          `json:"interruptId"`
	Kind        string          `json:"kind"`
	ResumeValue json.RawMessage `json:"resumeValue"`
	RunID       string          `json:"runId"`
	ResolvedAt  time.Time       `json:"resolvedAt"`
	ResolvedBy  string          `json:"resolvedBy,omitzero"`
}

type nodeResumed struct {
	NodeID      string          `json:"nodeId"`
	InterruptID string          `json:"interruptId"`
	ResumeValue json.RawMessage `json:"resumeValue"`
}

// approvalReceived carries three members beside the protocol's: the interrupt, the name that the vote counts under, and how
// the vote stands with it.
type approvalReceived struct {
	NodeID         string          `json:"nodeId"`
	InterruptID    string          `json:"interruptId"`
	Action         string          `json:"action"`
	DecidedBy      string          `json:"decidedBy,omitzero"`
	DecidedAt      time.Time       `json:"decidedAt"`
	Voter          string          `json:"voter,omitzero"`
	Votes          *tally          `json:"votes,omitzero"`
	Comment        string          `json:"comment,omitzero"`
	RefineFeedback json.RawMessage `json:"refineFeedback,omitzero"`
	Edited         json.RawMessage `json:"editedArtifactData,omitzero"`
}

type tally struct {
	Accepted int `json:"accepted"`
	Rejected int `json:"rejected"`
	Required int `json:"required"`
}

type clarificationResolved struct {
	NodeID     string          `json:"nodeId"`
	Answers    json.RawMessage `json:"answers"`
	AnsweredBy string          `json:"answeredBy,omitzero"`
}

type agentStarted struct {
	InvocationID     string `json:"invocationId"`
	AgentID          string `json:"agentId"`
	Source           string `json:"source"`
	ModelClass       string `json:"modelClass,omitzero"`
	AgentVersion     string `json:"resolvedAgentVersion,omitzero"`
	ToolSurfaceCount int    `json:"toolSurfaceCount"`
}

type agentCompleted struct {
	InvocationID string `json:"invocationId"`
	AgentID      string `json:"agentId"`
	Outcome      string `json:"outcome"`
}

// The outcomes of an invocation.
const (
	agentCompletedOK = "completed"
	agentRefused     = "refused"
	agentFailed      = "failed"
)

type agentReasoned struct {
	AgentID   string `json:"agentId"`
	Reasoning string `json:"reasoning"`
	Verbosity string `json:"verbosity"`
}

type agentDecided struct {
	AgentID    string          `json:"agentId"`
	Decision   json.RawMessage `json:"decision"`
	Confidence *float64        `json:"confidence,omitzero"`
}

type agentHandoff struct {
	From   string `json:"fromAgentId"`
	To     string `json:"toAgentId"`
	Reason string `json:"reason,omitzero"`
}

// toolCalled and toolReturned are content-free (wire 15.2).
type toolCalled struct {
	AgentID   string `json:"agentId"`
	ToolName  string `json:"toolName"`
	CallID    string `json:"callId"`
	ArgsHash  string `json:"argsHash"`
	Principal string `json:"principal"`
	Transport string `json:"transport"`
}

type toolReturned struct {
	AgentID    string `json:"agentId"`
	ToolName   string `json:"toolName"`
	CallID     string `json:"callId"`
	Status     string `json:"status"`
	DurationMs *int64 `json:"durationMs,omitzero"` // absent when the call never started
}

type agentStepEnded struct {
	NodeID string          `json:"nodeId"`
	StepID string          `json:"stepId"`
	Output json.RawMessage `json:"output"`
}

type stepPhase struct {
	NodeID string `json:"nodeId"`
	StepID string `json:"stepId"`
}

// outputChunk carries N beside the protocol's members: the number of the progress it was made from, 0 for the last chunk.
type outputChunk struct {
	NodeID string `json:"nodeId"`
	RunID  string `json:"runId"`
	Chunk  string `json:"chunk"`
	IsLast bool   `json:"isLast"`
	N      int64  `json:"n,omitzero"`
	Meta   any    `json:"meta,omitzero"` // *chunkMeta or *mockMeta
}

type mockMeta struct {
	FinishReason string          `json:"finishReason"`
	Model        string          `json:"model,omitzero"`
	Usage        json.RawMessage `json:"usage"`
}

type chunkMeta struct {
	FinishReason string      `json:"finishReason,omitzero"`
	Model        string      `json:"model,omitzero"`
	Usage        *chunkUsage `json:"usage,omitzero"`
}

type chunkUsage struct {
	Prompt     int64 `json:"promptTokens"`
	Completion int64 `json:"completionTokens"`
	Total      int64 `json:"totalTokens"`
}

type providerUsage struct { // closed
	Provider        string  `json:"provider"`
	Model           string  `json:"model"`
	InputTokens     int64   `json:"inputTokens"`
	OutputTokens    int64   `json:"outputTokens"`
	TotalTokens     int64   `json:"totalTokens"`
	CacheReadTokens int64   `json:"cacheReadTokens,omitzero"`
	CostEstimateUSD float64 `json:"costEstimateUsd,omitzero"`
	NodeID          string  `json:"nodeId"`
}

// The kinds of ceiling that are a run's; its loops have others.
const (
	capStarts   = "node-executions"
	capDuration = "run-duration"
)

type capBreached struct {
	Kind     string `json:"kind"`
	Limit    int64  `json:"limit"`
	Observed int64  `json:"observed"`
	NodeID   string `json:"nodeId,omitzero"`
}

type runCompleted struct {
	Outputs    json.RawMessage `json:"outputs,omitzero"`
	DurationMs *int64          `json:"durationMs,omitzero"` // a replay says only what was recorded
}

type runFailed struct {
	Error        nodeError `json:"error"`
	FailedNodeID string    `json:"failedNodeId,omitzero"`
	DurationMs   *int64    `json:"durationMs,omitzero"`
}

// replayDiverged has the members of the protocol's schema and of its prose (wire 19.5).
type replayDiverged struct {
	SourceRunID     string `json:"sourceRunId"`
	AtSequence      int64  `json:"atSequence"`
	OriginalEventID string `json:"originalEventId"`
	ReplayEventID   string `json:"replayEventId"`
	DivergenceKind  string `json:"divergenceKind"`
	DivergencePoint string `json:"divergencePoint"`
}

type runPaused struct {
	Reason      string `json:"reason,omitzero"`
	DrainPolicy string `json:"drainPolicy"`
	PausedBy    string `json:"pausedBy,omitzero"`
}

type runCancelled struct {
	Reason      string `json:"reason,omitzero"`
	CancelledBy string `json:"cancelledBy,omitzero"`
	DurationMs  int64  `json:"durationMs"`
}

// unavailable is the error of a step that no runner took, or whose runner was lost (wire 14.7, faults.md I8).
func unavailable(message, outcome string) nodeError {
	details := mustEncode(struct {
		Retriable bool   `json:"retriable"`
		Outcome   string `json:"outcome"`
	}{true, outcome})
	return nodeError{Code: string(wire.CodeRunnerUnavailable), Message: message, Details: details, Retryable: true}
}
