package wire

import (
	"encoding/json"
	"errors"
	"fmt"
)

// The states a runner reports. Only a ready runner is given work.
const (
	StateReady    = "ready"
	StatePaused   = "paused"
	StateDraining = "draining"
	StateSleeping = "sleeping"
)

// The phases of a step that a runner holds.
const (
	PhaseAccepted = "accepted" // accept sent or permitted, not yet started
	PhaseRunning  = "running"
	PhaseAsking   = "asking"   // waits for a person
	PhaseFinished = "finished" // the result is in the outbox
)

// A Report is what the runner says every ReportEvery and at once when there is something to say (design, section 4).
// N rises within an epoch; a stale epoch or N is answered 409 superseded.
type Report struct {
	Epoch     int64      `json:"epoch"`
	N         int64      `json:"n"`
	JournalID string     `json:"journalId"`
	Cursor    int64      `json:"cursor"` // highest seq at or below which every frame is settled
	State     string     `json:"state"`
	Capacity  Capacity   `json:"capacity"`
	Held      []Held     `json:"held,omitempty"`
	Accept    []StepRef  `json:"accept,omitempty"`
	Refuse    []Refusal  `json:"refuse,omitempty"`
	Progress  []Progress `json:"progress,omitempty"`
	Asks      []Ask      `json:"asks,omitempty"`
	Inventory *Inventory `json:"inventory,omitempty"`
}

// Capacity counts lanes: how many steps the runner can take now, and at most.
type Capacity struct {
	Free int `json:"free"`
	Max  int `json:"max"`
}

// Held is a step that the runner has accepted and whose verdict it has not seen.
type Held struct {
	StepRef
	Phase string `json:"phase"`
}

// A Refusal proves that a step was not started.
type Refusal struct {
	StepRef
	Code    Code   `json:"code"`
	Message string `json:"message,omitempty"`
}

// Progress is partial output: N counts a step's deltas from 1, so that a repeated report adds nothing twice.
type Progress struct {
	StepRef
	N     int64  `json:"n"`
	Delta string `json:"delta"`
}

// An Ask is a question to the owner that a step waits on.
type Ask struct {
	StepRef
	ID        string          `json:"id"`
	Tool      string          `json:"tool,omitempty"`
	Title     string          `json:"title"`
	Detail    json.RawMessage `json:"detail,omitempty"`
	ExpiresMs int64           `json:"expiresMs"` // from now; expired is denied
}

// An Inventory says what the registration record's flat lists cannot: which provider has which models and free lanes.
type Inventory struct {
	Providers map[string]Provider `json:"providers,omitempty"`
	Tools     []string            `json:"tools,omitempty"`
}

// A Provider of an inventory. An empty Models means any. Lanes is how many steps it takes at once; 0 means no own limit.
type Provider struct {
	Models    []string `json:"models,omitempty"`
	Lanes     int      `json:"lanes,omitempty"`
	Backend   string   `json:"backend,omitempty"`
	AuthClass string   `json:"authClass,omitempty"`
	State     string   `json:"state,omitempty"`  // "ready", or why not
	Remedy    string   `json:"remedy,omitempty"` // what the owner can do about it
}

