package postgres

import (
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

const selectAsk = "SELECT id, tenant, subject, runner, run, step, seq, doc, expires, created, answer, answered FROM ask "

func scanAsk(rows pgx.Rows, a *store.AskRecord) error {
	return rows.Scan(into(&a.ID), into(&a.Tenant), into(&a.Subject), into(&a.Runner), into(&a.Run), into(&a.Step), &a.Seq,
		(*[]byte)(&a.Doc), asTime{&a.Expires}, asTime{&a.Created}, into(&a.Answer), asTime{&a.Answered})
}

func (r *reader) Answers(s store.Subject, id store.RunnerID) iter.Seq2[store.AskRecord, error] {
	return list(r, ofSubject(s), scanAsk, selectAsk+"WHERE subject = $1 AND runner = $2 ORDER BY n", text(s), text(id))
}

func (r *reader) Asks(t store.Tenant, id store.RunID) iter.Seq2[store.AskRecord, error] {
	return list(r, ofRun(t, id), scanAsk, selectAsk+"WHERE tenant = $1 AND run = $2 ORDER BY n", text(t), text(id))
}

func (t *tx) PutAsk(a store.AskRecord) error {
	return t.put(ofSubject(a.Subject), `INSERT INTO ask (id, tenant, subject, runner, run, step, seq, doc, expires, created, answer, answered)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (subject, id) DO NOTHING`,
		text(a.ID), text(a.Tenant), text(a.Subject), text(a.Runner), text(a.Run), text(a.Step), a.Seq, blob(a.Doc), micros(a.Expires),
		micros(a.Created), text(a.Answer), micros(a.Answered))
}

func (t *tx) AnswerAsk(s store.Subject, id string, answer string, at time.Time) error {
	n, err := t.exec(ofSubject(s), "UPDATE ask SET answer = $1, answered = $2 WHERE subject = $3 AND id = $4 AND answer = ''",
		text(answer), micros(at), text(s), text(id))
	if err != nil || n > 0 {
		return err
	}
	if _, err := one(&t.reader, ofSubject(s), scanAsk, selectAsk+"WHERE subject = $1 AND id = $2", text(s), text(id)); err != nil {
		return err
	}
	return store.ErrConflict
}

func (t *tx) DeleteAsks(tenant store.Tenant, id store.RunID, step store.StepID) error {
	return t.put(ofRun(tenant, id), "DELETE FROM ask WHERE tenant = $1 AND run = $2 AND step = $3", text(tenant), text(id), text(step))
}

func (r *reader) LateResults(t store.Tenant, id store.RunID) iter.Seq2[store.Late, error] {
	return list(r, ofRun(t, id), func(rows pgx.Rows, l *store.Late) error {
		return rows.Scan(into(&l.Tenant), into(&l.Run), into(&l.Step), into(&l.Runner), &l.Seq, (*[]byte)(&l.Output), asTime{&l.At})
	}, "SELECT tenant, run, step, runner, seq, output, at FROM late WHERE tenant = $1 AND run = $2 ORDER BY n", text(t), text(id))
}

func (t *tx) PutLate(l store.Late) error {
	return t.put(ofRun(l.Tenant, l.Run), `INSERT INTO late (tenant, run, step, runner, seq, output, at) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (runner, seq) DO NOTHING`, text(l.Tenant), text(l.Run), text(l.Step), text(l.Runner), l.Seq, blob(l.Output), micros(l.At))
}

func (r *reader) Audit(s store.Subject, after int64, limit int) iter.Seq2[store.AuditEntry, error] {
	if limit <= 0 {
		return none
	}
	return list(r, ofSubject(s), func(rows pgx.Rows, e *store.AuditEntry) error {
		e.Subject = s
		return rows.Scan(&e.Seq, asTime{&e.At}, into(&e.Kind), into(&e.Run), into(&e.Step), into(&e.Runner), &e.RunnerSeq, into(&e.Detail))
	}, `SELECT seq, at, kind, run, step, runner, runner_seq, detail
		FROM audit WHERE subject = (SELECT n FROM audit_head WHERE subject = $1) AND seq > $2 ORDER BY seq LIMIT $3`, text(s), after, limit)
}

// Audit gives what this transaction adds too, with the numbers that it will have.
func (t *tx) Audit(s store.Subject, after int64, limit int) iter.Seq2[store.AuditEntry, error] {
	return func(yield func(store.AuditEntry, error) bool) {
		var last int64
		var found bool
		before := row(&last, &found, func(rows pgx.Rows, n *int64) error { return rows.Scan(n) },
			"SELECT last FROM audit_head WHERE subject = $1", text(s))
		if err := t.ask(ofSubject(s), before); err != nil {
			yield(store.AuditEntry{}, err)
			return
		}
		for e, err := range t.reader.Audit(s, after, limit) {
			if limit--; !yield(e, err) || err != nil {
				return
			}
		}
		for _, e := range slices.Concat(t.g.audits, t.audits) {
			if e.Subject != s {
				continue
			}
			last++
			e.Seq, e.At = last, keptTime(e.At)
			if last > after && limit > 0 {
				if limit--; !yield(e, nil) {
					return
				}
			}
		}
	}
}

// AppendAudit is carried out with the commit, for all functions at once.
func (t *tx) AppendAudit(e store.AuditEntry) error {
	if err := t.hold(ofSubject(e.Subject)); err != nil {
		return err
	}
	t.wrote = true
	t.audits = append(t.audits, e)
	return nil
}

// appendAudits counts in the subjects' rows, so that the next numbers are known without looking at the logs.
func appendAudits(all []store.AuditEntry) query {
	n := len(all)
	subjects, kinds, runs, steps := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	runners, details, ats, seqs := make([]string, n), make([]string, n), make([]int64, n), make([]int64, n)
	for i, e := range all {
		subjects[i], kinds[i], runs[i], steps[i] = text(e.Subject), text(e.Kind), text(e.Run), text(e.Step)
		runners[i], details[i], ats[i], seqs[i] = text(e.Runner), text(e.Detail), micros(e.At), e.RunnerSeq
	}
	return query{rows: int64(n), write: true, text: `WITH new AS (
			SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[])
				WITH ORDINALITY AS new (subject, at, kind, run, step, runner, runner_seq, detail, place)),
		head AS (
			INSERT INTO audit_head (subject, last) SELECT subject, count(*) FROM new GROUP BY subject ORDER BY subject
			ON CONFLICT (subject) DO UPDATE SET last = audit_head.last + excluded.last RETURNING n, subject, last)
		INSERT INTO audit (subject, seq, at, kind, run, step, runner, runner_seq, detail)
		SELECT n, last - count(*) OVER (PARTITION BY subject) + row_number() OVER (PARTITION BY subject ORDER BY place),
			at, kind, run, step, runner, runner_seq, detail
		FROM new JOIN head USING (subject)`, args: []any{subjects, ats, kinds, runs, steps, runners, seqs, details}}
}

func ofIdempotent(t store.Tenant, operation, name string) key {
	return of("idempotent", string(t), operation, name)
}

func (r *reader) Idempotent(t store.Tenant, operation, name string) (store.Idempotent, error) {
	return one(r, ofIdempotent(t, operation, name), func(rows pgx.Rows, i *store.Idempotent) error {
		return rows.Scan(into(&i.Tenant), into(&i.Operation), into(&i.Key), asHash{&i.Digest}, &i.Status, &i.Body, asTime{&i.At})
	}, `SELECT tenant, operation, key, digest, status, body, at FROM idempotent
		WHERE tenant = $1 AND operation = $2 AND key = $3`, text(t), text(operation), text(name))
}

// Idempotent remembers that a key is not in use, so that using it needs no answer.
func (t *tx) Idempotent(tenant store.Tenant, operation, name string) (store.Idempotent, error) {
	i, err := t.reader.Idempotent(tenant, operation, name)
	t.vacant[ofIdempotent(tenant, operation, name)] = err == store.ErrNotFound
	return i, err
}

func (t *tx) PutIdempotent(i store.Idempotent) error {
	by := ofIdempotent(i.Tenant, i.Operation, i.Key)
	const insert = "INSERT INTO idempotent (tenant, operation, key, digest, status, body, at) VALUES ($1, $2, $3, $4, $5, $6, $7)"
	args := []any{text(i.Tenant), text(i.Operation), text(i.Key), i.Digest[:], i.Status, blob(i.Body), micros(i.At)}
	if t.vacant[by] {
		t.vacant[by] = false
		return t.write(1, insert, args...)
	}
	return t.create(by, insert, args...)
}

// forgetMax bounds what one call of AllForget deletes of a kind, so that it holds up nobody.
const forgetMax = 500

// AllForget deletes at most forgetMax of each kind: whoever gets more than nothing calls again.
func (t *tx) AllForget(now time.Time) (int, error) {
	var total int
	for _, f := range []struct {
		text  string
		until time.Time
	}{
		{"DELETE FROM session WHERE ctid = ANY (ARRAY (SELECT ctid FROM session WHERE expires <= $1 ORDER BY expires LIMIT $2 FOR UPDATE SKIP LOCKED))", now},
		{"DELETE FROM sign_in WHERE ctid = ANY (ARRAY (SELECT ctid FROM sign_in WHERE expires <= $1 ORDER BY expires LIMIT $2 FOR UPDATE SKIP LOCKED))", now},
		{"DELETE FROM pairing WHERE ctid = ANY (ARRAY (SELECT ctid FROM pairing WHERE expires <= $1 ORDER BY expires LIMIT $2 FOR UPDATE SKIP LOCKED))", now},
		{"DELETE FROM idempotent WHERE ctid = ANY (ARRAY (SELECT ctid FROM idempotent WHERE at <= $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED))",
			now.Add(-idempotentKept)},
		{"DELETE FROM late WHERE ctid = ANY (ARRAY (SELECT ctid FROM late WHERE at <= $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED))", now.Add(-wire.LateKept)},
	} {
		n, err := t.exec(key{}, f.text, micros(f.until), forgetMax)
		if err != nil {
			return 0, err
		}
		total += int(n)
	}
	return total, nil
}

// idempotentKept is how long the answer to an Idempotency-Key is kept (wire section 9).
const idempotentKept = 24 * time.Hour
