package store

import (
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// A Hash is the SHA-256 of a credential or a document. Credentials themselves are never stored.
type Hash [32]byte

// NewSubject is the one function that makes a subject (design, section 3): tenant, optional workspace, principal. The parts
// hold no slash, so two different triples never give the same string.
func NewSubject(t Tenant, workspace string, p Principal) (Subject, error) {
	parts := []string{string(t), string(p)}
	if workspace != "" {
		parts = []string{string(t), workspace, string(p)}
	}
	for _, s := range parts {
		if err := CheckName(s); err != nil {
			return "", err
		}
	}
	return Subject(strings.Join(parts, "/")), nil
}

// Tenant is the first part of the subject.
func (s Subject) Tenant() Tenant {
	t, _, _ := strings.Cut(string(s), "/")
	return Tenant(t)
}

// Principal is the last part of the subject.
func (s Subject) Principal() Principal {
	return Principal(s[strings.LastIndexByte(string(s), '/')+1:])
}

// CheckName says whether s may name a tenant, a workspace or a principal: 1 to 64 of a-z, A-Z, 0-9, '.', '_', '-', '@', not
// beginning with a dot.
func CheckName(s string) error {
	ok := s != "" && len(s) <= 64 && s[0] != '.'
	for i := 0; ok && i < len(s); i++ {
		c := s[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._-@", c) >= 0
	}
	if !ok {
		return errors.New("a name has 1 to 64 of the characters a-z A-Z 0-9 . _ - @ and does not begin with a dot")
	}
	return nil
}

// A User is a person of a tenant.
type User struct {
	Tenant    Tenant
	Principal Principal
	Subject   Subject
	Name      string
	Created   time.Time
}

// A SignIn is a one-time link.
type SignIn struct {
	Hash    Hash
	Subject Subject
	Expires time.Time // wall time
}

// A Session is a browser that signed in.
type Session struct {
	Hash    Hash
	Subject Subject
	Created time.Time
	Expires time.Time // wall time
}

// A Key is an API key of a user. Revoked is zero while it is good; Expires is zero when it never does.
type Key struct {
	ID      string
	Hash    Hash
	Subject Subject
	Name    string
	Scopes  []string
	Created time.Time
	Expires time.Time
	Revoked time.Time
}

// A Workflow is a definition under its id.
type Workflow struct {
	Tenant  Tenant
	ID      string
	Hash    Hash // of Doc
	Doc     []byte
	Updated time.Time
}

// A Run is the row beside a run's log. Status is the snapshot's (wire 5.2); LastSeq is -1 before the first event.
type Run struct {
	ID         RunID
	Tenant     Tenant
	Subject    Subject
	WorkflowID string
	Definition Hash
	Request    json.RawMessage // inputs, configurable, tags, metadata as the client sent them
	Status     string
	LastSeq    int64
	Created    time.Time // wall time
	Updated    time.Time
}

// Terminal reports whether a run status is final.
func Terminal(status string) bool {
	return status == "completed" || status == "failed" || status == "cancelled"
}

// An Event is one document of a run's log, kept as it is sent (wire 6.1).
type Event struct {
	Seq  int64
	Type string
	Doc  []byte
}

// A Timer wakes a run.
type Timer struct {
	Tenant Tenant
	Run    RunID
	ID     string
	Due    time.Time // store time
}

// A StepState is where a step stands (design, section 5).
type StepState string

// The states of a step.
const (
	StepQueued    StepState = "queued"
	StepOffered   StepState = "offered"
	StepAccepted  StepState = "accepted"
	StepDone      StepState = "done"
	StepFailed    StepState = "failed"
	StepCancelled StepState = "cancelled"
)

// Terminal reports whether a step in this state never changes again.
func (s StepState) Terminal() bool {
	return s == StepDone || s == StepFailed || s == StepCancelled
}

// A Fence names one step and what a writer believes of it.
type Fence struct {
	Tenant Tenant
	Run    RunID
	Step   StepID
	State  StepState
	Runner RunnerID
	Seq    int64
}

// A Step is one model or tool step. The members above the line never change.
type Step struct {
	Tenant   Tenant
	Run      RunID
	ID       StepID
	Subject  Subject
	Kind     string
	Provider string // as asked for; empty: whatever the runner has
	Model    string // as asked for; empty: whatever the provider has
	Tool     string
	Named    RunnerID // the runner asked for, if any
	Inputs   json.RawMessage
	Wait     time.Duration
	Timeout  time.Duration
	Created  time.Time // store time

	// ---- moves

	State    StepState
	Runner   RunnerID // of the latest offer; kept when it was withdrawn
	Seq      int64    // of the latest offer; 0 before the first
	UseProv  string   // provider and model of the latest offer
	UseModel string
	Plain    bool          // accepted by the frame's first byte (a plain RFC 0122 runner)
	Waited   time.Duration // spent waiting before the present state
	Since    time.Time     // when the present state began; store time
	Due      time.Time     // when the present state must end; store time
	Output   json.RawMessage
	Outcome  string // of a failure: not_started, unknown, or empty when the runner reported it
	Code     string // of a failure
}

// Fence is what a writer expects who has read s.
func (s Step) Fence() Fence {
	return Fence{s.Tenant, s.Run, s.ID, s.State, s.Runner, s.Seq}
}

// A Runner is one installation of runnerd. Presence is not here: the gateway that holds the stream knows it.
type Runner struct {
	ID       RunnerID
	Subject  Subject
	Name     string
	Platform string
	Version  string
	Created  time.Time

	Generation int64     // highest refresh generation presented
	Used       time.Time // when a token was last traded; wall time
	Revoked    time.Time // zero while it is good
	Cursor     int64     // highest seq handed out

	// ---- moves with MoveRunner

	Epoch     int64
	Journal   string          // journalId of the epoch's reports; empty before the first
	Reports   bool            // it has reported at least once, ever: not a plain runner
	Record    json.RawMessage // wire.Registration
	Inventory json.RawMessage // wire.Inventory; empty when it never sent one
	State     string          // wire.State...; as last reported
	MaxSteps  int             // lanes, as last reported; 0 before the first report
	LastSeen  time.Time       // wall time; stored on change and once a minute
}

// A PairingState is where a pairing stands.
type PairingState string

// The states of a pairing: pending until a person decides, approved until the bearer is first used.
const (
	PairingPending  PairingState = "pending"
	PairingApproved PairingState = "approved"
	PairingDenied   PairingState = "denied"
	PairingUsed     PairingState = "used"
)

// A Pairing is one device-code exchange (RFC 8628).
type Pairing struct {
	Device   Hash
	UserCode string // canonical form: upper case, no dash
	Name     string
	Platform string
	Version  string
	State    PairingState
	Subject  Subject   // of who approved it
	Runner   RunnerID  // made at approval
	Issued   time.Time // what the tokens are dated, so that asking twice gives the same ones; wall time
	Expires  time.Time // wall time
}

// A Revocation is an entry of the cursor that every gateway follows.
type Revocation struct {
	Seq    int64
	Runner RunnerID
}

// An AskRecord is a runner's question to the owner. Answer is empty while it is open.
type AskRecord struct {
	ID       string
	Tenant   Tenant
	Subject  Subject
	Runner   RunnerID
	Run      RunID
	Step     StepID
	Seq      int64
	Doc      json.RawMessage // wire.Ask
	Expires  time.Time       // store time
	Created  time.Time
	Answer   string
	Answered time.Time
}

// A Late result came for a step that had ended; its owner can see it for a week.
type Late struct {
	Tenant Tenant
	Run    RunID
	Step   StepID
	Runner RunnerID
	Seq    int64
	Output json.RawMessage
	At     time.Time
}

// The kinds of an audit entry (faults.md I12).
const (
	AuditOffer     = "offer"
	AuditWithdrawn = "withdrawn"
	AuditRefused   = "refused" // the runner refused the offer
	AuditPermit    = "permit"
	AuditResult    = "result" // the step's result was stored
	AuditFailed    = "failed" // the step ended without a result
	AuditCancel    = "cancel"
	AuditLate      = "late"
	AuditReject    = "reject" // a result was refused
	AuditPair      = "pair"
	AuditRevoke    = "revoke"
	AuditAnswer    = "answer"
	AuditReuse     = "reuse" // a refresh token was used again
)

// An AuditEntry is one line of a subject's audit log. Seq is given by the store, dense per subject from 1.
type AuditEntry struct {
	Subject   Subject
	Seq       int64
	At        time.Time // wall time
	Kind      string
	Run       RunID
	Step      StepID
	Runner    RunnerID
	RunnerSeq int64
	Detail    string
}

// An Idempotent is the answer kept for an Idempotency-Key (wire section 9).
type Idempotent struct {
	Tenant    Tenant
	Operation string
	Key       string
	Digest    Hash
	Status    int
	Body      []byte
	At        time.Time
}
