package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"runnerd/gateway/store"
)

var recordCases = map[string]func(*testing.T, store.Store){
	"PutAsk/keeps the first of an id": func(t *testing.T, s store.Store) {
		a := full[store.AskRecord](1)
		a.Tenant, a.Subject = acme, ann
		second := full[store.AskRecord](50)
		second.Tenant, second.Subject, second.ID, second.Run = acme, ann, a.ID, a.Run
		write(t, s, func(tx store.Tx) error { return all(tx.PutAsk(a), tx.PutAsk(second)) })
		read(t, s, func(v store.Reader) { lists(t, v.Asks(acme, a.Run), a) })
	},
	"Asks/of a run come by creation": func(t *testing.T, s store.Store) {
		b, a := anAsk(ann, "k1", "r1", "b"), anAsk(ann, "k2", "r1", "a")
		write(t, s, func(tx store.Tx) error {
			return all(tx.PutAsk(b), tx.PutAsk(anAsk(ann, "k1", "r2", "c")), tx.PutAsk(a))
		})
		read(t, s, func(v store.Reader) { lists(t, v.Asks(acme, "r1"), b, a) })
	},
	"Answers/of a runner come by creation, open and answered": func(t *testing.T, s store.Store) {
		b, a := anAsk(ann, "k1", "r1", "b"), anAsk(ann, "k1", "r2", "a")
		write(t, s, func(tx store.Tx) error {
			return all(tx.PutAsk(b), tx.PutAsk(anAsk(ann, "k2", "r1", "c")), tx.PutAsk(a), tx.AnswerAsk(ann, "b", "allow", at(3)))
		})
		b.Answer, b.Answered = "allow", at(3)
		read(t, s, func(v store.Reader) { lists(t, v.Answers(ann, "k1"), b, a) })
	},
	"AnswerAsk/settles it once, for its subject": func(t *testing.T, s store.Store) {
		a := anAsk(ann, "k1", "r1", "a")
		write(t, s, func(tx store.Tx) error { return tx.PutAsk(a) })
		refused(t, s, store.ErrNotFound, func(tx store.Tx) error { return tx.AnswerAsk(bob, "a", "allow", at(2)) })
		refused(t, s, store.ErrNotFound, func(tx store.Tx) error { return tx.AnswerAsk(ann, "z", "allow", at(2)) })
		write(t, s, func(tx store.Tx) error { return tx.AnswerAsk(ann, "a", "deny", at(3)) })
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.AnswerAsk(ann, "a", "allow", at(4)) })
		a.Answer, a.Answered = "deny", at(3)
		read(t, s, func(v store.Reader) { lists(t, v.Asks(acme, "r1"), a) })
	},
	"DeleteAsks/takes those of the step": func(t *testing.T, s store.Store) {
		kept := anAsk(ann, "k1", "r1", "a")
		kept.Step = "m:1:1"
		write(t, s, func(tx store.Tx) error {
			return all(tx.PutAsk(kept), tx.PutAsk(anAsk(ann, "k1", "r1", "b")), tx.PutAsk(anAsk(ann, "k1", "r1", "c")),
				tx.DeleteAsks(rival, "r1", "m:1:1"), tx.DeleteAsks(acme, "r1", "n:1:1"))
		})
		read(t, s, func(v store.Reader) { lists(t, v.Asks(acme, "r1"), kept) })
	},

	"PutLate/keeps the first of a runner and seq": func(t *testing.T, s store.Store) {
		l := full[store.Late](1)
		l.Tenant = acme
		second := l
		second.Output = json.RawMessage(`"other"`)
		write(t, s, func(tx store.Tx) error { return all(tx.PutLate(l), tx.PutLate(second)) })
		read(t, s, func(v store.Reader) { lists(t, v.LateResults(acme, l.Run), l) })
	},
	"LateResults/come as they arrived": func(t *testing.T, s store.Store) {
		a := store.Late{Tenant: acme, Run: "r1", Step: "n:1:1", Runner: "k1", Seq: 9, Output: json.RawMessage(`1`), At: at(9)}
		b := store.Late{Tenant: acme, Run: "r1", Step: "n:1:1", Runner: "k2", Seq: 1, Output: json.RawMessage(`2`), At: at(1)}
		other := store.Late{Tenant: acme, Run: "r2", Runner: "k2", Seq: 2, At: at(1)}
		write(t, s, func(tx store.Tx) error { return all(tx.PutLate(a), tx.PutLate(other), tx.PutLate(b)) })
		read(t, s, func(v store.Reader) { lists(t, v.LateResults(acme, "r1"), a, b) })
	},

	"AppendAudit/counts for each subject from 1": func(t *testing.T, s store.Store) {
		entry := func(s store.Subject, salt int, seq int64) store.AuditEntry {
			e := full[store.AuditEntry](salt)
			e.Subject, e.Seq = s, seq
			return e
		}
		for i := range 3 {
			write(t, s, func(tx store.Tx) error {
				return all(tx.AppendAudit(entry(ann, i, 99)), tx.AppendAudit(entry(bob, i+20, 0)), tx.AppendAudit(entry(ann, i+40, 0)))
			})
		}
		read(t, s, func(v store.Reader) {
			lists(t, v.Audit(bob, 0, 10), entry(bob, 20, 1), entry(bob, 21, 2), entry(bob, 22, 3))
			lists(t, v.Audit(ann, 0, 10), entry(ann, 0, 1), entry(ann, 40, 2), entry(ann, 1, 3), entry(ann, 41, 4),
				entry(ann, 2, 5), entry(ann, 42, 6))
		})
	},
	"AppendAudit/leaves no hole for a transaction that failed": func(t *testing.T, s store.Store) {
		for i := range 4 {
			_ = s.Update(t.Context(), func(tx store.Tx) error {
				if err := tx.AppendAudit(store.AuditEntry{Subject: ann, Kind: store.AuditOffer}); err != nil || i%2 == 0 {
					return store.ErrBusy
				}
				return nil
			})
		}
		read(t, s, func(v store.Reader) {
			lists(t, v.Audit(ann, 0, 10), store.AuditEntry{Subject: ann, Seq: 1, Kind: store.AuditOffer},
				store.AuditEntry{Subject: ann, Seq: 2, Kind: store.AuditOffer})
		})
	},
	"Audit/comes after a sequence, up to a limit": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error {
			for i := range 20 {
				if err := tx.AppendAudit(store.AuditEntry{Subject: ann, Detail: fmt.Sprint(i)}); err != nil {
					return err
				}
			}
			return nil
		})
		read(t, s, func(v store.Reader) {
			lists(t, v.Audit(ann, 7, 2), store.AuditEntry{Subject: ann, Seq: 8, Detail: "7"}, store.AuditEntry{Subject: ann, Seq: 9, Detail: "8"})
			lists(t, v.Audit(ann, 20, 5))
			lists(t, v.Audit(ann, 0, 0))
			lists(t, v.Audit(bob, 0, 5))
		})
	},

	"PutIdempotent/refuses the second of a key": func(t *testing.T, s store.Store) {
		i := full[store.Idempotent](1)
		i.Tenant = acme
		write(t, s, func(tx store.Tx) error { return tx.PutIdempotent(i) })
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { j := i; j.Status = 500; return tx.PutIdempotent(j) })
		for _, change := range []func(*store.Idempotent){
			func(j *store.Idempotent) { j.Tenant = rival },
			func(j *store.Idempotent) { j.Operation = "other" },
			func(j *store.Idempotent) { j.Key = "other" },
		} {
			write(t, s, func(tx store.Tx) error { j := i; change(&j); return tx.PutIdempotent(j) })
		}
		read(t, s, func(v store.Reader) { same(t, i)(v.Idempotent(acme, i.Operation, i.Key)) })
	},
	"Idempotent/is not found when unknown": func(t *testing.T, s store.Store) {
		read(t, s, func(v store.Reader) {
			fails[store.Idempotent](t, store.ErrNotFound)(v.Idempotent(acme, "runs.create", "k"))
		})
	},

	"AllForget/deletes what is past its time, and only that": func(t *testing.T, s store.Store) {
		now := soon(0)
		before, after := now.Add(-time.Microsecond), now.Add(time.Microsecond)
		pairing := func(salt int, expires time.Time) store.Pairing {
			p := full[store.Pairing](salt)
			p.Expires = expires
			return p
		}
		idempotent := func(key string, at time.Time) store.Idempotent {
			return store.Idempotent{Tenant: acme, Operation: "o", Key: key, At: at}
		}
		late := func(seq int64, at time.Time) store.Late {
			return store.Late{Tenant: acme, Run: "r", Runner: "k", Seq: seq, At: at}
		}
		day, week := 24*time.Hour, 7*24*time.Hour
		write(t, s, func(tx store.Tx) error {
			return all(
				tx.PutSession(store.Session{Hash: hash(1), Subject: ann, Expires: before}),
				tx.PutSession(store.Session{Hash: hash(2), Subject: ann, Expires: after}),
				tx.PutSignIn(store.SignIn{Hash: hash(1), Subject: ann, Expires: before}),
				tx.PutSignIn(store.SignIn{Hash: hash(2), Subject: ann, Expires: after}),
				tx.CreatePairing(pairing(1, before)), tx.CreatePairing(pairing(40, after)),
				tx.PutIdempotent(idempotent("old", before.Add(-day))), tx.PutIdempotent(idempotent("new", after.Add(-day))),
				tx.PutLate(late(1, before.Add(-week))), tx.PutLate(late(2, after.Add(-week))),
			)
		})
		write(t, s, func(tx store.Tx) error { same(t, 5)(tx.AllForget(now)); return nil })
		write(t, s, func(tx store.Tx) error { same(t, 0)(tx.AllForget(now)); return nil })
		read(t, s, func(v store.Reader) {
			fails[store.Session](t, store.ErrNotFound)(v.SessionByHash(hash(1)))
			same(t, store.Session{Hash: hash(2), Subject: ann, Expires: after})(v.SessionByHash(hash(2)))
			fails[store.Pairing](t, store.ErrNotFound)(v.PairingByDevice(pairing(1, before).Device))
			same(t, pairing(40, after))(v.PairingByDevice(pairing(40, after).Device))
			fails[store.Idempotent](t, store.ErrNotFound)(v.Idempotent(acme, "o", "old"))
			same(t, idempotent("new", after.Add(-day)))(v.Idempotent(acme, "o", "new"))
			lists(t, v.LateResults(acme, "r"), late(2, after.Add(-week)))
		})
		refused(t, s, store.ErrNotFound, func(tx store.Tx) error { _, err := tx.TakeSignIn(hash(1)); return err })
		write(t, s, func(tx store.Tx) error { _, err := tx.TakeSignIn(hash(2)); return err })
	},
	"AllForget/is bounded, and goes on where it stopped": func(t *testing.T, s store.Store) {
		const n = 1200
		write(t, s, func(tx store.Tx) error {
			for i := range n {
				if err := tx.PutLate(store.Late{Tenant: acme, Run: "r", Runner: "k", Seq: int64(i), At: at(i)}); err != nil {
					return err
				}
			}
			return nil
		})
		total := 0
		for {
			var some int
			write(t, s, func(tx store.Tx) (err error) { some, err = tx.AllForget(soon(0).AddDate(1, 0, 0)); return err })
			if total += some; some == 0 {
				break
			}
		}
		if total != n {
			t.Errorf("forgot %d of %d", total, n)
		}
	},
}

func anAsk(s store.Subject, r store.RunnerID, run store.RunID, id string) store.AskRecord {
	return store.AskRecord{
		ID: id, Tenant: s.Tenant(), Subject: s, Runner: r, Run: run, Step: "n:1:1", Seq: 1,
		Doc: json.RawMessage(`{}`), Expires: at(100), Created: at(1),
	}
}
