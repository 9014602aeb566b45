package postgres

import (
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"runnerd/gateway/store"
)

const stepColumns = `tenant, run, id, subject, kind, provider, model, tool, named, inputs, wait, timeout, created,
	state, runner, seq, use_prov, use_model, plain, waited, since, due, output, outcome, code `

const selectStep = "SELECT " + stepColumns + "FROM step "

func scanStep(rows pgx.Rows, s *store.Step) error { return rows.Scan(stepInto(s)...) }

func stepInto(s *store.Step) []any {
	return []any{into(&s.Tenant), into(&s.Run), into(&s.ID), into(&s.Subject), into(&s.Kind), into(&s.Provider), into(&s.Model),
		into(&s.Tool), into(&s.Named), (*[]byte)(&s.Inputs), asDuration{&s.Wait}, asDuration{&s.Timeout}, asTime{&s.Created},
		into(&s.State), into(&s.Runner), &s.Seq, into(&s.UseProv), into(&s.UseModel), &s.Plain, asDuration{&s.Waited},
		asTime{&s.Since}, asTime{&s.Due}, (*[]byte)(&s.Output), into(&s.Outcome), into(&s.Code)}
}

const selectStepBy = selectStep + "WHERE tenant = $1 AND run = $2 AND id = $3"

func (r *reader) Step(t store.Tenant, id store.RunID, step store.StepID) (store.Step, error) {
	return one(r, ofRun(t, id), scanStep, selectStepBy, text(t), text(id), text(step))
}

// Step gives a step as this function knows it. What moves a step moves its run too, so both are read at once.
func (t *tx) Step(tenant store.Tenant, id store.RunID, step store.StepID) (store.Step, error) {
	if err := t.usable(); err != nil {
		return store.Step{}, err
	}
	at := stepKey{runKey{tenant, id}, step}
	if s, ok := t.steps[at]; ok {
		return s, nil
	}
	var s store.Step
	var r knownRun
	var haveStep, haveRun bool
	queries := []query{row(&s, &haveStep, scanStep, selectStepBy, text(tenant), text(id), text(step))}
	if t.runs[at.run] == nil {
		queries = append(queries, row(&r, &haveRun, scanRun, selectRunBy, text(tenant), text(id)))
	}
	if err := t.ask(ofRun(tenant, id), queries...); err != nil {
		return store.Step{}, err
	}
	if haveRun {
		t.runs[at.run] = &r
	}
	if !haveStep {
		return store.Step{}, store.ErrNotFound
	}
	t.steps[at] = s
	return s, nil
}

func (r *reader) StepsOfRun(t store.Tenant, id store.RunID) iter.Seq2[store.Step, error] {
	return list(r, ofRun(t, id), scanStep, selectStep+"WHERE tenant = $1 AND run = $2 ORDER BY n", text(t), text(id))
}

func (t *tx) StepsOfRun(tenant store.Tenant, id store.RunID) iter.Seq2[store.Step, error] {
	return t.noting(t.reader.StepsOfRun(tenant, id))
}

// inHand and inPast are what a runner works on, and what it ever had: nobody who asks for the one may go through the other.
const (
	inHand = "WHERE subject = $1 AND runner = $2 AND state IN ('offered', 'accepted') AND state = ANY ($3) "
	inPast = "WHERE subject = $1 AND runner = $2 AND runner <> '' AND state NOT IN ('offered', 'accepted') AND state = ANY ($3) "
)

func (r *reader) StepsOfRunner(s store.Subject, id store.RunnerID, states ...store.StepState) iter.Seq2[store.Step, error] {
	return r.stepsOfRunner(s, id, states, nil)
}

// StepsOfRunner is asked before a runner is offered something, which takes its cursor: both are read at once.
func (t *tx) StepsOfRunner(s store.Subject, id store.RunnerID, states ...store.StepState) iter.Seq2[store.Step, error] {
	return func(yield func(store.Step, error) bool) {
		var r store.Runner
		var found bool
		var before []query
		if _, ok := t.runners[id]; !ok {
			before = append(before, row(&r, &found, scanRunner, selectRunnerBy, text(id), text(s)))
		}
		for step, err := range t.noting(t.stepsOfRunner(s, id, states, before)) {
			if found {
				t.runners[id], found = r, false
			}
			if !yield(step, err) {
				return
			}
		}
		if found {
			t.runners[id] = r
		}
	}
}

func (r *reader) stepsOfRunner(s store.Subject, id store.RunnerID, states []store.StepState, before []query) iter.Seq2[store.Step, error] {
	if id == "" {
		return none // steps that no runner has are nobody's
	}
	past := len(states) == 0
	if past {
		states = []store.StepState{store.StepQueued, store.StepOffered, store.StepAccepted,
			store.StepDone, store.StepFailed, store.StepCancelled}
	}
	in := make([]string, len(states))
	for i, state := range states {
		in[i] = text(state)
		past = past || state != store.StepOffered && state != store.StepAccepted
	}
	if !past {
		return listAfter(r, ofSubject(s), before, scanStep, selectStep+inHand+"ORDER BY seq, n", text(s), text(id), in)
	}
	return listAfter(r, ofSubject(s), before, scanStep, "SELECT "+stepColumns+"FROM ((SELECT * FROM step "+inHand+") UNION ALL (SELECT * FROM step "+inPast+
		")) AS step ORDER BY seq, n", text(s), text(id), in)
}

