package wire

import "time"

// Prefix is the path under which this project's extension of the protocol lives.
const Prefix = "/v1/host/runnerd"

// The numbers of the channel (design, section 4). Runner, gateway and tests read them from here and nowhere else.
const (
	Keepalive         = 15 * time.Second // comment on an idle stream
	StreamDead        = 40 * time.Second // a stream without a byte for so long is dead
	FirstByte         = 20 * time.Second // no byte so long after the headers: something buffers the stream
	BoundedStream     = 10 * time.Second // length asked for by ?maxMs= when something buffers
	ReportEvery       = 15 * time.Second // a report is sent at least so often
	AcceptWithin      = 20 * time.Second // an offer that is not accepted by then is withdrawn
	QueueWait         = 30 * time.Second // how long a step waits for a runner unless the run says otherwise
	QueueWaitMax      = 24 * time.Hour   // the longest wait that a run may ask for
	StepTimeout       = 15 * time.Minute // how long an accepted step may take unless the run says otherwise
	StepTimeoutMax    = 24 * time.Hour   // the longest timeout that a run may ask for
	StepGrace         = 45 * time.Second // what the gateway adds to a step's timeout before it gives up
	LostAfter         = 2 * time.Minute  // an accepted step whose runner gave no sign of life for so long is lost
	OnlineWithin      = 30 * time.Second // online: the last report is younger
	DisconnectedAfter = 45 * time.Second // disconnected: no report for so long, whatever the stream says
	OfflineAfter      = 2 * time.Minute  // offline: so long after the disconnection
	KillAfter         = 5 * time.Second  // from TERM to KILL of a cancelled child
	Drain             = 60 * time.Second // how long a stopping runner waits for its steps
	SupersededWait    = 5 * time.Minute  // a superseded process waits so long before it dials again
	LastSeenEvery     = time.Minute      // how often last_seen is stored while nothing else changes
	RevocationPoll    = 3 * time.Second  // how often a gateway follows the revocation cursor
	ProgressEvery     = 250 * time.Millisecond
	PlainAfter        = 3 * time.Second // a new runner with an open stream and no report so long is a plain one

	PairingLife     = 10 * time.Minute
	PairingInterval = 2 * time.Second // how often a runner asks whether it is paired (RFC 8628 interval)
	BearerLife      = time.Hour
	RefreshIdle     = 90 * 24 * time.Hour // an unused refresh token expires
	LateKept        = 7 * 24 * time.Hour  // late results and parked outbox entries
	JournalKept     = 90 * 24 * time.Hour
	ParkedRetry     = time.Hour // a parked outbox entry is tried again so often

	MaxFrame       = 1 << 20   // bytes of one dispatch frame
	MaxResult      = 1 << 20   // bytes of one result frame
	MaxReport      = 1 << 20   // bytes of one report
	MaxImage       = 700 << 10 // bytes an image is scaled down to
	MaxResults     = 64        // frames in one results request
	MaxHeld        = 1024      // steps one runner may hold
	MaxDelta       = 64 << 10  // bytes of one progress delta
	MaxID          = 128       // characters of an id (wire section 1)
	MaxDepth       = 64        // levels of nesting in any document
	MaxProviders   = 256       // providers, models or tools in a record or an inventory
	MaxOrphans     = 1000      // results kept per runner for pairs that a restored store does not know
	MaxNameLength  = 128       // characters of a runner's or provider's name
	DefaultMaxStep = 4         // steps that a runner takes at once unless configured
)

// Backoff between attempts of the channel: from BackoffMin to BackoffMax with jitter, back to BackoffMin on every success.
const (
	BackoffMin = time.Second
	BackoffMax = time.Minute
)

// Limits are the numbers a gateway tells its runners in every report's answer.
type Limits struct {
	MaxFrameBytes  int64 `json:"maxFrameBytes"`
	MaxResultBytes int64 `json:"maxResultBytes"`
	ProgressEvery  int64 `json:"progressEveryMs"`
	ReportEvery    int64 `json:"reportEveryMs"`
}

// DefaultLimits are the numbers above in the form they are sent.
func DefaultLimits() Limits {
	return Limits{
		MaxFrameBytes:  MaxFrame,
		MaxResultBytes: MaxResult,
		ProgressEvery:  ProgressEvery.Milliseconds(),
		ReportEvery:    ReportEvery.Milliseconds(),
	}
}
