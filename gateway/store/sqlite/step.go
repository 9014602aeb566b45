package sqlite

import (
	"encoding/json"
	"iter"
	"time"

	"runnerd/gateway/store"
)

const stepColumns = `run.tenant, run.id, step.id, now.subject, kind, provider, model, tool, named, inputs, wait, timeout, step.created,
	now.state, runner, seq, use_prov, use_model, plain, waited, since, due, output, outcome, code `

// selectStep begins at a step's run, selectNow at a step's state: the order of a join is the order in which the planner can
// use an index, and CROSS JOIN holds it to that.
const (
	selectStep = "SELECT " + stepColumns + "FROM run CROSS JOIN step ON step.run = run.n CROSS JOIN step_now AS now ON now.n = step.n "
	selectNow  = "SELECT " + stepColumns + "FROM step_now AS now CROSS JOIN step ON step.n = now.n CROSS JOIN run ON run.n = step.run "
)

func scanStep(row scanner, s *store.Step) error {
	return row.Scan(&s.Tenant, &s.Run, &s.ID, &s.Subject, &s.Kind, &s.Provider, &s.Model, &s.Tool, &s.Named,
		(*[]byte)(&s.Inputs), asDuration{&s.Wait}, asDuration{&s.Timeout}, asTime{&s.Created},
		&s.State, asText{(*string)(&s.Runner)}, &s.Seq, &s.UseProv, &s.UseModel, &s.Plain, asDuration{&s.Waited},
		asTime{&s.Since}, asTime{&s.Due}, (*[]byte)(&s.Output), &s.Outcome, &s.Code)
}

func (r *reader) Step(t store.Tenant, id store.RunID, step store.StepID) (store.Step, error) {
	return one(r, scanStep, selectStep+"WHERE run.tenant = ? AND run.id = ? AND step.id = ?", t, id, step)
}

func (r *reader) StepsOfRun(t store.Tenant, id store.RunID) iter.Seq2[store.Step, error] {
	return list(r, scanStep, selectStep+"WHERE run.tenant = ? AND run.id = ? ORDER BY step.n", t, id)
}

// StepsOfRunner passes the states as one argument, so that any number of them is one statement.
func (r *reader) StepsOfRunner(s store.Subject, id store.RunnerID, states ...store.StepState) iter.Seq2[store.Step, error] {
	if len(states) == 0 {
		states = []store.StepState{store.StepQueued, store.StepOffered, store.StepAccepted,
			store.StepDone, store.StepFailed, store.StepCancelled}
	}
	in, err := json.Marshal(states)
	if err != nil {
		panic(err) // strings
	}
	return list(r, scanStep, selectNow+`WHERE now.subject = ? AND runner = ? AND now.state IN (SELECT value FROM json_each(?))
		ORDER BY seq, now.n`, s, id, string(in))
}

func (r *reader) QueuedSteps(s store.Subject, limit int) iter.Seq2[store.Step, error] {
	if limit <= 0 {
		return none
	}
	return list(r, scanStep, selectNow+"WHERE now.state = 'queued' AND now.subject = ? ORDER BY now.n LIMIT ?", s, limit)
}

func (r *reader) AllDueSteps(now time.Time, limit int) iter.Seq2[store.Step, error] {
	if limit <= 0 {
		return none
	}
	return list(r, scanStep, selectNow+`WHERE now.state IN ('queued', 'offered', 'accepted') AND due <= ?
		ORDER BY due, now.n LIMIT ?`, micros(now), limit)
}

// AllQueuedSubjects goes from one subject to the next by the index of queued steps, however many each has.
func (r *reader) AllQueuedSubjects() iter.Seq2[store.Subject, error] {
	return list(r, func(row scanner, s *store.Subject) error { return row.Scan(s) }, `
		WITH RECURSIVE found (subject) AS (
			SELECT min(subject) FROM step_now WHERE state = 'queued'
			UNION ALL
			SELECT (SELECT min(subject) FROM step_now WHERE state = 'queued' AND subject > found.subject)
			FROM found WHERE found.subject IS NOT NULL)
		SELECT subject FROM found WHERE subject IS NOT NULL`)
}

func (t *tx) CreateStep(s store.Step) error {
	run, err := t.number(s.Tenant, s.Run)
	if err != nil {
		return err
	}
	if run.subject != s.Subject {
		return store.ErrNotFound
	}
	n, err := t.insert(`INSERT INTO step (run, id, kind, provider, model, tool, named, inputs, wait, timeout, created)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, run.n, s.ID, s.Kind, s.Provider, s.Model, s.Tool, s.Named, blob(s.Inputs),
		s.Wait.Microseconds(), s.Timeout.Microseconds(), micros(s.Created))
	if err != nil {
		return err
	}
	return t.put(`INSERT INTO step_now
		(n, subject, state, runner, seq, use_prov, use_model, plain, waited, since, due, output, outcome, code)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		n, s.Subject, s.State, orNull(s.Runner), s.Seq, s.UseProv, s.UseModel, s.Plain, s.Waited.Microseconds(),
		micros(s.Since), micros(s.Due), blob(s.Output), s.Outcome, s.Code)
}

func (t *tx) MoveStep(expect store.Fence, next store.Step) error {
	run, err := t.number(expect.Tenant, expect.Run)
	if err != nil {
		return asConflict(err)
	}
	return t.change(store.ErrConflict, `UPDATE step_now SET state = ?, runner = ?, seq = ?, use_prov = ?, use_model = ?, plain = ?,
			waited = ?, since = ?, due = ?, output = ?, outcome = ?, code = ?
		WHERE n = (SELECT n FROM step WHERE run = ? AND id = ?) AND state = ? AND runner IS ? AND seq = ?`,
		next.State, orNull(next.Runner), next.Seq, next.UseProv, next.UseModel, next.Plain, next.Waited.Microseconds(),
		micros(next.Since), micros(next.Due), blob(next.Output), next.Outcome, next.Code,
		run.n, expect.Step, expect.State, orNull(expect.Runner), expect.Seq)
}
