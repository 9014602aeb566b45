package storetest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"runnerd/gateway/store"
)

// A model is a store in a few maps: what runs, steps, runners, timers, asks and audit logs do, without isolation or disks.
// Its methods are named as those of store.Tx, and give the same errors.
type model struct {
	born    int // counts what is created
	runs    map[runKey]modelRun
	steps   map[store.Fence]modelStep // by tenant, run and step alone
	runners map[store.RunnerID]store.Runner
	timers  map[store.Timer]time.Time // by all but Due
	asks    map[askKey]modelAsk
	audits  map[store.Subject][]store.AuditEntry
	revoked []store.RunnerID
}

type runKey struct {
	tenant store.Tenant
	id     store.RunID
}

type askKey struct {
	subject store.Subject
	id      string
}

type (
	modelRun struct {
		store.Run
		events []store.Event
		born   int
	}
	modelStep struct {
		store.Step
		born int
	}
	modelAsk struct {
		store.AskRecord
		born int
	}
)

func newModel() *model {
	return &model{
		runs: map[runKey]modelRun{}, steps: map[store.Fence]modelStep{}, runners: map[store.RunnerID]store.Runner{},
		timers: map[store.Timer]time.Time{}, asks: map[askKey]modelAsk{}, audits: map[store.Subject][]store.AuditEntry{},
	}
}

// clone is what to go back to when a transaction fails. Slices only grow, so they are shared.
func (m *model) clone() *model {
	return &model{
		m.born, maps.Clone(m.runs), maps.Clone(m.steps), maps.Clone(m.runners), maps.Clone(m.timers), maps.Clone(m.asks),
		maps.Clone(m.audits), slices.Clip(m.revoked),
	}
}

func (m *model) next() int { m.born++; return m.born }

func (m *model) CreateRun(r store.Run) error {
	k := runKey{r.Tenant, r.ID}
	if _, ok := m.runs[k]; ok {
		return store.ErrConflict
	}
	r.LastSeq = -1
	m.runs[k] = modelRun{Run: r, born: m.next()}
	return nil
}

func (m *model) Append(t store.Tenant, id store.RunID, status string, at time.Time, events []store.Event) error {
	r, ok := m.runs[runKey{t, id}]
	if !ok || store.Terminal(r.Status) || len(events) > 0 && events[0].Seq != r.LastSeq+1 {
		return store.ErrConflict
	}
	r.Status, r.Updated, r.LastSeq = status, at, r.LastSeq+int64(len(events))
	r.events = append(slices.Clip(r.events), events...)
	m.runs[runKey{t, id}] = r
	return nil
}

func (m *model) CreateStep(s store.Step) error {
	if r, ok := m.runs[runKey{s.Tenant, s.Run}]; !ok || r.Subject != s.Subject {
		return store.ErrNotFound
	}
	k := store.Fence{Tenant: s.Tenant, Run: s.Run, Step: s.ID}
	if _, ok := m.steps[k]; ok {
		return store.ErrConflict
	}
	m.steps[k] = modelStep{s, m.next()}
	return nil
}

func (m *model) MoveStep(expect store.Fence, next store.Step) error {
	k := store.Fence{Tenant: expect.Tenant, Run: expect.Run, Step: expect.Step}
	s, ok := m.steps[k]
	if !ok || s.Fence() != expect {
		return store.ErrConflict
	}
	next.Tenant, next.Run, next.ID, next.Subject, next.Kind, next.Inputs, next.Created = s.Tenant, s.Run, s.ID, s.Subject, s.Kind,
		s.Inputs, s.Created
	m.steps[k] = modelStep{next, s.born}
	return nil
}

// stepsBy gives the steps that match, in the order of less, and of creation where that says nothing.
func (m *model) stepsBy(match func(store.Step) bool, less func(a, b store.Step) int) []store.Step {
	var some []modelStep
	for _, s := range m.steps {
		if match(s.Step) {
			some = append(some, s)
		}
	}
	slices.SortFunc(some, func(a, b modelStep) int { return cmp.Or(less(a.Step, b.Step), a.born-b.born) })
	var all []store.Step
	for _, s := range some {
		all = append(all, s.Step)
	}
	return all
}

func (m *model) CreateRunner(r store.Runner) error {
	if _, ok := m.runners[r.ID]; ok {
		return store.ErrConflict
	}
	m.runners[r.ID] = r
	return nil
}

// onRunner changes a runner that the subject has and that is as expected, or gives the error.
func (m *model) onRunner(s store.Subject, id store.RunnerID, otherwise error, is func(store.Runner) bool, change func(*store.Runner)) error {
	r, ok := m.runners[id]
	if !ok || r.Subject != s || !is(r) {
		return otherwise
	}
	change(&r)
	m.runners[id] = r
	return nil
}

func (m *model) RevokeRunner(s store.Subject, id store.RunnerID, at time.Time) error {
	return m.onRunner(s, id, store.ErrNotFound, anyRunner, func(r *store.Runner) {
		if r.Revoked.IsZero() {
			r.Revoked = at
			m.revoked = append(m.revoked, id)
		}
	})
}

func anyRunner(store.Runner) bool { return true }

func (m *model) PutAsk(a store.AskRecord) error {
	k := askKey{a.Subject, a.ID}
	if _, ok := m.asks[k]; !ok {
		m.asks[k] = modelAsk{a, m.next()}
	}
	return nil
}

func (m *model) AnswerAsk(s store.Subject, id, answer string, at time.Time) error {
	a, ok := m.asks[askKey{s, id}]
	if !ok {
		return store.ErrNotFound
	}
	if a.Answer != "" {
		return store.ErrConflict
	}
	a.Answer, a.Answered = answer, at
	m.asks[askKey{s, id}] = a
	return nil
}

func (m *model) AppendAudit(e store.AuditEntry) error {
	e.Seq = int64(len(m.audits[e.Subject]) + 1)
	m.audits[e.Subject] = append(slices.Clip(m.audits[e.Subject]), e)
	return nil
}
