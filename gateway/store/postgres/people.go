package postgres

import (
	"encoding/json"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"runnerd/gateway/store"
)

func scanBytes(rows pgx.Rows, b *[]byte) error { return rows.Scan(b) }

// Meta reads a value of the gateway's own.
func (r *reader) Meta(name string) ([]byte, error) {
	return one(r, of("meta", name), scanBytes, "SELECT value FROM meta WHERE name = $1", text(name))
}

func (t *tx) PutMeta(name string, value []byte) error {
	return t.put(of("meta", name), `INSERT INTO meta (name, value) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, text(name), blob(value))
}

const selectUser = "SELECT tenant, principal, subject, name, created FROM person "

func scanUser(rows pgx.Rows, u *store.User) error {
	return rows.Scan(into(&u.Tenant), into(&u.Principal), into(&u.Subject), into(&u.Name), asTime{&u.Created})
}

func (r *reader) User(t store.Tenant, p store.Principal) (store.User, error) {
	return one(r, key{}, scanUser, selectUser+"WHERE tenant = $1 AND principal = $2", text(t), text(p))
}

func (r *reader) Users(t store.Tenant) iter.Seq2[store.User, error] {
	return list(r, key{}, scanUser, selectUser+"WHERE tenant = $1 ORDER BY principal", text(t))
}

// AllTenants goes from one tenant to the next by the index, however many users each has.
func (r *reader) AllTenants() iter.Seq2[store.Tenant, error] {
	return list(r, key{}, func(rows pgx.Rows, t *store.Tenant) error { return rows.Scan(into(t)) }, `
		WITH RECURSIVE found (tenant) AS (
			(SELECT tenant FROM person ORDER BY tenant LIMIT 1)
			UNION ALL
			SELECT (SELECT tenant FROM person WHERE tenant > found.tenant ORDER BY tenant LIMIT 1)
			FROM found WHERE found.tenant IS NOT NULL)
		SELECT tenant FROM found WHERE tenant IS NOT NULL`)
}

func (t *tx) CreateUser(u store.User) error {
	return t.create(ofSubject(u.Subject), "INSERT INTO person (tenant, principal, subject, name, created) VALUES ($1, $2, $3, $4, $5)",
		text(u.Tenant), text(u.Principal), text(u.Subject), text(u.Name), micros(u.Created))
}

func ofHash(kind string, hash store.Hash) key { return of(kind, string(hash[:])) }

func (t *tx) PutSignIn(in store.SignIn) error {
	return t.put(ofHash("sign_in", in.Hash), `INSERT INTO sign_in (hash, subject, expires) VALUES ($1, $2, $3)
		ON CONFLICT (hash) DO UPDATE SET subject = excluded.subject, expires = excluded.expires`,
		in.Hash[:], text(in.Subject), micros(in.Expires))
}

// TakeSignIn adds nothing to a column, here and elsewhere, so that the planner does not take the column's index.
func (t *tx) TakeSignIn(hash store.Hash) (store.SignIn, error) {
	by := ofHash("sign_in", hash)
	if err := t.hold(by); err != nil {
		return store.SignIn{}, err
	}
	return take(t, by, func(rows pgx.Rows, in *store.SignIn) error {
		return rows.Scan(asHash{&in.Hash}, into(&in.Subject), asTime{&in.Expires})
	}, "DELETE FROM sign_in WHERE hash = $1 AND expires + 0 > $2 RETURNING hash, subject, expires", hash[:], micros(t.s.opt.Wall()))
}

func (r *reader) SessionByHash(hash store.Hash) (store.Session, error) {
	return one(r, ofHash("session", hash), func(rows pgx.Rows, s *store.Session) error {
		return rows.Scan(asHash{&s.Hash}, into(&s.Subject), asTime{&s.Created}, asTime{&s.Expires})
	}, "SELECT hash, subject, created, expires FROM session WHERE hash = $1 AND expires + 0 > $2", hash[:], micros(r.s.opt.Wall()))
}

func (t *tx) PutSession(s store.Session) error {
	return t.put(ofHash("session", s.Hash), `INSERT INTO session (hash, subject, created, expires) VALUES ($1, $2, $3, $4)
		ON CONFLICT (hash) DO UPDATE SET subject = excluded.subject, created = excluded.created, expires = excluded.expires`,
		s.Hash[:], text(s.Subject), micros(s.Created), micros(s.Expires))
}

func (t *tx) DeleteSession(hash store.Hash) error {
	return t.put(ofHash("session", hash), "DELETE FROM session WHERE hash = $1", hash[:])
}

const selectKey = "SELECT id, hash, subject, name, scopes, created, expires, revoked FROM api_key "

func scanKey(rows pgx.Rows, k *store.Key) error {
	return rows.Scan(into(&k.ID), asHash{&k.Hash}, into(&k.Subject), into(&k.Name), asStrings{&k.Scopes},
		asTime{&k.Created}, asTime{&k.Expires}, asTime{&k.Revoked})
}

func (r *reader) KeyByHash(hash store.Hash) (store.Key, error) {
	return one(r, ofHash("key", hash), scanKey, selectKey+"WHERE hash = $1", hash[:])
}

func (r *reader) Keys(t store.Tenant) iter.Seq2[store.Key, error] {
	return list(r, key{}, scanKey, selectKey+"WHERE tenant = $1 ORDER BY created, n", text(t))
}

func (t *tx) CreateKey(k store.Key) error {
	scopes, err := json.Marshal(k.Scopes)
	if err != nil {
		return err
	}
	return t.create(ofHash("key", k.Hash), `INSERT INTO api_key (tenant, id, hash, subject, name, scopes, created, expires, revoked)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, text(k.Subject.Tenant()), text(k.ID), k.Hash[:], text(k.Subject), text(k.Name),
		string(scopes), micros(k.Created), micros(k.Expires), micros(k.Revoked))
}

