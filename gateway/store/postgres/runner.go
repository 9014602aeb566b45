package postgres

import (
	"bytes"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"runnerd/gateway/store"
)

const runnerColumns = `id, subject, name, platform, version, created, generation, used, revoked, cursor,
	epoch, journal, reports, record, inventory, state, max_steps, last_seen `

const (
	selectRunner   = "SELECT " + runnerColumns + "FROM runner "
	selectRunnerBy = selectRunner + "WHERE id = $1 AND subject = $2"
)

func scanRunner(rows pgx.Rows, r *store.Runner) error {
	return rows.Scan(into(&r.ID), into(&r.Subject), into(&r.Name), into(&r.Platform), into(&r.Version), asTime{&r.Created},
		&r.Generation, asTime{&r.Used}, asTime{&r.Revoked}, &r.Cursor, &r.Epoch, into(&r.Journal), &r.Reports,
		(*[]byte)(&r.Record), (*[]byte)(&r.Inventory), into(&r.State), &r.MaxSteps, asTime{&r.LastSeen})
}

func (r *reader) Runner(s store.Subject, id store.RunnerID) (store.Runner, error) {
	return one(r, ofSubject(s), scanRunner, selectRunnerBy, text(id), text(s))
}

func (r *reader) RunnerOfAll(id store.RunnerID) (store.Runner, error) {
	return one(r, ofRunner(id), scanRunner, selectRunner+"WHERE id = $1", text(id))
}

// Runner gives a runner as this function knows it.
func (t *tx) Runner(s store.Subject, id store.RunnerID) (store.Runner, error) {
	return t.runner(id, func(r store.Runner) bool { return r.Subject == s }, func() (store.Runner, error) { return t.reader.Runner(s, id) })
}

// RunnerOfAll gives a runner as this function knows it.
func (t *tx) RunnerOfAll(id store.RunnerID) (store.Runner, error) {
	return t.runner(id, func(store.Runner) bool { return true }, func() (store.Runner, error) { return t.reader.RunnerOfAll(id) })
}

func (t *tx) runner(id store.RunnerID, fits func(store.Runner) bool, read func() (store.Runner, error)) (store.Runner, error) {
	if err := t.usable(); err != nil {
		return store.Runner{}, err
	}
	r, ok := t.runners[id]
	if !ok {
		var err error
		if r, err = read(); err != nil {
			return r, err
		}
		t.runners[id] = r
	}
	if !fits(r) {
		return store.Runner{}, store.ErrNotFound
	}
	return r, nil
}

func (r *reader) Runners(s store.Subject) iter.Seq2[store.Runner, error] {
	return list(r, ofSubject(s), scanRunner, selectRunner+"WHERE tenant = $1 AND subject = $2 ORDER BY created, n", text(s.Tenant()), text(s))
}

func (r *reader) RunnersOfTenant(t store.Tenant) iter.Seq2[store.Runner, error] {
	return list(r, key{}, scanRunner, selectRunner+"WHERE tenant = $1 ORDER BY created, n", text(t))
}

// AllRunnersHolding goes from one runner to the next by the index of accepted steps.
func (r *reader) AllRunnersHolding() iter.Seq2[store.Runner, error] {
	return list(r, key{}, scanRunner, `
		WITH RECURSIVE found (runner) AS (
			(SELECT runner FROM step WHERE state = 'accepted' ORDER BY runner LIMIT 1)
			UNION ALL
			SELECT (SELECT runner FROM step WHERE state = 'accepted' AND runner > found.runner ORDER BY runner LIMIT 1)
			FROM found WHERE found.runner IS NOT NULL)
		SELECT of.* FROM found, LATERAL (SELECT `+runnerColumns+`FROM runner WHERE id = found.runner OFFSET 0) AS of ORDER BY of.id`)
}

func (t *tx) CreateRunner(r store.Runner) error {
	err := t.create(ofSubject(r.Subject), `INSERT INTO runner (id, tenant, subject, name, platform, version, created, generation, used,
			revoked, cursor, epoch, journal, reports, record, inventory, state, max_steps, last_seen)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)`,
		text(r.ID), text(r.Subject.Tenant()), text(r.Subject), text(r.Name), text(r.Platform), text(r.Version), micros(r.Created),
		r.Generation, micros(r.Used), micros(r.Revoked), r.Cursor, r.Epoch, text(r.Journal), r.Reports, blob(r.Record),
		blob(r.Inventory), text(r.State), r.MaxSteps, micros(r.LastSeen))
	if err == nil {
		t.runners[r.ID] = keptRunner(r)
	}
	return err
}

