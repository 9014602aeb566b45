package sqlite

import (
	"iter"
	"time"

	"runnerd/gateway/store"
)

const runnerColumns = `id, subject, name, platform, version, created, generation, used, revoked, cursor,
	epoch, journal, reports, record, inventory, state, max_steps, last_seen `

const selectRunner = "SELECT " + runnerColumns + "FROM runner JOIN runner_doc USING (n) "

func scanRunner(row scanner, r *store.Runner) error {
	return row.Scan(&r.ID, &r.Subject, &r.Name, &r.Platform, &r.Version, asTime{&r.Created},
		&r.Generation, asTime{&r.Used}, asTime{&r.Revoked}, &r.Cursor, &r.Epoch, &r.Journal, &r.Reports,
		(*[]byte)(&r.Record), (*[]byte)(&r.Inventory), &r.State, &r.MaxSteps, asTime{&r.LastSeen})
}

func (r *reader) Runner(s store.Subject, id store.RunnerID) (store.Runner, error) {
	return one(r, scanRunner, selectRunner+"WHERE id = ? AND subject = ?", id, s)
}

func (r *reader) RunnerOfAll(id store.RunnerID) (store.Runner, error) {
	return one(r, scanRunner, selectRunner+"WHERE id = ?", id)
}

func (r *reader) Runners(s store.Subject) iter.Seq2[store.Runner, error] {
	return list(r, scanRunner, selectRunner+"WHERE tenant = ? AND subject = ? ORDER BY created, runner.n", s.Tenant(), s)
}

func (r *reader) RunnersOfTenant(t store.Tenant) iter.Seq2[store.Runner, error] {
	return list(r, scanRunner, selectRunner+"WHERE tenant = ? ORDER BY created, runner.n", t)
}

// AllRunnersHolding goes from one runner to the next by the index of accepted steps.
func (r *reader) AllRunnersHolding() iter.Seq2[store.Runner, error] {
	return list(r, scanRunner, `
		WITH RECURSIVE found (runner) AS (
			SELECT min(runner) FROM step_now WHERE state = 'accepted'
			UNION ALL
			SELECT (SELECT min(runner) FROM step_now WHERE state = 'accepted' AND runner > found.runner)
			FROM found WHERE found.runner IS NOT NULL)
		SELECT `+runnerColumns+`FROM found CROSS JOIN runner ON id = found.runner JOIN runner_doc USING (n) ORDER BY id`)
}

func (t *tx) CreateRunner(r store.Runner) error {
	n, err := t.insert(`INSERT INTO runner (id, tenant, subject, name, platform, version, created, generation, used, revoked,
			cursor, epoch, journal, reports, state, max_steps, last_seen)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.ID, r.Subject.Tenant(), r.Subject, r.Name, r.Platform, r.Version, micros(r.Created), r.Generation, micros(r.Used),
		micros(r.Revoked), r.Cursor, r.Epoch, r.Journal, r.Reports, r.State, r.MaxSteps, micros(r.LastSeen))
	if err != nil {
		return err
	}
	return t.put("INSERT INTO runner_doc (n, record, inventory) VALUES (?, ?, ?)", n, blob(r.Record), blob(r.Inventory))
}

func (t *tx) MoveRunner(expect int64, next store.Runner) error {
	n, err := take(t, scanInt, `UPDATE runner SET epoch = ?, journal = ?, reports = ?, state = ?, max_steps = ?, last_seen = ?
		WHERE id = ? AND subject = ? AND epoch = ? RETURNING n`,
		next.Epoch, next.Journal, next.Reports, next.State, next.MaxSteps, micros(next.LastSeen), next.ID, next.Subject, expect)
	if err != nil {
		return asConflict(err)
	}
	record, inventory := blob(next.Record), blob(next.Inventory)
	return t.put(`UPDATE runner_doc SET record = ?, inventory = ? WHERE n = ? AND (record IS NOT ? OR inventory IS NOT ?)`,
		record, inventory, n, record, inventory)
}

func (t *tx) NextSeq(s store.Subject, id store.RunnerID) (int64, error) {
	seq, err := take(t, scanInt, "UPDATE runner SET cursor = cursor + 1 WHERE id = ? AND subject = ? AND revoked = 0 RETURNING cursor",
		id, s)
	return seq, asConflict(err)
}

func (t *tx) RaiseCursor(s store.Subject, id store.RunnerID, seq int64) error {
	return t.change(store.ErrConflict, "UPDATE runner SET cursor = max(cursor, ?) WHERE id = ? AND subject = ?", seq, id, s)
}

func (t *tx) MoveFamily(id store.RunnerID, expect, next int64, at time.Time) error {
	return t.change(store.ErrConflict, "UPDATE runner SET generation = ?, used = ? WHERE id = ? AND generation = ?",
		next, micros(at), id, expect)
}

func (t *tx) RevokeRunner(s store.Subject, id store.RunnerID, at time.Time) error {
	n, err := t.exec("UPDATE runner SET revoked = ? WHERE id = ? AND subject = ? AND revoked = 0", micros(at), id, s)
	if err != nil {
		return err
	}
	if n == 0 {
		_, err := t.Runner(s, id)
		return err
	}
	return t.put("INSERT INTO revocation (runner) VALUES (?)", id)
}

func (t *tx) TouchRunner(s store.Subject, id store.RunnerID, seen time.Time) error {
	return t.change(store.ErrNotFound, "UPDATE runner SET last_seen = ? WHERE id = ? AND subject = ?", micros(seen), id, s)
}

func (r *reader) Revocations(after int64) iter.Seq2[store.Revocation, error] {
	return list(r, func(row scanner, v *store.Revocation) error { return row.Scan(&v.Seq, &v.Runner) },
		"SELECT seq, runner FROM revocation WHERE seq > ? ORDER BY seq", after)
}

const selectPairing = "SELECT device, user_code, name, platform, version, state, subject, runner, issued, expires FROM pairing "

func scanPairing(row scanner, p *store.Pairing) error {
	return row.Scan(asHash{&p.Device}, &p.UserCode, &p.Name, &p.Platform, &p.Version, &p.State, &p.Subject, &p.Runner,
		asTime{&p.Issued}, asTime{&p.Expires})
}

func (r *reader) PairingByDevice(code store.Hash) (store.Pairing, error) {
	return one(r, scanPairing, selectPairing+"WHERE device = ?", code[:])
}

func (r *reader) PairingByUserCode(code string) (store.Pairing, error) {
	return one(r, scanPairing, selectPairing+"WHERE user_code = ?", code)
}

func (t *tx) CreatePairing(p store.Pairing) error {
	return t.put(`INSERT INTO pairing (device, user_code, name, platform, version, state, subject, runner, issued, expires)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		p.Device[:], p.UserCode, p.Name, p.Platform, p.Version, p.State, p.Subject, p.Runner, micros(p.Issued), micros(p.Expires))
}

func (t *tx) MovePairing(expect store.PairingState, next store.Pairing) error {
	return t.change(store.ErrConflict, `UPDATE pairing SET state = ?, subject = ?, runner = ?, issued = ?, expires = ?
		WHERE device = ? AND state = ?`,
		next.State, next.Subject, next.Runner, micros(next.Issued), micros(next.Expires), next.Device[:], expect)
}
