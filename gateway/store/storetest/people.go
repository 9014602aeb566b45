package storetest

import (
	"testing"
	"time"

	"runnerd/gateway/store"
)

var peopleCases = map[string]func(*testing.T, store.Store){
	"Meta/is not found before it is put": func(t *testing.T, s store.Store) {
		read(t, s, func(r store.Reader) { fails[[]byte](t, store.ErrNotFound)(r.Meta("secret")) })
	},
	"PutMeta/replaces what was there": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error { return all(tx.PutMeta("k", []byte("one")), tx.PutMeta("other", nil)) })
		write(t, s, func(tx store.Tx) error { return tx.PutMeta("k", []byte{0, 1, 255}) })
		read(t, s, func(r store.Reader) {
			same(t, []byte{0, 1, 255})(r.Meta("k"))
			same(t, []byte(nil))(r.Meta("other"))
		})
	},

	"CreateUser/refuses the second of a name": func(t *testing.T, s store.Store) {
		u := user(ann)
		write(t, s, func(tx store.Tx) error { return tx.CreateUser(u) })
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { u.Name = "again"; return tx.CreateUser(u) })
		read(t, s, func(r store.Reader) { same(t, user(ann))(r.User(acme, "ann")) })
	},
	"User/is as it was created": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error { return tx.CreateUser(user(ann)) })
		read(t, s, func(r store.Reader) {
			same(t, user(ann))(r.User(acme, "ann"))
			fails[store.User](t, store.ErrNotFound)(r.User(acme, "bob"))
		})
	},
	"Users/come by principal": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error {
			return all(tx.CreateUser(user(bob)), tx.CreateUser(user(foreign)), tx.CreateUser(user(ann)))
		})
		read(t, s, func(r store.Reader) { lists(t, r.Users(acme), user(ann), user(bob)) })
	},
	"AllTenants/come once each, by name": func(t *testing.T, s store.Store) {
		read(t, s, func(r store.Reader) { lists(t, r.AllTenants()) })
		write(t, s, func(tx store.Tx) error {
			return all(tx.CreateUser(user(foreign)), tx.CreateUser(user(ann)), tx.CreateUser(user(bob)))
		})
		read(t, s, func(r store.Reader) { lists(t, r.AllTenants(), acme, rival) })
	},

	"PutSignIn/replaces what was there": func(t *testing.T, s store.Store) {
		in := store.SignIn{Hash: hash(1), Subject: ann, Expires: soon(0)}
		write(t, s, func(tx store.Tx) error { return tx.PutSignIn(in) })
		in.Subject, in.Expires = bob, soon(1)
		write(t, s, func(tx store.Tx) error { return tx.PutSignIn(in) })
		write(t, s, func(tx store.Tx) error { same(t, in)(tx.TakeSignIn(hash(1))); return nil })
	},
	"TakeSignIn/gives it once": func(t *testing.T, s store.Store) {
		in := store.SignIn{Hash: hash(1), Subject: ann, Expires: soon(0)}
		write(t, s, func(tx store.Tx) error { return tx.PutSignIn(in) })
		write(t, s, func(tx store.Tx) error { same(t, in)(tx.TakeSignIn(hash(1))); return nil })
		refused(t, s, store.ErrNotFound, func(tx store.Tx) error { _, err := tx.TakeSignIn(hash(1)); return err })
	},
	"TakeSignIn/does not give what expired": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error {
			return tx.PutSignIn(store.SignIn{Hash: hash(1), Subject: ann, Expires: time.Now().Add(-time.Second)})
		})
		refused(t, s, store.ErrNotFound, func(tx store.Tx) error { _, err := tx.TakeSignIn(hash(1)); return err })
	},

	"PutSession/is found until it expires": func(t *testing.T, s store.Store) {
		good := store.Session{Hash: hash(1), Subject: ann, Created: at(1), Expires: soon(0)}
		old := store.Session{Hash: hash(2), Subject: ann, Created: at(1), Expires: time.Now().Add(-time.Second)}
		write(t, s, func(tx store.Tx) error { return all(tx.PutSession(good), tx.PutSession(old)) })
		read(t, s, func(r store.Reader) {
			same(t, good)(r.SessionByHash(hash(1)))
			fails[store.Session](t, store.ErrNotFound)(r.SessionByHash(hash(2)))
		})
		good.Expires = soon(5)
		write(t, s, func(tx store.Tx) error { return tx.PutSession(good) })
		read(t, s, func(r store.Reader) { same(t, good)(r.SessionByHash(hash(1))) })
	},
	"SessionByHash/is not found when unknown": func(t *testing.T, s store.Store) {
		read(t, s, func(r store.Reader) { fails[store.Session](t, store.ErrNotFound)(r.SessionByHash(hash(1))) })
	},
	"DeleteSession/ends it, and only it": func(t *testing.T, s store.Store) {
		kept := store.Session{Hash: hash(2), Subject: ann, Created: at(1), Expires: soon(0)}
		write(t, s, func(tx store.Tx) error {
			return all(tx.PutSession(store.Session{Hash: hash(1), Subject: ann, Expires: soon(0)}), tx.PutSession(kept))
		})
		write(t, s, func(tx store.Tx) error { return all(tx.DeleteSession(hash(1)), tx.DeleteSession(hash(9))) })
		read(t, s, func(r store.Reader) {
			fails[store.Session](t, store.ErrNotFound)(r.SessionByHash(hash(1)))
			same(t, kept)(r.SessionByHash(hash(2)))
		})
	},

	"CreateKey/refuses the second of an id or a hash": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error { return tx.CreateKey(key(ann, "k1", 1)) })
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.CreateKey(key(bob, "k1", 2)) })
		refused(t, s, store.ErrConflict, func(tx store.Tx) error { return tx.CreateKey(key(bob, "k2", 1)) })
		write(t, s, func(tx store.Tx) error { return tx.CreateKey(key(foreign, "k1", 3)) })
	},
	"KeyByHash/finds revoked and expired ones too": func(t *testing.T, s store.Store) {
		k := full[store.Key](1)
		k.Subject = ann
		write(t, s, func(tx store.Tx) error { return tx.CreateKey(k) })
		read(t, s, func(r store.Reader) {
			same(t, k)(r.KeyByHash(k.Hash))
			fails[store.Key](t, store.ErrNotFound)(r.KeyByHash(hash(99)))
		})
	},
	"Keys/come by creation": func(t *testing.T, s store.Store) {
		second, first := key(ann, "a", 2), key(bob, "b", 1)
		write(t, s, func(tx store.Tx) error {
			return all(tx.CreateKey(second), tx.CreateKey(first), tx.CreateKey(key(foreign, "c", 3)))
		})
		read(t, s, func(r store.Reader) { lists(t, r.Keys(acme), first, second) })
	},
	"RevokeKey/keeps the first time, and knows its tenant": func(t *testing.T, s store.Store) {
		k := key(ann, "k", 1)
		write(t, s, func(tx store.Tx) error { return tx.CreateKey(k) })
		refused(t, s, store.ErrNotFound, func(tx store.Tx) error { return tx.RevokeKey(rival, "k", at(5)) })
		refused(t, s, store.ErrNotFound, func(tx store.Tx) error { return tx.RevokeKey(acme, "other", at(5)) })
		write(t, s, func(tx store.Tx) error { return all(tx.RevokeKey(acme, "k", at(6)), tx.RevokeKey(acme, "k", at(7))) })
		k.Revoked = at(6)
		read(t, s, func(r store.Reader) { same(t, k)(r.KeyByHash(k.Hash)) })
	},

	"PutWorkflow/replaces what was there": func(t *testing.T, s store.Store) {
		w := full[store.Workflow](1)
		w.Tenant = acme
		write(t, s, func(tx store.Tx) error { return tx.PutWorkflow(w) })
		read(t, s, func(r store.Reader) { same(t, w)(r.Workflow(acme, w.ID)) })
		w.Doc, w.Hash, w.Updated = []byte(`{"v":2}`), hash(7), at(9)
		write(t, s, func(tx store.Tx) error { return tx.PutWorkflow(w) })
		read(t, s, func(r store.Reader) { same(t, w)(r.Workflow(acme, w.ID)) })
	},
	"Workflow/of another tenant is not found": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error { return tx.PutWorkflow(store.Workflow{Tenant: acme, ID: "w"}) })
		read(t, s, func(r store.Reader) { fails[store.Workflow](t, store.ErrNotFound)(r.Workflow(rival, "w")) })
	},
	"Workflows/come by id": func(t *testing.T, s store.Store) {
		a, b := store.Workflow{Tenant: acme, ID: "a", Doc: []byte("1")}, store.Workflow{Tenant: acme, ID: "b", Doc: []byte("2")}
		write(t, s, func(tx store.Tx) error {
			return all(tx.PutWorkflow(b), tx.PutWorkflow(store.Workflow{Tenant: rival, ID: "aa"}), tx.PutWorkflow(a))
		})
		read(t, s, func(r store.Reader) { lists(t, r.Workflows(acme), a, b) })
	},
	"Definition/is not found when unknown": func(t *testing.T, s store.Store) {
		read(t, s, func(r store.Reader) { fails[[]byte](t, store.ErrNotFound)(r.Definition(hash(1))) })
	},
	"PutDefinition/keeps the first": func(t *testing.T, s store.Store) {
		write(t, s, func(tx store.Tx) error { return tx.PutDefinition(hash(1), []byte("one")) })
		write(t, s, func(tx store.Tx) error { return tx.PutDefinition(hash(1), []byte("two")) })
		read(t, s, func(r store.Reader) { same(t, []byte("one"))(r.Definition(hash(1))) })
	},
}

// soon is a moment of the wall clock that has not come.
func soon(n int) time.Time {
	return time.Now().UTC().Truncate(time.Microsecond).Add(time.Hour + time.Duration(n)*time.Second)
}

func user(s store.Subject) store.User {
	return store.User{Tenant: s.Tenant(), Principal: s.Principal(), Subject: s, Name: "A person", Created: at(1)}
}

func key(s store.Subject, id string, n byte) store.Key {
	return store.Key{ID: id, Hash: hash(n), Subject: s, Name: id, Created: at(int(n))}
}