func (r *reader) QueuedSteps(s store.Subject, limit int) iter.Seq2[store.Step, error] {
	if limit <= 0 {
		return none
	}
	return list(r, ofSubject(s), scanStep, selectStep+"WHERE state = 'queued' AND subject = $1 ORDER BY n LIMIT $2", text(s), limit)
}

func (t *tx) QueuedSteps(s store.Subject, limit int) iter.Seq2[store.Step, error] {
	return t.noting(t.reader.QueuedSteps(s, limit))
}

const isDue = "state IN ('queued', 'offered', 'accepted') AND due <= $1 "

func (r *reader) AllDueSteps(now time.Time, limit int) iter.Seq2[store.Step, error] {
	if limit <= 0 {
		return none
	}
	return list(r, key{}, scanStep, selectStep+"WHERE "+isDue+"ORDER BY due, n LIMIT $2", micros(now), limit)
}

// AllDueSteps leaves out what others claim, and whose subject others are at work for.
func (t *tx) AllDueSteps(now time.Time, limit int) iter.Seq2[store.Step, error] {
	if limit <= 0 {
		return none
	}
	return t.noting(claim(t, stepInto, `WITH due AS MATERIALIZED (
			SELECT tenant, run, id, subject, due, n FROM step WHERE `+isDue+`ORDER BY due, n LIMIT $2),
		mine AS MATERIALIZED (SELECT * FROM due WHERE `+lockSubject+`)
		SELECT step.* FROM mine, LATERAL (
			SELECT `+stepColumns+`, subject AS owner FROM step WHERE tenant = mine.tenant AND run = mine.run AND id = mine.id
				AND state IN ('queued', 'offered', 'accepted') AND due + 0 <= $1 FOR UPDATE SKIP LOCKED) AS step
		ORDER BY mine.due, mine.n`, micros(now), limit))
}

// AllQueuedSubjects goes from one subject to the next by the index of queued steps, however many each has.
func (r *reader) AllQueuedSubjects() iter.Seq2[store.Subject, error] {
	return list(r, key{}, func(rows pgx.Rows, s *store.Subject) error { return rows.Scan(into(s)) }, `
		WITH RECURSIVE found (subject) AS (
			(SELECT subject FROM step WHERE state = 'queued' ORDER BY subject LIMIT 1)
			UNION ALL
			SELECT (SELECT subject FROM step WHERE state = 'queued' AND subject > found.subject ORDER BY subject LIMIT 1)
			FROM found WHERE found.subject IS NOT NULL)
		SELECT subject FROM found WHERE subject IS NOT NULL`)
}

func (t *tx) CreateStep(s store.Step) error {
	run, err := t.run(s.Tenant, s.Run)
	if err != nil {
		return err
	}
	if run.Subject != s.Subject {
		return store.ErrNotFound
	}
	s = keptStep(s)
	if _, ok := t.steps[keyOf(s)]; ok {
		return store.ErrConflict
	}
	const insert = `INSERT INTO step (tenant, run, id, subject, kind, provider, model, tool, named, inputs, wait, timeout, created,
			state, runner, seq, use_prov, use_model, plain, waited, since, due, output, outcome, code)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25)`
	args := []any{text(s.Tenant), text(s.Run), text(s.ID), text(s.Subject), text(s.Kind), text(s.Provider), text(s.Model), text(s.Tool), text(s.Named),
		blob(s.Inputs), s.Wait.Microseconds(), s.Timeout.Microseconds(), micros(s.Created), text(s.State), text(s.Runner), s.Seq,
		text(s.UseProv), text(s.UseModel), s.Plain, s.Waited.Microseconds(), micros(s.Since), micros(s.Due), blob(s.Output),
		text(s.Outcome), text(s.Code)}
	if run.fresh {
		err = t.write(1, insert, args...)
	} else {
		err = t.create(key{}, insert, args...)
	}
	if err == nil {
		t.steps[keyOf(s)] = s
	}
	return err
}

func (t *tx) MoveStep(expect store.Fence, next store.Step) error {
	was, err := t.Step(expect.Tenant, expect.Run, expect.Step)
	if err != nil {
		return asConflict(err)
	}
	if was.Fence() != expect {
		return store.ErrConflict
	}
	next = keptStep(next)
	next.Tenant, next.Run, next.ID, next.Subject, next.Kind, next.Provider, next.Model, next.Tool, next.Named, next.Inputs, next.Wait,
		next.Timeout, next.Created = was.Tenant, was.Run, was.ID, was.Subject, was.Kind, was.Provider, was.Model, was.Tool, was.Named,
		was.Inputs, was.Wait, was.Timeout, was.Created
	t.steps[keyOf(next)] = next
	return t.write(1, `UPDATE step SET state = $1, runner = $2, seq = $3, use_prov = $4, use_model = $5, plain = $6, waited = $7,
			since = $8, due = $9, output = $10, outcome = $11, code = $12
		WHERE tenant = $13 AND run = $14 AND id = $15 AND state = $16 AND runner = $17 AND seq = $18`,
		text(next.State), text(next.Runner), next.Seq, text(next.UseProv), text(next.UseModel), next.Plain, next.Waited.Microseconds(),
		micros(next.Since), micros(next.Due), blob(next.Output), text(next.Outcome), text(next.Code),
		text(expect.Tenant), text(expect.Run), text(expect.Step), text(expect.State), text(expect.Runner), expect.Seq)
}
