package postgres

import (
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"runnerd/gateway/store"
)

const (
	selectRun   = "SELECT n, id, tenant, subject, workflow, definition, request, status, last_seq, created, updated FROM run "
	selectRunBy = selectRun + "WHERE tenant = $1 AND id = $2"
)

func scanRun(rows pgx.Rows, r *knownRun) error {
	return rows.Scan(&r.n, into(&r.ID), into(&r.Tenant), into(&r.Subject), into(&r.WorkflowID), asHash{&r.Definition},
		(*[]byte)(&r.Request), into(&r.Status), &r.LastSeq, asTime{&r.Created}, asTime{&r.Updated})
}

func (r *reader) Run(t store.Tenant, id store.RunID) (store.Run, error) {
	run, err := one(r, ofRun(t, id), scanRun, selectRunBy, text(t), text(id))
	return run.Run, err
}

// run gives a run as this function knows it.
func (t *tx) run(tenant store.Tenant, id store.RunID) (*knownRun, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	at := runKey{tenant, id}
	if r, ok := t.runs[at]; ok {
		return r, nil
	}
	r, err := one(&t.reader, ofRun(tenant, id), scanRun, selectRunBy, text(tenant), text(id))
	if err != nil {
		return nil, err
	}
	t.runs[at] = &r
	return &r, nil
}

func (t *tx) Run(tenant store.Tenant, id store.RunID) (store.Run, error) {
	r, err := t.run(tenant, id)
	if err != nil {
		return store.Run{}, err
	}
	return r.Run, nil
}

func (r *reader) Runs(t store.Tenant, s store.Subject, before time.Time, limit int) iter.Seq2[store.Run, error] {
	if limit <= 0 {
		return none
	}
	earlier := int64(math.MaxInt64)
	if !before.IsZero() {
		earlier = micros(before)
	}
	// A tenant joined with nothing is one that the planner cannot look for by the index of ids.
	return list(r, ofSubject(s), func(rows pgx.Rows, r *store.Run) error {
		var k knownRun
		err := scanRun(rows, &k)
		*r = k.Run
		return err
	}, selectRun+"WHERE tenant || '' = $1 AND subject = $2 AND created < $3 ORDER BY created DESC, n DESC LIMIT $4", text(t), text(s), earlier, limit)
}

// CreateRun starts an empty log, whatever LastSeq says.
func (t *tx) CreateRun(r store.Run) error {
	r = keptRun(r)
	r.LastSeq = -1
	n, err := take(t, ofSubject(r.Subject), func(rows pgx.Rows, n *int64) error { return rows.Scan(n) },
		`INSERT INTO run (tenant, id, subject, workflow, definition, request, status, last_seq, created, updated)
		VALUES ($1, $2, $3, $4, $5, $6, $7, -1, $8, $9) ON CONFLICT DO NOTHING RETURNING n`,
		text(r.Tenant), text(r.ID), text(r.Subject), text(r.WorkflowID), r.Definition[:], blob(r.Request), text(r.Status),
		micros(r.Created), micros(r.Updated))
	if err != nil {
		return asConflict(err)
	}
	t.runs[runKey{r.Tenant, r.ID}] = &knownRun{Run: r, n: n, fresh: true}
	t.ours[ofRun(r.Tenant, r.ID)] = true
	return nil
}

func (r *reader) Events(t store.Tenant, id store.RunID, after int64, limit int) iter.Seq2[store.Event, error] {
	if limit <= 0 {
		return none
	}
	return list(r, ofRun(t, id), func(rows pgx.Rows, e *store.Event) error { return rows.Scan(&e.Seq, into(&e.Type), &e.Doc) },
		`SELECT seq, type, doc FROM event WHERE run = (SELECT n FROM run WHERE tenant = $1 AND id = $2) AND seq > $3
		ORDER BY seq LIMIT $4`, text(t), text(id), after, limit)
}

