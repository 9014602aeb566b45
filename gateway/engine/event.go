package engine

import (
	"encoding/json"
	"time"
)

// An Event is one document of a run's log (wire 6.1), as it is stored and sent. Its JSON form is stable: two encodings of
// one event are the same bytes.
type Event struct {
	EventID      string          `json:"eventId"`
	RunID        string          `json:"runId"`
	Type         string          `json:"type"`
	Sequence     int64           `json:"sequence"`
	Timestamp    time.Time       `json:"timestamp"` // UTC, milliseconds
	NodeID       string          `json:"nodeId,omitzero"`
	CausationID  string          `json:"causationId,omitzero"`
	ContentTrust string          `json:"contentTrust,omitzero"`
	Payload      json.RawMessage `json:"payload"`

	// Clock is store time in milliseconds, on events after which the run's duration begins or ceases to count; see runClock.
	Clock int64 `json:"clock,omitzero"`

	// Fork is where the log of a fork comes from, on its run.started.
	Fork *ForkedFrom `json:"fork,omitzero"`
}

// The values of ContentTrust (wire section 13). Untrusted marks what was made from what a runner returned. Trusted is written
// out on what later values are composed from, because a value without a marking counts as untrusted there.
const (
	Untrusted = "untrusted"
	Trusted   = "trusted"
)
