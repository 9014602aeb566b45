package local

import "time"

// A Status is how things stand with a runner.
type Status struct {
	Version    string         `json:"version"`
	Gateway    string         `json:"gateway"`
	RunnerID   string         `json:"runnerId"`
	Subject    string         `json:"subject"`
	State      string         `json:"state"` // as reported to the gateway: ready, paused, draining
	Link       Link           `json:"link"`
	Steps      []Step         `json:"steps"`
	Outbox     Outbox         `json:"outbox"`
	Providers  []Provider     `json:"providers"`
	Warnings   []string       `json:"warnings,omitempty"` // what needs the owner's attention, in words
	LastError  string         `json:"lastError,omitempty"`
	Reconnects map[string]int `json:"reconnects"` // since start, by cause
	Started    time.Time      `json:"started,omitzero"`
}

// The states of a link.
const (
	Connecting = "connecting"
	Online     = "online"
	Offline    = "offline"    // tries again by itself
	Superseded = "superseded" // another process has this runner's identity; tries again by itself, later
	Unpaired   = "unpaired"   // the gateway does not know this runner any more
)

// A Link is how the connection to the gateway stands.
type Link struct {
	State        string    `json:"state"`
	Since        time.Time `json:"since,omitzero"`
	Reason       string    `json:"reason,omitempty"`       // of a state that is not online, in words
	Mode         string    `json:"mode,omitempty"`         // "short streams" or "plain", when not the usual one
	ModeReason   string    `json:"modeReason,omitempty"`   // why
	Epoch        int64     `json:"epoch,omitempty"`        // of this connection
	LastReportMs int64     `json:"lastReportMs,omitempty"` // how long ago the last report was answered; 0: never
	NextTryMs    int64     `json:"nextTryMs,omitempty"`
	ClockSkewMs  int64     `json:"clockSkewMs,omitempty"` // how far this machine's clock is ahead
}

// A Step is one that the runner has in hand.
type Step struct {
	RunID    string    `json:"runId"`
	StepID   string    `json:"stepId"`
	Seq      int64     `json:"seq"`
	Phase    string    `json:"phase"` // accepted, running, finished
	Provider string    `json:"provider,omitempty"`
	Model    string    `json:"model,omitempty"`
	Since    time.Time `json:"since"`
	Parked   string    `json:"parked,omitempty"` // why the gateway does not take its result
}

// An Outbox counts the results that the gateway has not acknowledged.
type Outbox struct {
	Pending int        `json:"pending"`
	Parked  int        `json:"parked"`
	Oldest  *time.Time `json:"oldest,omitempty"`
	Bytes   int64      `json:"bytes"`
	Damaged int        `json:"damaged,omitempty"` // ranges of the journal that did not check at the last start
}

// A Provider is what the last look found.
type Provider struct {
	Name      string   `json:"name"`
	Backend   string   `json:"backend"`
	AuthClass string   `json:"authClass,omitempty"`
	State     string   `json:"state"`
	Remedy    string   `json:"remedy,omitempty"`
	Models    []string `json:"models,omitempty"`
	Lanes     int      `json:"lanes,omitempty"`
	InUse     int      `json:"inUse"`
}