// Validate names the members that are out of range.
func (r Report) Validate() error {
	errs := []error{checkID("journalId", r.JournalID)}
	add := func(err error) { errs = append(errs, err) }
	if r.Epoch < 1 {
		add(&FieldError{"epoch", "must be 1 or more"})
	}
	if r.N < 1 {
		add(&FieldError{"n", "must be 1 or more"})
	}
	if r.Cursor < 0 {
		add(&FieldError{"cursor", "must be 0 or more"})
	}
	switch r.State {
	case StateReady, StatePaused, StateDraining, StateSleeping:
	default:
		add(&FieldError{"state", "must be one of ready, paused, draining, sleeping"})
	}
	if r.Capacity.Free < 0 || r.Capacity.Max < 0 || r.Capacity.Free > r.Capacity.Max || r.Capacity.Max > MaxHeld {
		add(&FieldError{"capacity", fmt.Sprintf("must be 0 <= free <= max <= %d", MaxHeld)})
	}
	if len(r.Held)+len(r.Accept)+len(r.Refuse) > 3*MaxHeld || len(r.Progress) > 4*MaxHeld || len(r.Asks) > MaxHeld {
		add(&FieldError{"held", "too many entries"})
	}
	for i, h := range r.Held {
		add(at("held", i, h.Validate()))
		switch h.Phase {
		case PhaseAccepted, PhaseRunning, PhaseAsking, PhaseFinished:
		default:
			add(at("held", i, &FieldError{"phase", "must be one of accepted, running, asking, finished"}))
		}
	}
	for i, a := range r.Accept {
		add(at("accept", i, a.Validate()))
	}
	for i, f := range r.Refuse {
		add(at("refuse", i, f.Validate()))
		if !f.Code.Known() {
			add(at("refuse", i, &FieldError{"code", "is not a known code"}))
		}
	}
	for i, p := range r.Progress {
		add(at("progress", i, p.Validate()))
		if p.N < 1 || len(p.Delta) > MaxDelta {
			add(at("progress", i, &FieldError{"delta", "n must be 1 or more and delta at most 64 KiB"}))
		}
	}
	for i, a := range r.Asks {
		add(at("asks", i, errors.Join(a.Validate(), checkID("id", a.ID))))
	}
	if r.Inventory != nil {
		add(r.Inventory.Validate())
	}
	return errors.Join(errs...)
}

// Validate names the members that are out of range.
func (v Inventory) Validate() error {
	errs := []error{checkNames("inventory.tools", v.Tools)}
	if len(v.Providers) > MaxProviders {
		errs = append(errs, &FieldError{"inventory.providers", "too many entries"})
	}
	for name, p := range v.Providers {
		errs = append(errs, checkName("inventory.providers", name, MaxID), checkNames("inventory.providers."+name+".models", p.Models))
		if p.Lanes < 0 {
			errs = append(errs, &FieldError{"inventory.providers." + name + ".lanes", "must be 0 or more"})
		}
	}
	return errors.Join(errs...)
}

// The reasons of a stop. A runner ends the step's child whatever the reason.
const (
	StopGone      = "gone"      // the offer was withdrawn, or is not this runner's
	StopCancelled = "cancelled" // the run was cancelled
	StopEnded     = "ended"     // the step has a terminal event already
)

// What a gateway may ask for in a report's answer.
const (
	WantInventory = "inventory"
	WantHeld      = "held"
)

// A ReportReply answers a report.
type ReportReply struct {
	Time    string   `json:"time"`   // RFC 3339, for the runner's clock-skew message only
	Cursor  int64    `json:"cursor"` // the gateway's cursor of this runner; the runner adopts the larger
	Limits  Limits   `json:"limits"`
	Permits []Permit `json:"permits,omitempty"`
	Stop    []Stop   `json:"stop,omitempty"`
	Answers []Answer `json:"answers,omitempty"`
	Want    string   `json:"want,omitempty"`
}

// Validate makes sure that what answered is a gateway, not a portal.
func (r ReportReply) Validate() error {
	if r.Time == "" {
		return &FieldError{"time", "is missing"}
	}
	var errs []error
	for i, p := range r.Permits {
		errs = append(errs, at("permits", i, p.Validate()))
	}
	for i, s := range r.Stop {
		errs = append(errs, at("stop", i, s.Validate()))
	}
	return errors.Join(errs...)
}

// A Permit lets the runner start a step it accepted. RemainingMs is counted from the moment the answer arrives, time asleep
// included.
type Permit struct {
	StepRef
	RemainingMs int64 `json:"remainingMs"`
}

// A Stop tells the runner to end a step it holds. It is repeated while the runner holds the step.
type Stop struct {
	StepRef
	Reason string `json:"reason"`
}

// An Answer is the owner's reply to an Ask.
type Answer struct {
	ID     string `json:"id"`
	Answer string `json:"answer"` // "allow" or "deny"
}
