package sqlite

import (
	"fmt"
	"iter"
	"math"
	"time"

	"runnerd/gateway/store"
)

// An event's key is its run's number and its own: seqBits of it are the sequence.
const (
	seqBits = 24
	seqMax  = 1<<seqBits - 1
)

const selectRun = `SELECT run.id, tenant, subject, workflow, definition, request, status, last_seq, created, updated
	FROM run JOIN run_request USING (n) `

func scanRun(row scanner, r *store.Run) error {
	return row.Scan(&r.ID, &r.Tenant, &r.Subject, &r.WorkflowID, asHash{&r.Definition}, (*[]byte)(&r.Request),
		&r.Status, &r.LastSeq, asTime{&r.Created}, asTime{&r.Updated})
}

func (r *reader) Run(t store.Tenant, id store.RunID) (store.Run, error) {
	return one(r, scanRun, selectRun+"WHERE tenant = ? AND id = ?", t, id)
}

func (r *reader) Runs(t store.Tenant, s store.Subject, before time.Time, limit int) iter.Seq2[store.Run, error] {
	if limit <= 0 {
		return none
	}
	earlier := int64(math.MaxInt64)
	if !before.IsZero() {
		earlier = micros(before)
	}
	return list(r, scanRun, selectRun+"WHERE tenant = ? AND subject = ? AND created < ? ORDER BY created DESC, run.n DESC LIMIT ?",
		t, s, earlier, limit)
}

// CreateRun starts an empty log, whatever LastSeq says.
func (t *tx) CreateRun(r store.Run) error {
	n, err := t.insert(`INSERT INTO run (tenant, id, subject, workflow, definition, status, last_seq, created, updated)
		VALUES (?, ?, ?, ?, ?, ?, -1, ?, ?)`,
		r.Tenant, r.ID, r.Subject, r.WorkflowID, r.Definition[:], r.Status, micros(r.Created), micros(r.Updated))
	if err != nil {
		return err
	}
	t.run = numberedRun{r.Tenant, r.ID, r.Subject, n}
	return t.put("INSERT INTO run_request (n, request) VALUES (?, ?)", n, blob(r.Request))
}

func (r *reader) Events(t store.Tenant, id store.RunID, after int64, limit int) iter.Seq2[store.Event, error] {
	if limit <= 0 || after >= seqMax {
		return none
	}
	return list(r, func(row scanner, e *store.Event) error { return row.Scan(&e.Seq, &e.Type, &e.Doc) }, `
		SELECT k & 0xffffff, type, doc FROM run JOIN event ON k BETWEEN (n << 24) + ? AND (n << 24) + 0xffffff
		WHERE tenant = ? AND id = ? ORDER BY k LIMIT ?`, max(after, -1)+1, t, id, limit)
}

func (t *tx) Append(tenant store.Tenant, id store.RunID, status string, at time.Time, events []store.Event) error {
	run, err := t.number(tenant, id)
	if err != nil {
		return asConflict(err)
	}
	if len(events) == 0 {
		return t.change(store.ErrConflict, "UPDATE run SET status = ?, updated = ? WHERE n = ? AND "+notTerminal, status, micros(at), run.n)
	}
	first, last := events[0].Seq, events[len(events)-1].Seq
	for i, e := range events {
		if e.Seq != first+int64(i) {
			return fmt.Errorf("append to run %s: event %d has sequence %d, the first %d", id, i, e.Seq, first)
		}
	}
	if last > seqMax {
		return fmt.Errorf("append to run %s: a log holds %d events", id, seqMax+1)
	}
	if err := t.change(store.ErrConflict, "UPDATE run SET status = ?, last_seq = ?, updated = ? WHERE n = ? AND last_seq = ? AND "+notTerminal,
		status, last, micros(at), run.n, first-1); err != nil {
		return err
	}
	for _, e := range events {
		if err := t.put("INSERT INTO event (k, type, doc) VALUES (?, ?, ?)", run.n<<seqBits|e.Seq, e.Type, blob(e.Doc)); err != nil {
			return err
		}
	}
	return nil
}

const notTerminal = "status NOT IN ('completed', 'failed', 'cancelled')"

func (t *tx) PutTimer(timer store.Timer) error {
	run, err := t.number(timer.Tenant, timer.Run)
	if err != nil {
		return err
	}
	return t.put("INSERT INTO timer (run, id, due) VALUES (?, ?, ?) ON CONFLICT (run, id) DO UPDATE SET due = excluded.due",
		run.n, timer.ID, micros(timer.Due))
}

func (t *tx) DeleteTimer(tenant store.Tenant, id store.RunID, timer string) error {
	run, err := t.number(tenant, id)
	if err != nil {
		return unlessMissing(err)
	}
	return t.put("DELETE FROM timer WHERE run = ? AND id = ?", run.n, timer)
}

func (t *tx) DeleteTimers(tenant store.Tenant, id store.RunID) error {
	run, err := t.number(tenant, id)
	if err != nil {
		return unlessMissing(err)
	}
	return t.put("DELETE FROM timer WHERE run = ?", run.n)
}

func (r *reader) AllDueTimers(now time.Time, limit int) iter.Seq2[store.Timer, error] {
	if limit <= 0 {
		return none
	}
	return list(r, func(row scanner, t *store.Timer) error {
		return row.Scan(&t.Tenant, &t.Run, &t.ID, asTime{&t.Due})
	}, `SELECT tenant, run.id, timer.id, due FROM timer JOIN run ON run.n = timer.run
		WHERE due <= ? ORDER BY due, timer.run, timer.id LIMIT ?`, micros(now), limit)
}