// RevokeKey keeps the time of the first revocation.
func (t *tx) RevokeKey(tenant store.Tenant, id string, at time.Time) error {
	return t.change(of("key", string(tenant), id), store.ErrNotFound, `UPDATE api_key
		SET revoked = CASE revoked WHEN 0 THEN $1 ELSE revoked END WHERE tenant = $2 AND id = $3`, micros(at), text(tenant), text(id))
}

const selectWorkflow = "SELECT tenant, id, hash, doc, updated FROM workflow "

func scanWorkflow(rows pgx.Rows, w *store.Workflow) error {
	return rows.Scan(into(&w.Tenant), into(&w.ID), asHash{&w.Hash}, &w.Doc, asTime{&w.Updated})
}

func (r *reader) Workflow(t store.Tenant, id string) (store.Workflow, error) {
	return one(r, key{}, scanWorkflow, selectWorkflow+"WHERE tenant = $1 AND id = $2", text(t), text(id))
}

func (r *reader) Workflows(t store.Tenant) iter.Seq2[store.Workflow, error] {
	return list(r, key{}, scanWorkflow, selectWorkflow+"WHERE tenant = $1 ORDER BY id", text(t))
}

func (t *tx) PutWorkflow(w store.Workflow) error {
	return t.put(of("workflow", string(w.Tenant), w.ID), `INSERT INTO workflow (tenant, id, hash, doc, updated) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (tenant, id) DO UPDATE SET hash = excluded.hash, doc = excluded.doc, updated = excluded.updated`,
		text(w.Tenant), text(w.ID), w.Hash[:], blob(w.Doc), micros(w.Updated))
}

func (r *reader) Definition(hash store.Hash) ([]byte, error) {
	return one(r, key{}, scanBytes, "SELECT doc FROM definition WHERE hash = $1", hash[:])
}

// PutDefinition takes no lock, because everybody who starts a run of the workflow writes the same. It waits only for who is
// writing the very first.
func (t *tx) PutDefinition(hash store.Hash, doc []byte) error {
	return t.put(key{}, "INSERT INTO definition (hash, doc) VALUES ($1, $2) ON CONFLICT (hash) DO NOTHING", hash[:], blob(doc))
}
