package storetest

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"runnerd/gateway/store"
)

var runCases = map[string]func(*testing.T, store.Store){
	"CreateRun/starts an empty log and refuses the second of an id": func(t *testing.T, s store.Store) {
		r := aRun(ann, "r1")
		began := r
		began.LastSeq = 7
		write(t, s, func(tx store.Tx) error { return tx.CreateRun(began) })
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.CreateRun(aRun(bob, "r1")) })
		write(t, s, func(tx store.Tx) error { return tx.CreateRun(aRun(foreign, "r1")) })
		read(t, s, func(v store.Reader) { same(t, r)(v.Run(acme, "r1")) })
	},
	"Run/of another tenant is not found": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error { return tx.CreateRun(aRun(ann, "r1")) })
		read(t, s, func(v store.Reader) {
			fails[store.Run](t, store.ErrNotFound)(v.Run(rival, "r1"))
			fails[store.Run](t, store.ErrNotFound)(v.Run(acme, "r2"))
		})
	},
	"Run/of any name is itself": func(t *testing.T, s store.Store) { // names are asked for from outside
		ids := []store.RunID{"", "a\x00b", "a", "\xff", "\xc3", "\x1a00", "r'; DROP TABLE run; --", "ä"}
		for _, id := range ids {
			read(t, s, func(v store.Reader) { fails[store.Run](t, store.ErrNotFound)(v.Run(acme, id)) })
			r := aRun(ann, "r1")
			r.ID = id
			write(t, s, func(tx store.Tx) error { return tx.CreateRun(r) })
			read(t, s, func(v store.Reader) { same(t, r)(v.Run(acme, id)) })
		}
	},
	"Run/keeps a large request": func(t *testing.T, s store.Store) {
		r := aRun(ann, "r1")
		r.Request = large(1 << 20)
		write(t, s, func(tx store.Tx) error { return tx.CreateRun(r) })
		write(t, s, func(tx store.Tx) error { return tx.Append(acme, "r1", "running", at(1), events(0, 1)) })
		r.Status, r.LastSeq, r.Updated = "running", 0, at(1)
		read(t, s, func(v store.Reader) { same(t, r)(v.Run(acme, "r1")) })
	},
	"Runs/come newest first, before a moment, of one subject": func(t *testing.T, s store.Store) {
		var runs []store.Run
		for i, id := range []store.RunID{"r0", "r1", "r2", "r3"} {
			r := aRun(ann, id)
			r.Created = at(i)
			if id == "r2" {
				r.Created = at(1) // at the same moment as r1: the one that was created later comes first
			}
			runs = append(runs, r)
		}
		write(t, s, func(tx store.Tx) error {
			return all(tx.CreateRun(runs[3]), tx.CreateRun(runs[1]), tx.CreateRun(runs[0]), tx.CreateRun(runs[2]),
				tx.CreateRun(aRun(bob, "x1")), tx.CreateRun(aRun(foreign, "x2")), tx.CreateRun(aRun(annWork, "x3")))
		})
		read(t, s, func(v store.Reader) {
			lists(t, v.Runs(acme, ann, time.Time{}, 10), runs[3], runs[2], runs[1], runs[0])
			lists(t, v.Runs(acme, ann, time.Time{}, 2), runs[3], runs[2])
			lists(t, v.Runs(acme, ann, at(1), 10), runs[0])
			lists(t, v.Runs(acme, ann, at(9), 0))
		})
	},

	"Append/adds to the end and sets the status": func(t *testing.T, s store.Store) {
		r := aRun(ann, "r1")
		write(t, s, func(tx store.Tx) error { return tx.CreateRun(r) })
		write(t, s, func(tx store.Tx) error { return tx.Append(acme, "r1", "running", at(5), events(0, 2)) })
		write(t, s, func(tx store.Tx) error { return tx.Append(acme, "r1", "paused", at(6), events(2, 1)) })
		r.Status, r.LastSeq, r.Updated = "paused", 2, at(6)
		read(t, s, func(v store.Reader) {
			same(t, r)(v.Run(acme, "r1"))
			lists(t, v.Events(acme, "r1", -1, 10), events(0, 3)...)
		})
	},
	"Append/refuses a gap, a repeat, and a run that is not there": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error {
			return all(tx.CreateRun(aRun(ann, "r1")), tx.Append(acme, "r1", "running", at(1), events(0, 2)))
		})
		for _, first := range []int64{0, 1, 3} {
			refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.Append(acme, "r1", "running", at(2), events(first, 1)) })
		}
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.Append(acme, "r2", "running", at(2), events(0, 1)) })
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.Append(rival, "r1", "running", at(2), events(2, 1)) })
		read(t, s, func(v store.Reader) { lists(t, v.Events(acme, "r1", -1, 10), events(0, 2)...) })
	},
	"Append/refuses events that do not follow each other": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error { return tx.CreateRun(aRun(ann, "r1")) })
		err := s.Update(t.Context(), func(tx store.Tx) error {
			return tx.Append(acme, "r1", "running", at(2), append(events(0, 1), events(2, 1)...))
		})
		if err == nil || errors.Is(err, store.ErrConflict) {
			t.Errorf("got %v, want an error that is no conflict", err)
		}
	},
	"Append/is refused once the run is terminal": func(t *testing.T, s store.Store) {
		for i, status := range []string{"completed", "failed", "cancelled"} {
			id := store.RunID(status)
			write(t, s, func(tx store.Tx) error {
				return all(tx.CreateRun(aRun(ann, id)), tx.Append(acme, id, status, at(i), events(0, 1)))
			})
			refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.Append(acme, id, "running", at(9), events(1, 1)) })
			refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.Append(acme, id, "running", at(9), nil) })
		}
	},
	"Append/without events only sets the status": func(t *testing.T, s store.Store) {
		r := aRun(ann, "r1")
		write(t, s, func(tx store.Tx) error {
			return all(tx.CreateRun(r), tx.Append(acme, "r1", "running", at(1), events(0, 1)),
				tx.Append(acme, "r1", "paused", at(2), nil))
		})
		r.Status, r.LastSeq, r.Updated = "paused", 0, at(2)
		read(t, s, func(v store.Reader) { same(t, r)(v.Run(acme, "r1")) })
	},

	"Events/come ascending, after a sequence, up to a limit": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error {
			return all(tx.CreateRun(aRun(ann, "r1")), tx.CreateRun(aRun(ann, "r2")),
				tx.Append(acme, "r1", "running", at(1), events(0, 300)), tx.Append(acme, "r2", "running", at(1), events(0, 2)))
		})
		read(t, s, func(v store.Reader) {
			lists(t, v.Events(acme, "r1", -1, 2), events(0, 2)...)
			lists(t, v.Events(acme, "r1", 296, 10), events(297, 3)...)
			lists(t, v.Events(acme, "r1", 299, 10))
			lists(t, v.Events(acme, "r1", 1<<40, 10))
			lists(t, v.Events(acme, "r1", -1, 0))
			lists(t, v.Events(acme, "r2", -1, 10), events(0, 2)...)
			lists(t, v.Events(acme, "r3", -1, 10))
		})
	},
	"Events/keep large documents byte for byte": func(t *testing.T, s store.Store) {
		e := store.Event{Seq: 0, Type: "node.completed", Doc: large(1 << 20)}
		write(t, s, func(tx store.Tx) error {
			return all(tx.CreateRun(aRun(ann, "r1")), tx.Append(acme, "r1", "running", at(1), []store.Event{e}))
		})
		read(t, s, func(v store.Reader) { lists(t, v.Events(acme, "r1", -1, 1), e) })
	},

	"PutTimer/replaces one of the same id": func(t *testing.T, s store.Store) {
		one := store.Timer{Tenant: acme, Run: "r1", ID: "a", Due: at(5)}
		write(t, s, func(tx store.Tx) error { return all(tx.CreateRun(aRun(ann, "r1")), tx.PutTimer(one)) })
		one.Due = at(3)
		write(t, s, func(tx store.Tx) error { return tx.PutTimer(one) })
		read(t, s, func(v store.Reader) { lists(t, v.AllDueTimers(at(9), 10), one) })
		refused(t, s, store.ErrNotFound, func(tx store.Tx) error {
			return tx.PutTimer(store.Timer{Tenant: rival, Run: "r1", ID: "a", Due: at(1)})
		})
	},
	"DeleteTimer/takes one": func(t *testing.T, s store.Store) {
		_, b := timers(t, s)
		write(t, s, func(tx store.Tx) error {
			return all(tx.DeleteTimer(acme, "r1", "a"), tx.DeleteTimer(acme, "r1", "none"))
		})
		read(t, s, func(v store.Reader) { lists(t, v.AllDueTimers(at(9), 10), b) })
	},
	"DeleteTimers/takes those of the run": func(t *testing.T, s store.Store) {
		timers(t, s)
		other := store.Timer{Tenant: acme, Run: "r2", ID: "a", Due: at(5)}
		write(t, s, func(tx store.Tx) error {
			return all(tx.CreateRun(aRun(ann, "r2")), tx.PutTimer(other), tx.DeleteTimers(acme, "r1"))
		})
		read(t, s, func(v store.Reader) { lists(t, v.AllDueTimers(at(9), 10), other) })
	},
	"AllDueTimers/come by due, up to now": func(t *testing.T, s store.Store) {
		a, b := timers(t, s)
		read(t, s, func(v store.Reader) {
			lists(t, v.AllDueTimers(a.Due, 10), b, a)
			lists(t, v.AllDueTimers(a.Due, 1), b)
			lists(t, v.AllDueTimers(b.Due, 10), b)
			lists(t, v.AllDueTimers(b.Due.Add(-time.Microsecond), 10))
			lists(t, v.AllDueTimers(a.Due, 0))
		})
	},
}

// timers puts two on a run, of which the second is due first.
func timers(t *testing.T, s store.Store) (a, b store.Timer) {
	a = store.Timer{Tenant: acme, Run: "r1", ID: "a", Due: at(5)}
	b = store.Timer{Tenant: acme, Run: "r1", ID: "b", Due: at(4)}
	write(t, s, func(tx store.Tx) error { return all(tx.CreateRun(aRun(ann, "r1")), tx.PutTimer(a), tx.PutTimer(b)) })
	return a, b
}

// large is a document of about n bytes that holds every byte value there is.
func large(n int) json.RawMessage {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}
