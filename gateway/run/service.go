package run

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"runnerd/gateway/dispatch"
	"runnerd/gateway/engine"
	"runnerd/gateway/store"
	"runnerd/internal/fence"
	"runnerd/internal/wire"
)

// A Config is what a Service is made of.
type Config struct {
	Store    store.Store
	Dispatch *dispatch.Service
	Log      *slog.Logger
	Now      func() time.Time // wall time; time.Now if nil
	Fence    *fence.Fencer
	Caps     engine.Caps
	Provides []string // runtime capabilities (wire 11.2)
}

// A Service moves runs. Its methods may be called concurrently.
type Service struct {
	store    store.Store
	dispatch *dispatch.Service
	log      *slog.Logger
	now      func() time.Time
	env      engine.Env
	builtin  map[string]*engine.Workflow
	flows    cache[store.Hash, *engine.Workflow]
	defined  cache[store.Hash, struct{}] // definitions that the store has for certain
	states   cache[key, folded]
}

var _ dispatch.Runs = (*Service)(nil)

// What the caches may hold, in bytes of the documents that they were made from.
const (
	maxFlows   = 32 << 20
	maxStates  = 64 << 20
	maxDefined = 4096 // in number
)

// New makes a service, and has dispatch tell it what becomes of steps.
func New(c Config) *Service {
	s := &Service{store: c.Store, dispatch: c.Dispatch, log: c.Log, now: c.Now, builtin: map[string]*engine.Workflow{}}
	if s.now == nil {
		s.now = time.Now
	}
	s.env = engine.Env{Fence: c.Fence, Caps: c.Caps, Provides: c.Provides}
	if s.env.Fence == nil {
		s.env.Fence = new(fence.Fencer)
	}
	s.flows.limit, s.defined.limit, s.states.limit = maxFlows, maxDefined, maxStates
	chat := engine.Builtin()
	s.builtin[chat.ID] = chat
	c.Dispatch.Follow(s)
	return s
}

// Workflow gives a workflow's definition by its id: a built-in one, else the tenant's.
func (s *Service) Workflow(r store.Reader, t store.Tenant, id string) ([]byte, error) {
	if wf := s.builtin[id]; wf != nil {
		return wf.Doc(), nil
	}
	w, err := r.Workflow(t, id)
	if err != nil {
		return nil, fmt.Errorf("read workflow %s: %w", id, err)
	}
	return w.Doc, nil
}

// IsBuiltin reports whether id names a built-in workflow, which a tenant cannot replace.
func (s *Service) IsBuiltin(id string) bool { return s.builtin[id] != nil }

// workflow gives the workflow that a definition describes.
func (s *Service) workflow(hash store.Hash, doc func() ([]byte, error)) (*engine.Workflow, error) {
	if wf, ok := s.flows.get(hash); ok {
		return wf, nil
	}
	b, err := doc()
	if err != nil {
		return nil, err
	}
	wf, err := engine.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("read definition: %w", err)
	}
	s.flows.put(hash, wf, len(b), nil)
	return wf, nil
}

// Apply takes inputs of a run, one after the other, in one transaction. What is no longer waited for is passed over.
func (s *Service) Apply(ctx context.Context, t store.Tenant, id store.RunID, inputs ...engine.Input) error {
	return s.dispatch.Update(ctx, func(tx *dispatch.Tx) error { return s.apply(tx, t, id, inputs...) })
}

// Cancel ends a run at once and gives its status. One that has ended already stays as it is (wire 5.3, UD-28).
func (s *Service) Cancel(ctx context.Context, t store.Tenant, id store.RunID, reason, by string) (string, error) {
	var status string
	err := s.dispatch.Update(ctx, func(tx *dispatch.Tx) (err error) {
		status, err = s.cancel(tx, t, id, reason, by)
		return err
	})
	return status, err
}

// CancelTx is Cancel as a part of somebody else's transaction. Lanes that it frees are given to waiting steps in it.
func (s *Service) CancelTx(tx store.Tx, t store.Tenant, id store.RunID, reason, by string) (string, error) {
	var status string
	err := s.dispatch.Within(tx, func(tx *dispatch.Tx) (err error) {
		status, err = s.cancel(tx, t, id, reason, by)
		return err
	})
	return status, err
}

