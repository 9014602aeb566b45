package postgres

import (
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"runnerd/gateway/store"
)

// errUnfinished is the outcome of a function that panicked or ended its goroutine.
var errUnfinished = errors.New("the function did not return")

// A tx is one function's part of a transaction. Its savepoint is set when something that it wrote goes to the database before
// it has ended, so a function that asks first and writes then, as most do, needs none.
type tx struct {
	reader
	known
	g      *group
	call   *call
	over   bool
	saved  bool // the savepoint is set
	wrote  bool
	own    int      // where its statements begin among the pending ones
	locked []string // what it got since the savepoint, and loses if it is undone
	topics []store.Topic
	audits []store.AuditEntry
	failed error // what every statement gives since one has failed
	halted bool  // the database waits to hear how far to go back
	again  bool  // it is to run once more
	err    error
}

var _ store.Tx = (*tx)(nil)

func newTx(g *group, c *call) *tx {
	t := &tx{g: g, call: c, own: len(g.pending), err: errUnfinished, known: newKnown()}
	t.reader = reader{g.s, t}
	return t
}

func (t *tx) alive() {
	if t.over {
		panic(errOver)
	}
}

// Publish notes a topic to ring after the commit.
func (t *tx) Publish(topic store.Topic) {
	t.alive()
	if !slices.Contains(t.topics, topic) {
		t.topics = append(t.topics, topic)
	}
}

func (t *tx) time() time.Time {
	t.alive()
	if t.g.now.IsZero() && t.failed == nil {
		_ = t.flush() // if it fails, so does the next statement, and the function with it
	}
	if t.g.now.IsZero() {
		return t.s.clock.saw(time.Time{})
	}
	return t.g.now
}

