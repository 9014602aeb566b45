package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"runnerd/gateway/dispatch"
	"runnerd/gateway/engine"
	"runnerd/gateway/store"
)

type key struct {
	tenant store.Tenant
	run    store.RunID
}

// A folded state is the fold of a log up to its last sequence.
type folded struct {
	state  *engine.State
	weight int
}

// perState is what a state weighs besides the events that went into it.
const perState = 2 << 10

// eventsAtOnce bounds how many events are read at a time.
const eventsAtOnce = 500

// load gives the state of a run as its row says the log is: the rest of the log folded into the state that memory has.
func (s *Service) load(r store.Reader, row store.Run) (*engine.Workflow, folded, error) {
	wf, err := s.workflow(row.Definition, func() ([]byte, error) { return r.Definition(row.Definition) })
	if err != nil {
		return nil, folded{}, fmt.Errorf("workflow of run %s: %w", row.ID, err)
	}
	f, ok := s.states.get(key{row.Tenant, row.ID})
	if !ok || f.state.LastSequence() > row.LastSeq {
		f = folded{engine.NewState(wf), perState}
	}
	if f.state.LastSequence() == row.LastSeq {
		return wf, f, nil
	}
	f.state = f.state.Clone()
	for f.state.LastSequence() < row.LastSeq {
		before := f.state.LastSequence()
		for ev, err := range r.Events(row.Tenant, row.ID, before, eventsAtOnce) {
			if err != nil {
				return nil, folded{}, fmt.Errorf("read events of run %s: %w", row.ID, err)
			}
			if ev.Seq > row.LastSeq {
				break
			}
			var e engine.Event
			if err := json.Unmarshal(ev.Doc, &e); err != nil {
				return nil, folded{}, fmt.Errorf("read event %d of run %s: %w", ev.Seq, row.ID, err)
			}
			if err := f.state.Apply(e); err != nil {
				return nil, folded{}, fmt.Errorf("fold log: %w: %w", errBroken, err)
			}
			f.weight += len(ev.Doc)
		}
		if f.state.LastSequence() == before {
			return nil, folded{}, fmt.Errorf("fold log of run %s: %w: event %d is missing", row.ID, errBroken, before+1)
		}
	}
	return wf, f, nil
}

// errBroken says that a log is not one that can be gone on from.
var errBroken = errors.New("the log does not fit")

// apply takes inputs and writes what follows from them.
func (s *Service) apply(tx *dispatch.Tx, t store.Tenant, id store.RunID, inputs ...engine.Input) error {
	row, err := tx.Run(t, id)
	if err != nil {
		return fmt.Errorf("read run %s: %w", id, err)
	}
	if store.Terminal(row.Status) {
		return nil
	}
	wf, f, err := s.load(tx, row)
	if errors.Is(err, errBroken) {
		return s.breakOff(tx, row, err)
	}
	if err != nil {
		return err
	}
	m := move{s: s, tx: tx, row: row, wf: wf, folded: f, at: s.wall()}
	for _, in := range inputs {
		if err := m.take(in); err != nil {
			if m.deciding {
				return s.breakOff(tx, row, err)
			}
			return err
		}
	}
	return m.write()
}

// A move is what a run does in one transaction.
type move struct {
	s      *Service
	tx     *dispatch.Tx
	row    store.Run
	wf     *engine.Workflow
	folded folded
	at     time.Time
	events []store.Event

	deciding bool // the last error is the engine's
}

// take decides about one input and carries out the effects. A step that could not even be queued is the next input.
func (m *move) take(in engine.Input) error {
	for next := []engine.Input{in}; len(next) > 0; next = next[1:] {
		d, err := m.decide(next[0])
		if stale(err) {
			continue
		}
		if err != nil {
			m.deciding = true
			return fmt.Errorf("decide about run %s: %w", m.row.ID, err)
		}
		if err := m.add(d.Events); err != nil {
			return err
		}
		m.folded.state = d.Next
		for _, e := range d.Effects {
			more, err := m.carryOut(e)
			if err != nil {
				return fmt.Errorf("carry out %T of run %s: %w", e, m.row.ID, err)
			}
			if more != nil {
				next = append(next, more)
			}
		}
	}
	return nil
}

func (m *move) decide(in engine.Input) (engine.Decision, error) {
	env := m.s.env
	env.Now, env.Clock = m.at, m.tx.Now()
	d, err := engine.Decide(m.wf, m.folded.state, in, env)
	if !errors.Is(err, engine.ErrMasked) {
		return d, err
	}
	q, err := readRequest(m.row)
	if err != nil {
		return d, err
	}
	m.folded.state = m.folded.state.Clone()
	if err := m.folded.state.Reveal(q.Inputs, q.Configurable); err != nil {
		return d, err
	}
	return engine.Decide(m.wf, m.folded.state, in, env)
}