func (s *Service) cancel(tx *dispatch.Tx, t store.Tenant, id store.RunID, reason, by string) (string, error) {
	row, err := tx.Run(t, id)
	if err != nil {
		return "", fmt.Errorf("read run %s: %w", id, err)
	}
	if store.Terminal(row.Status) {
		return row.Status, nil
	}
	if err := s.apply(tx, t, id, engine.Cancel{Reason: reason, By: by}); err != nil {
		return "", err
	}
	row, err = tx.Run(t, id)
	return row.Status, err
}

// A View is a run as it stands: its row and the fold of its log, of one moment.
type View struct {
	Row      store.Run
	Workflow *engine.Workflow
	State    *engine.State // shared: do not change it
}

// Snapshot is the document of wire 5.2.
func (v View) Snapshot() engine.RunSnapshot {
	doc := engine.Snapshot(v.Workflow, v.State)
	if doc.RunID == "" { // before the first event
		doc.RunID = string(v.Row.ID)
	}
	return doc
}

// View reads a run.
func (s *Service) View(ctx context.Context, t store.Tenant, id store.RunID) (View, error) {
	var v View
	err := s.store.View(ctx, func(r store.Reader) (err error) {
		v, err = s.ViewIn(r, t, id)
		return err
	})
	return v, err
}

// ViewIn is View from within somebody else's snapshot of the store.
func (s *Service) ViewIn(r store.Reader, t store.Tenant, id store.RunID) (View, error) {
	row, err := r.Run(t, id)
	if err != nil {
		return View{}, fmt.Errorf("read run %s: %w", id, err)
	}
	wf, f, err := s.load(r, row)
	return View{row, wf, f.state}, err
}

// Snapshot reads the document of wire 5.2.
func (s *Service) Snapshot(ctx context.Context, t store.Tenant, id store.RunID) (engine.RunSnapshot, error) {
	v, err := s.View(ctx, t, id)
	if err != nil {
		return engine.RunSnapshot{}, err
	}
	return v.Snapshot(), nil
}

// Ended brings what became of a step.
func (s *Service) Ended(tx *dispatch.Tx, step store.Step) error {
	return s.apply(tx, step.Tenant, step.Run, ended(step))
}

// Accepted brings a step that a runner has taken.
func (s *Service) Accepted(tx *dispatch.Tx, step store.Step) error {
	return s.apply(tx, step.Tenant, step.Run, engine.StepPhase{StepID: string(step.ID), Accepted: true})
}

// Progress brings pieces of the output of a run's steps.
func (s *Service) Progress(tx *dispatch.Tx, t store.Tenant, id store.RunID, pieces []wire.Progress) error {
	inputs := make([]engine.Input, len(pieces))
	for i, p := range pieces {
		inputs[i] = engine.Progress{StepID: p.StepID, N: p.N, Delta: p.Delta}
	}
	return s.apply(tx, t, id, inputs...)
}

// Fired brings a timer that is due.
func (s *Service) Fired(tx *dispatch.Tx, timer store.Timer) error {
	return s.apply(tx, timer.Tenant, timer.Run, engine.TimerFired{ID: timer.ID})
}

// ended turns a step that ended into the engine's words.
func ended(step store.Step) engine.StepEnded {
	in := engine.StepEnded{
		StepID: string(step.ID), Output: step.Output, Runner: string(step.Runner),
		UsedFor: engine.UsedFor{Provider: step.UseProv, Model: step.UseModel},
	}
	if step.Code == string(wire.CodeRunnerUnavailable) {
		message := "no connected runner can serve this step"
		if step.Outcome == dispatch.OutcomeUnknown {
			message = "the runner was lost after it took this step; whether the step was carried out is not known"
		}
		in.Output, in.Lost = nil, &engine.Lost{Outcome: step.Outcome, Message: message}
	}
	return in
}

func hashOf(doc []byte) store.Hash { return sha256.Sum256(doc) }

// A request is what a client sent with a run, as its row keeps it.
type request struct {
	Inputs       json.RawMessage `json:"inputs,omitempty"`
	Configurable json.RawMessage `json:"configurable,omitempty"`
	Tags         []string        `json:"tags,omitempty"`
	Metadata     json.RawMessage `json:"metadata,omitempty"`
}

func readRequest(row store.Run) (request, error) {
	var q request
	if err := json.Unmarshal(row.Request, &q); err != nil {
		return q, fmt.Errorf("read request of run %s: %w", row.ID, err)
	}
	return q, nil
}

// stale reports whether an input is about something that is over.
func stale(err error) bool { return errors.Is(err, engine.ErrStale) }
