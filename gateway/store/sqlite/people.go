package sqlite

import (
	"encoding/json"
	"iter"
	"time"

	"runnerd/gateway/store"
)

// Meta reads a value of the gateway's own.
func (r *reader) Meta(name string) ([]byte, error) {
	return one(r, func(row scanner, b *[]byte) error { return row.Scan(b) }, "SELECT value FROM meta WHERE name = ?", name)
}

func (t *tx) PutMeta(name string, value []byte) error {
	return t.put(`INSERT INTO meta (name, value) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, blob(value))
}

const selectUser = "SELECT tenant, principal, subject, name, created FROM person "

func scanUser(row scanner, u *store.User) error {
	return row.Scan(&u.Tenant, &u.Principal, &u.Subject, &u.Name, asTime{&u.Created})
}

func (r *reader) User(t store.Tenant, p store.Principal) (store.User, error) {
	return one(r, scanUser, selectUser+"WHERE tenant = ? AND principal = ?", t, p)
}

func (r *reader) Users(t store.Tenant) iter.Seq2[store.User, error] {
	return list(r, scanUser, selectUser+"WHERE tenant = ? ORDER BY principal", t)
}

// AllTenants goes from one tenant to the next by the index, however many users each has.
func (r *reader) AllTenants() iter.Seq2[store.Tenant, error] {
	return list(r, func(row scanner, t *store.Tenant) error { return row.Scan(t) }, `
		WITH RECURSIVE found (tenant) AS (
			SELECT min(tenant) FROM person
			UNION ALL
			SELECT (SELECT min(tenant) FROM person WHERE tenant > found.tenant) FROM found WHERE found.tenant IS NOT NULL)
		SELECT tenant FROM found WHERE tenant IS NOT NULL`)
}

func (t *tx) CreateUser(u store.User) error {
	return t.put("INSERT INTO person (tenant, principal, subject, name, created) VALUES (?, ?, ?, ?, ?)",
		u.Tenant, u.Principal, u.Subject, u.Name, micros(u.Created))
}

func (t *tx) PutSignIn(in store.SignIn) error {
	return t.put(`INSERT INTO sign_in (hash, subject, expires) VALUES (?, ?, ?)
		ON CONFLICT (hash) DO UPDATE SET subject = excluded.subject, expires = excluded.expires`,
		in.Hash[:], in.Subject, micros(in.Expires))
}

func (t *tx) TakeSignIn(hash store.Hash) (store.SignIn, error) {
	return take(t, func(row scanner, in *store.SignIn) error {
		return row.Scan(asHash{&in.Hash}, &in.Subject, asTime{&in.Expires})
	}, "DELETE FROM sign_in WHERE hash = ? AND expires > ? RETURNING hash, subject, expires", hash[:], micros(t.s.opt.Wall()))
}

func (r *reader) SessionByHash(hash store.Hash) (store.Session, error) {
	return one(r, func(row scanner, s *store.Session) error {
		return row.Scan(asHash{&s.Hash}, &s.Subject, asTime{&s.Created}, asTime{&s.Expires})
	}, "SELECT hash, subject, created, expires FROM session WHERE hash = ? AND expires > ?", hash[:], micros(r.s.opt.Wall()))
}

func (t *tx) PutSession(s store.Session) error {
	return t.put(`INSERT INTO session (hash, subject, created, expires) VALUES (?, ?, ?, ?)
		ON CONFLICT (hash) DO UPDATE SET subject = excluded.subject, created = excluded.created, expires = excluded.expires`,
		s.Hash[:], s.Subject, micros(s.Created), micros(s.Expires))
}

func (t *tx) DeleteSession(hash store.Hash) error {
	return t.put("DELETE FROM session WHERE hash = ?", hash[:])
}

const selectKey = "SELECT id, hash, subject, name, scopes, created, expires, revoked FROM api_key "

func scanKey(row scanner, k *store.Key) error {
	return row.Scan(&k.ID, asHash{&k.Hash}, &k.Subject, &k.Name, asStrings{&k.Scopes},
		asTime{&k.Created}, asTime{&k.Expires}, asTime{&k.Revoked})
}

func (r *reader) KeyByHash(hash store.Hash) (store.Key, error) {
	return one(r, scanKey, selectKey+"WHERE hash = ?", hash[:])
}

func (r *reader) Keys(t store.Tenant) iter.Seq2[store.Key, error] {
	return list(r, scanKey, selectKey+"WHERE tenant = ? ORDER BY created, n", t)
}

func (t *tx) CreateKey(k store.Key) error {
	scopes, err := json.Marshal(k.Scopes)
	if err != nil {
		return err
	}
	return t.put(`INSERT INTO api_key (tenant, id, hash, subject, name, scopes, created, expires, revoked)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, k.Subject.Tenant(), k.ID, k.Hash[:], k.Subject, k.Name, string(scopes),
		micros(k.Created), micros(k.Expires), micros(k.Revoked))
}

// RevokeKey keeps the time of the first revocation.
func (t *tx) RevokeKey(tenant store.Tenant, id string, at time.Time) error {
	return t.change(store.ErrNotFound, `UPDATE api_key SET revoked = iif(revoked = 0, ?, revoked)
		WHERE tenant = ? AND id = ?`, micros(at), tenant, id)
}

const selectWorkflow = "SELECT tenant, id, hash, doc, updated FROM workflow "

func scanWorkflow(row scanner, w *store.Workflow) error {
	return row.Scan(&w.Tenant, &w.ID, asHash{&w.Hash}, &w.Doc, asTime{&w.Updated})
}

func (r *reader) Workflow(t store.Tenant, id string) (store.Workflow, error) {
	return one(r, scanWorkflow, selectWorkflow+"WHERE tenant = ? AND id = ?", t, id)
}

func (r *reader) Workflows(t store.Tenant) iter.Seq2[store.Workflow, error] {
	return list(r, scanWorkflow, selectWorkflow+"WHERE tenant = ? ORDER BY id", t)
}

func (t *tx) PutWorkflow(w store.Workflow) error {
	return t.put(`INSERT INTO workflow (tenant, id, hash, doc, updated) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (tenant, id) DO UPDATE SET hash = excluded.hash, doc = excluded.doc, updated = excluded.updated`,
		w.Tenant, w.ID, w.Hash[:], blob(w.Doc), micros(w.Updated))
}

func (r *reader) Definition(hash store.Hash) ([]byte, error) {
	return one(r, func(row scanner, b *[]byte) error { return row.Scan(b) }, "SELECT doc FROM definition WHERE hash = ?", hash[:])
}

func (t *tx) PutDefinition(hash store.Hash, doc []byte) error {
	return t.put("INSERT INTO definition (hash, doc) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING", hash[:], blob(doc))
}
