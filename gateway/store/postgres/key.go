package postgres

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"runnerd/gateway/store"
)

// A key says what a function works for. From its first question about a subject to the end of the transaction nobody else
// works for that subject, in whichever gateway: so what a function has read stays true until it has written, and the
// functions of one subject run one after the other, as they do with SQLite. What has no subject has a name of its own.
type key struct {
	name  string // what is locked; empty: nothing, or not known yet
	owner string // asks for the subject's name that is to be locked
	args  [2]string
}

func ofSubject(s store.Subject) key { return key{name: subjectPrefix + text(s)} }

const subjectPrefix = "subject/"

// ofRun is the subject that has the run.
func ofRun(t store.Tenant, id store.RunID) key {
	return key{owner: "SELECT '" + subjectPrefix + "' || subject AS name FROM run WHERE tenant = $1 AND id = $2", args: [2]string{text(t), text(id)}}
}

// ofRunner is the subject that has the runner.
func ofRunner(id store.RunnerID) key {
	return key{owner: "SELECT '" + subjectPrefix + "' || subject AS name FROM runner WHERE id = $1 AND $2 = ''", args: [2]string{text(id), ""}}
}

// of names what has no subject. The parts hold whatever they hold: two keys that are taken for one only wait for each other.
func of(kind string, parts ...string) key {
	return key{name: kind + "/" + text(strings.Join(parts, "/"))}
}

// A lock is taken for its name's hash, and goes with the transaction or with a rollback to before it. It is taken without
// waiting, by everybody who has something already, so nobody can wait for somebody who waits.
const (
	tryName   = `SELECT name, pg_try_advisory_xact_lock(hashtextextended(name, 0)) FROM (SELECT $1::text COLLATE "C" AS name) AS one`
	awaitName = `SELECT name, pg_advisory_xact_lock(hashtextextended(name, 0)) IS NOT NULL FROM (SELECT $1::text COLLATE "C" AS name) AS one`
)

// locking is the statement that takes a lock, and tells got under which name, and whether.
func (k key) locking(wait bool, got func(name string, ok bool)) query {
	q := query{text: tryName, args: []any{k.name}}
	if wait {
		q.text = awaitName
	}
	if k.name == "" {
		q.text = strings.Replace(q.text, `SELECT $1::text COLLATE "C" AS name`, k.owner, 1)
		q.args = []any{k.args[0], k.args[1]}
	}
	q.read = func(rows pgx.Rows) error {
		var name string
		var ok bool
		err := rows.Scan(&name, &ok)
		got(name, ok)
		return err
	}
	return q
}

// errTaken is what a function gets that needs what another has. It runs again when that can be had.
var errTaken = errors.New("somebody else is at work on it")
