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
	NodeID       string          `json:"nodeId,omitempty"`
	CausationID  string          `json:"causationId,omitempty"`
	ContentTrust string          `json:"contentTrust,omitempty"`
	Payload      json.RawMessage `json:"payload"`
}

// Untrusted marks events made from what a runner returned (wire section 13).
const Untrusted = "untrusted"