func (t *tx) Append(tenant store.Tenant, id store.RunID, status string, at time.Time, events []store.Event) error {
	run, err := t.run(tenant, id)
	if err != nil {
		return asConflict(err)
	}
	for i, e := range events {
		if e.Seq != events[0].Seq+int64(i) {
			return fmt.Errorf("append to run %s: event %d has sequence %d, the first %d", id, i, e.Seq, events[0].Seq)
		}
	}
	if store.Terminal(run.Status) || len(events) > 0 && events[0].Seq != run.LastSeq+1 {
		return store.ErrConflict
	}
	was := run.LastSeq
	run.Status, run.Updated, run.LastSeq = status, keptTime(at), was+int64(len(events))
	if len(events) == 0 {
		return t.write(1, "UPDATE run SET status = $1, updated = $2 WHERE n = $3 AND last_seq = $4 AND "+notTerminal,
			text(status), micros(at), run.n, was)
	}
	seqs, types, docs := make([]int64, len(events)), make([]string, len(events)), make([][]byte, len(events))
	for i, e := range events {
		seqs[i], types[i], docs[i] = e.Seq, text(e.Type), blob(e.Doc)
	}
	return t.write(int64(len(events)), `WITH moved AS (
			UPDATE run SET status = $1, updated = $2, last_seq = $3 WHERE n = $4 AND last_seq = $5 AND `+notTerminal+` RETURNING n)
		INSERT INTO event (run, seq, type, doc)
		SELECT n, seq, type, doc FROM moved, unnest($6::bigint[], $7::text[], $8::bytea[]) AS new (seq, type, doc)`,
		text(status), micros(at), run.LastSeq, run.n, was, seqs, types, docs)
}

const notTerminal = "status NOT IN ('completed', 'failed', 'cancelled')"

func (t *tx) PutTimer(timer store.Timer) error {
	run, err := t.run(timer.Tenant, timer.Run)
	if err != nil {
		return err
	}
	return t.write(1, `INSERT INTO timer (tenant, run, id, subject, due) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (tenant, run, id) DO UPDATE SET due = excluded.due`,
		text(timer.Tenant), text(timer.Run), text(timer.ID), text(run.Subject), micros(timer.Due))
}

func (t *tx) DeleteTimer(tenant store.Tenant, id store.RunID, timer string) error {
	return t.put(ofRun(tenant, id), "DELETE FROM timer WHERE tenant = $1 AND run = $2 AND id = $3", text(tenant), text(id), text(timer))
}

func (t *tx) DeleteTimers(tenant store.Tenant, id store.RunID) error {
	return t.put(ofRun(tenant, id), "DELETE FROM timer WHERE tenant = $1 AND run = $2", text(tenant), text(id))
}

func timerInto(t *store.Timer) []any {
	return []any{into(&t.Tenant), into(&t.Run), into(&t.ID), asTime{&t.Due}}
}

func (r *reader) AllDueTimers(now time.Time, limit int) iter.Seq2[store.Timer, error] {
	if limit <= 0 {
		return none
	}
	return list(r, key{}, func(rows pgx.Rows, t *store.Timer) error { return rows.Scan(timerInto(t)...) },
		"SELECT tenant, run, id, due FROM timer WHERE due <= $1 ORDER BY due, run, id LIMIT $2", micros(now), limit)
}

// AllDueTimers leaves out what others claim, and whose subject others are at work for.
func (t *tx) AllDueTimers(now time.Time, limit int) iter.Seq2[store.Timer, error] {
	if limit <= 0 {
		return none
	}
	return claim(t, timerInto, `WITH due AS MATERIALIZED (
			SELECT tenant, run, id, subject, due FROM timer WHERE due <= $1 ORDER BY due, run, id LIMIT $2),
		mine AS MATERIALIZED (SELECT * FROM due WHERE `+lockSubject+`)
		SELECT timer.* FROM mine, LATERAL (
			SELECT tenant, run, id, due, subject FROM timer WHERE tenant = mine.tenant AND run = mine.run AND id = mine.id
				AND due + 0 <= $1 FOR UPDATE SKIP LOCKED) AS timer
		ORDER BY mine.due, mine.run, mine.id`, micros(now), limit)
}