func (t *tx) MoveRunner(expect int64, next store.Runner) error {
	r, err := t.Runner(next.Subject, next.ID)
	if err != nil {
		return asConflict(err)
	}
	if r.Epoch != expect {
		return store.ErrConflict
	}
	next = keptRunner(next)
	described := !bytes.Equal(r.Record, next.Record) || !bytes.Equal(r.Inventory, next.Inventory)
	r.Epoch, r.Journal, r.Reports, r.Record, r.Inventory, r.State, r.MaxSteps, r.LastSeen =
		next.Epoch, next.Journal, next.Reports, next.Record, next.Inventory, next.State, next.MaxSteps, next.LastSeen
	t.runners[r.ID] = r
	err = t.write(1, `UPDATE runner SET epoch = $1, journal = $2, reports = $3, state = $4, max_steps = $5, last_seen = $6
		WHERE id = $7 AND epoch = $8`,
		r.Epoch, text(r.Journal), r.Reports, text(r.State), r.MaxSteps, micros(r.LastSeen), text(r.ID), expect)
	if err != nil || !described {
		return err
	}
	return t.write(1, "UPDATE runner SET record = $1, inventory = $2 WHERE id = $3", blob(r.Record), blob(r.Inventory), text(r.ID))
}

// NextSeq holds the runner to the end of the transaction, so that the values are seen in their order.
func (t *tx) NextSeq(s store.Subject, id store.RunnerID) (int64, error) {
	r, err := t.Runner(s, id)
	if err != nil {
		return 0, asConflict(err)
	}
	if !r.Revoked.IsZero() {
		return 0, store.ErrConflict
	}
	return r.Cursor + 1, t.moveCursor(r, r.Cursor+1)
}

func (t *tx) RaiseCursor(s store.Subject, id store.RunnerID, seq int64) error {
	r, err := t.Runner(s, id)
	if err != nil {
		return asConflict(err)
	}
	return t.moveCursor(r, max(r.Cursor, seq))
}

func (t *tx) moveCursor(r store.Runner, to int64) error {
	was := r.Cursor
	r.Cursor = to
	t.runners[r.ID] = r
	return t.write(1, "UPDATE runner SET cursor = $1 WHERE id = $2 AND cursor = $3", to, text(r.ID), was)
}

func (t *tx) MoveFamily(id store.RunnerID, expect, next int64, at time.Time) error {
	r, err := t.RunnerOfAll(id)
	if err != nil {
		return asConflict(err)
	}
	if r.Generation != expect {
		return store.ErrConflict
	}
	r.Generation, r.Used = next, keptTime(at)
	t.runners[id] = r
	return t.write(1, "UPDATE runner SET generation = $1, used = $2 WHERE id = $3 AND generation = $4", next, micros(at), text(id), expect)
}

// RevokeRunner gives the revocation its place in the order of all: revocations are written one transaction after the other,
// or a gateway that follows them could miss one.
func (t *tx) RevokeRunner(s store.Subject, id store.RunnerID, at time.Time) error {
	r, err := t.Runner(s, id)
	if err != nil || !r.Revoked.IsZero() {
		return err
	}
	if err := t.hold(of("revocations")); err != nil {
		return err
	}
	r.Revoked = keptTime(at)
	t.runners[id] = r
	if err := t.write(1, "UPDATE runner SET revoked = $1 WHERE id = $2 AND revoked = 0", micros(at), text(id)); err != nil {
		return err
	}
	return t.write(1, "INSERT INTO revocation (seq, runner) SELECT coalesce(max(seq), 0) + 1, $1 FROM revocation", text(id))
}

func (t *tx) TouchRunner(s store.Subject, id store.RunnerID, seen time.Time) error {
	r, err := t.Runner(s, id)
	if err != nil {
		return err
	}
	r.LastSeen = keptTime(seen)
	t.runners[id] = r
	return t.write(1, "UPDATE runner SET last_seen = $1 WHERE id = $2", micros(seen), text(id))
}

func (r *reader) Revocations(after int64) iter.Seq2[store.Revocation, error] {
	return list(r, key{}, func(rows pgx.Rows, v *store.Revocation) error { return rows.Scan(&v.Seq, into(&v.Runner)) },
		"SELECT seq, runner FROM revocation WHERE seq > $1 ORDER BY seq", after)
}
