// Package store says what the gateway keeps and how it may change. It promises that whatever a client or a runner can
// observe is read from here by a cursor; that a write is durable before anyone hears of it; that bells ring after the commit
// and in commit order; and that no query can forget its tenant or subject, because every method takes one. The few methods
// that span tenants are for the gateway's own loops and say All in their names.
//
// # Decisions
//
// Update takes a function over Tx instead of one method per transition: a run's events, its steps, their offers and the
// audit log change together (design, section 3), and a method for every combination would move the decisions of engine and
// dispatch into SQL, twice. The function runs on the store's one writer, which commits what waits together; it must not
// block, and may run again after a serialization failure, so it has no effect outside Tx. Every row that is fenced moves by
// a conditional update that names what it expects, and gives ErrConflict when that is not so.
//
// The store makes up nothing but its clock: ids come from the caller. Times are UTC microseconds. An empty document and none
// are the same, and read back as nil.
//
// # Errors
//
// What a write expects and does not find is ErrConflict, whether the row is otherwise or not there at all: a fence, an epoch,
// a last sequence, a cursor's runner. What a write only names is ErrNotFound when it is not there: RevokeKey, RevokeRunner,
// TouchRunner, PutTimer, CreateStep's run. A deletion of what is not there is done.
package store

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Errors that callers act on.
var (
	ErrNotFound = errors.New("not found")
	ErrConflict = errors.New("conflict")        // the row is not as the caller expected, or exists already
	ErrFull     = errors.New("no space left")   // nothing was written; try again when there is space
	ErrBusy     = errors.New("store is busy")   // a bounded wait is over
	ErrLocked   = errors.New("store is in use") // another gateway has it open
	ErrNewer    = errors.New("store is of a newer version")
	ErrClosed   = errors.New("store is closed")
	ErrBroken   = errors.New("store is broken") // a sync did not work: nothing is acknowledged any more, the gateway must stop
)

// Identifiers are types, so that a tenant cannot be passed for a run.
type (
	Tenant    string
	Principal string
	Subject   string // one function makes it: NewSubject
	RunID     string
	StepID    string // nodeId:call:try
	RunnerID  string
)

// A Store is the truth. Its twins are held by storetest.
type Store interface {
	// Update runs fn in a transaction of the one writer and returns when it is durable. An error of fn undoes what fn
	// wrote and is returned as it is. While it waits its turn it can be cancelled; once fn runs, the answer is what
	// happened. fn may run on another goroutine; a panic of it comes out of Update. It must not call Update.
	Update(ctx context.Context, fn func(Tx) error) error
	// View runs fn on one consistent snapshot, concurrently with everything else.
	View(ctx context.Context, fn func(Reader) error) error
	// Close waits for the writer to finish.
	Close() error
}

// A Topic names a bell: who listens looks again at the store. See the constructors below.
type Topic string

// RunTopic rings when a run's log grows, RunnerTopic when a runner has new offers or stops, SubjectTopic when a run or a
// runner of the subject changes, RevokedTopic when a runner was revoked, QueueTopic when a step was queued anew.
func RunTopic(t Tenant, r RunID) Topic { return Topic("run/" + string(t) + "/" + string(r)) }
func RunnerTopic(r RunnerID) Topic     { return Topic("runner/" + string(r)) }
func SubjectTopic(s Subject) Topic     { return Topic("subject/" + string(s)) }
func QueueTopic(s Subject) Topic       { return Topic("queue/" + string(s)) }

// RevokedTopic is one bell for all runners: a gateway reads Revocations from its cursor.
const RevokedTopic Topic = "revoked"

