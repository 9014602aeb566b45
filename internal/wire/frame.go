package wire

import (
	"encoding/json"
	"errors"
	"fmt"
)

// The kinds of step that a frame may carry (wire 14.4).
const (
	KindModel = "model"
	KindTool  = "tool"
)

// DefaultModel stands in a frame where neither the workflow nor the runner's inventory names a model, since the frame must
// have one: the provider's own default.
const DefaultModel = "default"

// A Registration is what a runner declares when it connects (wire 14.3). It is closed at both levels.
type Registration struct {
	RunnerID     string       `json:"runnerId"`
	Subject      string       `json:"subject"`
	Capabilities Capabilities `json:"capabilities"`
}

// Capabilities are flat lists of unique names. No providers: no model step; no tools: no tool step; no models: every model
// of the listed providers.
type Capabilities struct {
	Providers []string `json:"providers,omitempty"`
	Models    []string `json:"models,omitempty"`
	Tools     []string `json:"tools,omitempty"`
}

// Validate names the first member that breaks wire 14.3.
func (r Registration) Validate() error {
	return errors.Join(
		checkID("runnerId", r.RunnerID),
		checkName("subject", r.Subject, 3*MaxID),
		checkNames("capabilities.providers", r.Capabilities.Providers),
		checkNames("capabilities.models", r.Capabilities.Models),
		checkNames("capabilities.tools", r.Capabilities.Tools),
	)
}

// A Dispatch is one step handed to a runner (wire 14.4). It is closed; Inputs is an open object. Seq is the per-runner
// cursor: it strictly rises and, with the runner's id, fences the step.
type Dispatch struct {
	RunID    string          `json:"runId"`
	StepID   string          `json:"stepId"`
	Seq      int64           `json:"seq"`
	Kind     string          `json:"kind"`
	Provider string          `json:"provider,omitempty"`
	Model    string          `json:"model,omitempty"`
	Tool     string          `json:"tool,omitempty"`
	Inputs   json.RawMessage `json:"inputs"`
}

// Validate names the members that break wire 14.4.
func (d Dispatch) Validate() error {
	errs := []error{d.Ref().Validate(), checkObject("inputs", d.Inputs)}
	switch d.Kind {
	case KindModel:
		errs = append(errs, checkName("provider", d.Provider, MaxID), checkName("model", d.Model, MaxID))
	case KindTool:
		errs = append(errs, checkName("tool", d.Tool, MaxID))
	default:
		errs = append(errs, &FieldError{"kind", `must be "model" or "tool"`})
	}
	return errors.Join(errs...)
}

// Ref names the step and the offer that the frame carries.
func (d Dispatch) Ref() StepRef { return StepRef{d.RunID, d.StepID, d.Seq} }

// A Result is what a runner posts back (wire 14.5). It is closed; an Output with an "error" member is a step that failed.
type Result struct {
	RunID  string          `json:"runId"`
	StepID string          `json:"stepId"`
	Seq    int64           `json:"seq"`
	Output json.RawMessage `json:"output"`
}

// Validate names the members that break wire 14.5.
func (r Result) Validate() error {
	return errors.Join(r.Ref().Validate(), checkObject("output", r.Output))
}

// Ref names the step and the offer that the result answers.
func (r Result) Ref() StepRef { return StepRef{r.RunID, r.StepID, r.Seq} }

// A StepRef names a step and, by Seq, one offer of it to the runner that is speaking.
type StepRef struct {
	RunID  string `json:"runId"`
	StepID string `json:"stepId"`
	Seq    int64  `json:"seq"`
}

// Validate names the members that are missing or out of range.
func (r StepRef) Validate() error {
	var seq error
	if r.Seq < 0 {
		seq = &FieldError{"seq", "must be 0 or more"}
	}
	return errors.Join(checkID("runId", r.RunID), checkID("stepId", r.StepID), seq)
}

func (r StepRef) String() string { return fmt.Sprintf("%s/%s#%d", r.RunID, r.StepID, r.Seq) }

// The answers to a posted result (design, section 4). An outbox entry leaves the disk on one of these and on nothing else.
const (
	VerdictAccepted     = "accepted"
	VerdictDeduplicated = "deduplicated"
	VerdictLate         = "late"
	VerdictRefused      = "refused"
)

// A Verdict is the gateway's answer to one result frame. Code is set with "refused" only.
type Verdict struct {
	RunID   string `json:"runId"`
	StepID  string `json:"stepId"`
	Seq     int64  `json:"seq"`
	Verdict string `json:"verdict"`
	Code    string `json:"code,omitempty"`
}

// Validate refuses everything but the four verdicts, so that a captive portal's page never empties an outbox (faults N16).
func (v Verdict) Validate() error {
	switch v.Verdict {
	case VerdictAccepted, VerdictDeduplicated, VerdictLate, VerdictRefused:
		return StepRef{v.RunID, v.StepID, v.Seq}.Validate()
	}
	return &FieldError{"verdict", "must be one of accepted, deduplicated, late, refused"}
}

// Verdicts is the answer to POST results: one verdict per frame, in the order of the request.
type Verdicts struct {
	Verdicts []Verdict `json:"verdicts"`
}

// Validate checks every verdict.
func (v Verdicts) Validate() error {
	var errs []error
	for i, one := range v.Verdicts {
		if err := one.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("verdicts[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// Registered is the answer to PUT runner: the epoch rises with each connection of this runner.
type Registered struct {
	Epoch int64 `json:"epoch"`
}
