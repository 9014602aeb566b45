package sqlite

import (
	"iter"
	"time"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

const selectAsk = "SELECT id, tenant, subject, runner, run, step, seq, doc, expires, created, answer, answered FROM ask "

func scanAsk(row scanner, a *store.AskRecord) error {
	return row.Scan(&a.ID, &a.Tenant, &a.Subject, &a.Runner, &a.Run, &a.Step, &a.Seq, (*[]byte)(&a.Doc),
		asTime{&a.Expires}, asTime{&a.Created}, &a.Answer, asTime{&a.Answered})
}

func (r *reader) Answers(s store.Subject, id store.RunnerID) iter.Seq2[store.AskRecord, error] {
	return list(r, scanAsk, selectAsk+"WHERE subject = ? AND runner = ? ORDER BY n", s, id)
}

func (r *reader) Asks(t store.Tenant, id store.RunID) iter.Seq2[store.AskRecord, error] {
	return list(r, scanAsk, selectAsk+"WHERE tenant = ? AND run = ? ORDER BY n", t, id)
}

func (t *tx) PutAsk(a store.AskRecord) error {
	return t.put(`INSERT INTO ask (id, tenant, subject, runner, run, step, seq, doc, expires, created, answer, answered)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (subject, id) DO NOTHING`,
		a.ID, a.Tenant, a.Subject, a.Runner, a.Run, a.Step, a.Seq, blob(a.Doc), micros(a.Expires), micros(a.Created),
		a.Answer, micros(a.Answered))
}

func (t *tx) AnswerAsk(s store.Subject, id string, answer string, at time.Time) error {
	n, err := t.exec("UPDATE ask SET answer = ?, answered = ? WHERE subject = ? AND id = ? AND answer = ''",
		answer, micros(at), s, id)
	if err != nil || n > 0 {
		return err
	}
	if _, err := one(&t.reader, scanAsk, selectAsk+"WHERE subject = ? AND id = ?", s, id); err != nil {
		return err
	}
	return store.ErrConflict
}

func (t *tx) DeleteAsks(tenant store.Tenant, id store.RunID, step store.StepID) error {
	return t.put("DELETE FROM ask WHERE tenant = ? AND run = ? AND step = ?", tenant, id, step)
}

func (r *reader) LateResults(t store.Tenant, id store.RunID) iter.Seq2[store.Late, error] {
	return list(r, func(row scanner, l *store.Late) error {
		return row.Scan(&l.Tenant, &l.Run, &l.Step, &l.Runner, &l.Seq, (*[]byte)(&l.Output), asTime{&l.At})
	}, "SELECT tenant, run, step, runner, seq, output, at FROM late WHERE tenant = ? AND run = ? ORDER BY n", t, id)
}

func (t *tx) PutLate(l store.Late) error {
	return t.put(`INSERT INTO late (tenant, run, step, runner, seq, output, at) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (runner, seq) DO NOTHING`, l.Tenant, l.Run, l.Step, l.Runner, l.Seq, blob(l.Output), micros(l.At))
}

func (r *reader) Audit(s store.Subject, after int64, limit int) iter.Seq2[store.AuditEntry, error] {
	if limit <= 0 {
		return none
	}
	return list(r, func(row scanner, e *store.AuditEntry) error {
		return row.Scan(&e.Subject, &e.Seq, asTime{&e.At}, &e.Kind, &e.Run, &e.Step, &e.Runner, &e.RunnerSeq, &e.Detail)
	}, `SELECT head.subject, seq, at, kind, run, step, runner, runner_seq, detail
		FROM audit_head AS head CROSS JOIN audit ON audit.subject = head.n
		WHERE head.subject = ? AND seq > ? ORDER BY seq LIMIT ?`, s, after, limit)
}

// AppendAudit counts in the subject's row, so that the next number is known without looking at the log.
func (t *tx) AppendAudit(e store.AuditEntry) error {
	type place struct{ subject, seq int64 }
	at, err := take(t, func(row scanner, p *place) error { return row.Scan(&p.subject, &p.seq) },
		`INSERT INTO audit_head (subject, last) VALUES (?, 1) ON CONFLICT (subject) DO UPDATE SET last = last + 1 RETURNING n, last`,
		e.Subject)
	if err != nil {
		return err
	}
	return t.put(`INSERT INTO audit (subject, seq, at, kind, run, step, runner, runner_seq, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		at.subject, at.seq, micros(e.At), e.Kind, e.Run, e.Step, e.Runner, e.RunnerSeq, e.Detail)
}

func (r *reader) Idempotent(t store.Tenant, operation, key string) (store.Idempotent, error) {
	return one(r, func(row scanner, i *store.Idempotent) error {
		return row.Scan(&i.Tenant, &i.Operation, &i.Key, asHash{&i.Digest}, &i.Status, &i.Body, asTime{&i.At})
	}, `SELECT tenant, operation, key, digest, status, body, at FROM idempotent
		WHERE tenant = ? AND operation = ? AND key = ?`, t, operation, key)
}

func (t *tx) PutIdempotent(i store.Idempotent) error {
	return t.put("INSERT INTO idempotent (tenant, operation, key, digest, status, body, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
		i.Tenant, i.Operation, i.Key, i.Digest[:], i.Status, blob(i.Body), micros(i.At))
}

// forgetMax bounds what one call of AllForget deletes of a kind, so that it holds up nobody.
const forgetMax = 500

// AllForget deletes at most forgetMax of each kind: whoever gets more than nothing calls again.
func (t *tx) AllForget(now time.Time) (int, error) {
	var total int
	forget := func(text string, until time.Time) error {
		n, err := t.exec(text, micros(until), forgetMax)
		total += int(n)
		return err
	}
	for _, f := range []struct {
		text  string
		until time.Time
	}{
		{"DELETE FROM session WHERE hash IN (SELECT hash FROM session WHERE expires <= ? ORDER BY expires LIMIT ?)", now},
		{"DELETE FROM sign_in WHERE hash IN (SELECT hash FROM sign_in WHERE expires <= ? ORDER BY expires LIMIT ?)", now},
		{"DELETE FROM pairing WHERE device IN (SELECT device FROM pairing WHERE expires <= ? ORDER BY expires LIMIT ?)", now},
		{"DELETE FROM idempotent WHERE n IN (SELECT n FROM idempotent WHERE at <= ? ORDER BY at LIMIT ?)", now.Add(-idempotentKept)},
		{"DELETE FROM late WHERE n IN (SELECT n FROM late WHERE at <= ? ORDER BY at LIMIT ?)", now.Add(-wire.LateKept)},
	} {
		if err := forget(f.text, f.until); err != nil {
			return 0, err
		}
	}
	return total, nil
}

// idempotentKept is how long the answer to an Idempotency-Key is kept (wire section 9).
const idempotentKept = 24 * time.Hour