// Reader is what a snapshot can be asked. Lists are ordered as stated and end with an error, if any; a limit below 1 is none
// at all. In a Tx a list may be walked while its rows are changed: it gives what was there when the walk began.
type Reader interface {
	// Now is the store's clock (design, section 5): it does not follow jumps of the wall clock, and with SQLite it stands
	// still while no gateway runs. Deadlines are in its time.
	Now() time.Time

	Meta(name string) ([]byte, error) // ErrNotFound

	User(t Tenant, p Principal) (User, error)
	Users(t Tenant) iter.Seq2[User, error] // by principal
	AllTenants() iter.Seq2[Tenant, error]
	KeyByHash(hash Hash) (Key, error)         // revoked and expired ones too: the caller says which
	Keys(t Tenant) iter.Seq2[Key, error]      // by creation
	SessionByHash(hash Hash) (Session, error) // ErrNotFound when expired

	Workflow(t Tenant, id string) (Workflow, error)
	Workflows(t Tenant) iter.Seq2[Workflow, error] // by id
	Definition(hash Hash) ([]byte, error)          // the definition that a run was created with

	Run(t Tenant, id RunID) (Run, error)
	// Runs were created before a moment, or at any if that is zero; newest first, of one moment the later created first.
	Runs(t Tenant, s Subject, before time.Time, limit int) iter.Seq2[Run, error]
	Events(t Tenant, id RunID, after int64, limit int) iter.Seq2[Event, error] // ascending; after -1: from the start
	Step(t Tenant, id RunID, step StepID) (Step, error)
	StepsOfRun(t Tenant, id RunID) iter.Seq2[Step, error]                            // by creation
	StepsOfRunner(s Subject, r RunnerID, states ...StepState) iter.Seq2[Step, error] // by seq; no states: all
	QueuedSteps(s Subject, limit int) iter.Seq2[Step, error]                         // oldest first
	LateResults(t Tenant, id RunID) iter.Seq2[Late, error]                           // by arrival
	Answers(s Subject, r RunnerID) iter.Seq2[AskRecord, error]                       // asks of the runner, open and answered, by creation
	Asks(t Tenant, id RunID) iter.Seq2[AskRecord, error]                             // by creation

	Runner(s Subject, id RunnerID) (Runner, error)
	RunnerOfAll(id RunnerID) (Runner, error)           // for authentication: the bearer names the runner, the row its subject
	Runners(s Subject) iter.Seq2[Runner, error]        // by creation
	RunnersOfTenant(t Tenant) iter.Seq2[Runner, error] // by creation
	PairingByDevice(code Hash) (Pairing, error)
	PairingByUserCode(code string) (Pairing, error)
	Revocations(after int64) iter.Seq2[Revocation, error] // ascending; after 0: from the start

	Audit(s Subject, after int64, limit int) iter.Seq2[AuditEntry, error] // ascending; after 0: from the start
	Idempotent(t Tenant, operation, key string) (Idempotent, error)

	// AllDueSteps are steps in a non-terminal state with Due at or before now, oldest first; AllDueTimers likewise. In a Tx
	// they are claimed: another gateway does not get the same rows until the transaction ends.
	AllDueSteps(now time.Time, limit int) iter.Seq2[Step, error]
	AllDueTimers(now time.Time, limit int) iter.Seq2[Timer, error]
	// AllRunnersHolding are runners that have steps in state accepted, with the subject of each, by id.
	AllRunnersHolding() iter.Seq2[Runner, error]
	// AllQueuedSubjects are subjects that have steps in state queued, by name.
	AllQueuedSubjects() iter.Seq2[Subject, error]
}

// Tx is a Reader that sees its own writes, and what may be written.
type Tx interface {
	Reader

	// Publish rings a bell after the commit, in commit order. Ringing twice in one transaction is ringing once.
	Publish(Topic)

	PutMeta(name string, value []byte) error

	CreateUser(User) error // ErrConflict when the principal exists
	PutSignIn(SignIn) error
	TakeSignIn(hash Hash) (SignIn, error) // at most once; ErrNotFound when taken, unknown or expired
	PutSession(Session) error
	DeleteSession(hash Hash) error
	CreateKey(Key) error
	RevokeKey(t Tenant, id string, at time.Time) error

	PutWorkflow(Workflow) error
	PutDefinition(hash Hash, doc []byte) error // keeps the first

	CreateRun(Run) error // ErrConflict when it exists; its log is empty, whatever LastSeq says
	// Append adds events to a run's log and sets its status. It is conditional: the log's last sequence must be
	// events[0].Seq - 1, and the run not terminal. Without events it only sets the status.
	Append(t Tenant, id RunID, status string, at time.Time, events []Event) error
	PutTimer(Timer) error // replaces one of the same id
	DeleteTimer(t Tenant, id RunID, timer string) error
	DeleteTimers(t Tenant, id RunID) error

	CreateStep(Step) error // ErrConflict when it exists; ErrNotFound when the subject has no such run
	// MoveStep replaces the mutable members of a step, if it is still in the state, with the runner and seq, of expect.
	MoveStep(expect Fence, next Step) error

	CreateRunner(Runner) error
	// MoveRunner replaces the mutable members of a runner if its epoch is still expect. Cursor and family are not among
	// them: NextSeq and MoveFamily move those.
	MoveRunner(expect int64, next Runner) error
	// NextSeq takes the runner's next cursor value. It never gives one twice. ErrConflict when the subject has no such
	// runner, or it was revoked.
	NextSeq(s Subject, id RunnerID) (int64, error)
	// RaiseCursor lifts the cursor to at least seq.
	RaiseCursor(s Subject, id RunnerID, seq int64) error
	// MoveFamily sets the highest refresh generation that was presented, if it is still expect.
	MoveFamily(id RunnerID, expect, next int64, at time.Time) error
	// RevokeRunner marks it and adds a Revocation. Revoking twice is revoking once.
	RevokeRunner(s Subject, id RunnerID, at time.Time) error
	TouchRunner(s Subject, id RunnerID, seen time.Time) error

	CreatePairing(Pairing) error // ErrConflict when the user code is in use
	MovePairing(expect PairingState, next Pairing) error

	PutAsk(AskRecord) error // keeps the first of an id
	// AnswerAsk settles an open ask of the subject, once: ErrConflict when it was answered, ErrNotFound when unknown.
	AnswerAsk(s Subject, id string, answer string, at time.Time) error
	DeleteAsks(t Tenant, id RunID, step StepID) error

	PutLate(Late) error // keeps the first of a (runner, seq)
	AppendAudit(AuditEntry) error
	PutIdempotent(Idempotent) error // ErrConflict when it exists

	// AllForget deletes what is past its time: sessions, sign-ins, pairings, idempotency records (older than 24 h), late
	// results (7 days); now is wall time. It returns how many rows went. It deletes some hundred at once: whoever gets more
	// than nothing calls again, in a transaction of its own.
	AllForget(now time.Time) (int, error)
}