func (m *move) add(events []engine.Event) error {
	for _, e := range events {
		doc, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("write event %d of run %s: %w", e.Sequence, m.row.ID, err)
		}
		m.events = append(m.events, store.Event{Seq: e.Sequence, Type: e.Type, Doc: doc})
		m.folded.weight += len(doc)
	}
	return nil
}

func (m *move) carryOut(e engine.Effect) (engine.Input, error) {
	t, id := m.row.Tenant, m.row.ID
	switch e := e.(type) {
	case engine.Dispatch:
		step, err := m.s.dispatch.Enqueue(m.tx, dispatch.NewStep{
			Tenant: t, Run: id, ID: store.StepID(e.StepID), Subject: m.row.Subject, Kind: e.Kind, Provider: e.Provider, Model: e.Model,
			Tool: e.Tool, Named: store.RunnerID(e.RunnerID), Inputs: e.Inputs, Wait: e.Wait, Timeout: e.Timeout, Again: e.Attempt > 1,
		})
		if err == nil && step.State.Terminal() {
			return ended(step), nil
		}
		return nil, err
	case engine.Stop:
		return nil, m.s.dispatch.Abandon(m.tx, t, id, store.StepID(e.StepID), e.Reason)
	case engine.SetTimer:
		due := m.tx.Now().Add(e.After)
		dispatch.Alarm(m.tx, due)
		return nil, m.tx.PutTimer(store.Timer{Tenant: t, Run: id, ID: e.ID, Due: due})
	case engine.ClearTimer:
		return nil, m.tx.DeleteTimer(t, id, e.ID)
	}
	return nil, fmt.Errorf("unknown effect")
}

// write appends the events, and keeps the new state once they are durable.
func (m *move) write() error {
	if len(m.events) == 0 {
		return nil
	}
	t, id, status := m.row.Tenant, m.row.ID, engine.Status(m.folded.state)
	if err := m.tx.Append(t, id, status, m.at, m.events); err != nil {
		return fmt.Errorf("append to run %s: %w", id, err)
	}
	if store.Terminal(status) {
		if err := m.tx.DeleteTimers(t, id); err != nil {
			return fmt.Errorf("delete timers of run %s: %w", id, err)
		}
	}
	m.tx.Publish(store.RunTopic(t, id))
	if status != m.row.Status {
		m.tx.Publish(store.SubjectTopic(m.row.Subject))
	}
	m.row.Status, m.row.LastSeq, m.row.Updated = status, m.folded.state.LastSequence(), m.at
	f := m.folded
	m.tx.AfterCommit(func() {
		m.s.states.put(key{t, id}, f, f.weight, func(old folded) bool { return old.state.LastSequence() > f.state.LastSequence() })
	})
	return nil
}

// breakOff fails a run that the engine cannot go on with.
func (s *Service) breakOff(tx *dispatch.Tx, row store.Run, cause error) error {
	s.log.Error("run broken off", "tenant", row.Tenant, "run", row.ID, "err", cause)
	for step, err := range tx.StepsOfRun(row.Tenant, row.ID) {
		if err != nil {
			return err
		}
		if err := s.dispatch.Abandon(tx, row.Tenant, row.ID, step.ID, "the run was broken off"); err != nil {
			return err
		}
	}
	if err := tx.DeleteTimers(row.Tenant, row.ID); err != nil {
		return err
	}
	payload := `{"error":{"code":"internal_error","message":"the run cannot go on because of a fault in the gateway"}}`
	doc, err := json.Marshal(engine.Event{
		EventID: fmt.Sprintf("%s.%d", row.ID, row.LastSeq+1), RunID: string(row.ID), Type: engine.TypeRunFailed,
		Sequence: row.LastSeq + 1, Timestamp: s.wall().Truncate(time.Millisecond), Payload: json.RawMessage(payload),
	})
	if err != nil {
		return err
	}
	ev := store.Event{Seq: row.LastSeq + 1, Type: engine.TypeRunFailed, Doc: doc}
	if err := tx.Append(row.Tenant, row.ID, engine.StatusFailed, s.wall(), []store.Event{ev}); err != nil {
		return fmt.Errorf("append to run %s: %w", row.ID, err)
	}
	tx.Publish(store.RunTopic(row.Tenant, row.ID))
	tx.Publish(store.SubjectTopic(row.Subject))
	return nil
}

// wall is the wall time in the form that the store keeps.
func (s *Service) wall() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