// ask has statements carried out, with all that is pending before them, once the function has what they are about.
func (t *tx) ask(by key, queries ...query) error {
	if err := t.usable(); err != nil {
		return err
	}
	taken := t.lock(by)
	for _, q := range queries {
		t.g.push(t.call, q)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if *taken != "" {
		return t.yield(*taken)
	}
	return nil
}

// hold makes sure that the function has what it is about to write to.
func (t *tx) hold(by key) error {
	if err := t.usable(); err != nil {
		return err
	}
	if by == (key{}) || t.g.held[by.name] || t.ours[by] {
		return nil
	}
	return t.ask(by)
}

func (t *tx) usable() error {
	t.alive()
	return t.failed
}

// lock puts a lock before what comes next, unless it is held. It gives the name that somebody else turns out to hold.
func (t *tx) lock(by key) *string {
	taken := new(string)
	if by.owner == "" && (by.name == "" || t.g.held[by.name]) {
		return taken
	}
	if by.owner != "" && t.ours[by] {
		return taken
	}
	// Whoever has nothing may wait: nobody waits for him.
	alone := len(t.g.members) == 1 && len(t.g.held) == 0 && !t.wrote
	t.g.push(t.call, by.locking(alone, func(name string, ok bool) {
		switch {
		case !ok:
			*taken = name
		default:
			t.got(name)
		}
		if ok && by.owner != "" {
			t.ours[by] = true
		}
	}))
	return taken
}

// got notes what the function has from now on.
func (t *tx) got(name string) {
	if t.g.held[name] {
		return
	}
	t.g.held[name] = true
	if t.saved {
		t.locked = append(t.locked, name)
	}
}

// yield ends the function's turn: it runs again where it can wait for the name.
func (t *tx) yield(name string) error {
	t.call.need(name)
	t.failed, t.again = errTaken, true
	return t.failed
}

// flush sends what is pending. What goes wrong with a statement of this function is its own matter.
func (t *tx) flush() error {
	if t.g.broken != nil {
		t.failed = t.g.broken
		return t.failed
	}
	if own := t.g.pending[t.own:]; !t.saved && slices.ContainsFunc(own, func(q query) bool { return q.write }) {
		t.saved = true
		t.g.pending = slices.Insert(t.g.pending, t.own, query{text: "SAVEPOINT fn", of: t.call})
	}
	keep := len(t.g.pending) // without a savepoint there is no way back
	if t.saved {
		keep = t.own
	}
	t.own = 0
	s, err := t.g.send(keep)
	if err != nil {
		t.failed = err
		t.halted = t.g.broken == nil
		t.again = t.halted && s == again
	}
	return err
}

// write notes a statement whose answer is known.
func (t *tx) write(rows int64, text string, args ...any) error {
	if err := t.usable(); err != nil {
		return err
	}
	t.wrote = true
	t.g.push(t.call, query{text: text, args: args, rows: rows, write: true})
	return nil
}

// put writes what needs no row to be there.
func (t *tx) put(by key, text string, args ...any) error {
	if err := t.hold(by); err != nil {
		return err
	}
	return t.write(0, text, args...)
}

// exec writes, and says how many rows it changed. The row may be one that somebody else is writing to, so the lock comes
// first.
func (t *tx) exec(by key, text string, args ...any) (int64, error) {
	if err := t.hold(by); err != nil {
		return 0, err
	}
	var n int64
	err := t.ask(key{}, query{text: text, args: args, count: &n, write: true})
	t.wrote = t.wrote || n > 0
	return n, err
}

// create adds a row, or gives store.ErrConflict where there is one. Its lock goes with it: nobody waits for a row that is
// not there yet.
func (t *tx) create(by key, text string, args ...any) error {
	var n int64
	if err := t.ask(by, query{text: text + " ON CONFLICT DO NOTHING", args: args, count: &n, write: true}); err != nil {
		return err
	}
	if n == 0 {
		return store.ErrConflict
	}
	t.wrote = true
	return nil
}

// change writes to a row that must be there: none changed is the error given.
func (t *tx) change(by key, none error, text string, args ...any) error {
	n, err := t.exec(by, text, args...)
	if err == nil && n == 0 {
		err = none
	}
	return err
}

// take writes, and reads back a row of what it wrote: none is ErrNotFound.
func take[T any](t *tx, by key, scan func(pgx.Rows, *T) error, text string, args ...any) (T, error) {
	var v T
	found := false
	q := row(&v, &found, scan, text, args...)
	q.write = true
	err := t.ask(by, q)
	if err == nil && !found {
		err = store.ErrNotFound
	}
	t.wrote = t.wrote || err == nil
	return v, err
}

// lockSubject takes the lock of a row's subject, if nobody else has it.
const lockSubject = "pg_try_advisory_xact_lock(hashtextextended('" + subjectPrefix + "' || subject, 0))"

// claim reads rows, with the subject that the statement has locked behind each.
func claim[T any](t *tx, into func(*T) []any, statement string, args ...any) iter.Seq2[T, error] {
	return list(&t.reader, key{}, func(rows pgx.Rows, v *T) error {
		var subject string // as it is stored
		err := rows.Scan(append(into(v), &subject)...)
		t.got(subjectPrefix + subject)
		return err
	}, statement, args...)
}

// end keeps or undoes what the function wrote, after it has returned.
func (t *tx) end() {
	t.over = true
	if t.failed != nil && (t.err == nil || t.again) {
		t.err = t.failed // whatever the function made of it
	}
	t.call.alone = t.call.alone || t.again && t.halted
	if t.err == nil {
		if t.saved {
			t.g.push(t.call, query{text: "RELEASE fn"})
		}
		t.g.topics = append(t.g.topics, t.topics...)
		t.g.audits = append(t.g.audits, t.audits...)
		return
	}
	if t.g.broken != nil {
		return
	}
	clear(t.g.pending[t.own:])
	t.g.pending = t.g.pending[:t.own]
	if !t.saved {
		return
	}
	for _, name := range t.locked {
		delete(t.g.held, name)
	}
	if !t.halted {
		t.g.push(t.call, query{text: "ROLLBACK TO fn"})
		t.g.push(t.call, query{text: "RELEASE fn"})
	} else if err := t.g.c.control("ROLLBACK TO fn; RELEASE fn"); err != nil {
		_, err := judge(err, t.g.c.lost())
		t.g.fail(err, loses, nil)
	}
}

// asConflict is for writes that name what they expect: what is not there is not as expected.
func asConflict(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return store.ErrConflict
	}
	return err
}
