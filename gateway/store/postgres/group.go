package postgres

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"runnerd/gateway/store"
)

// A group is one transaction and the functions that share it. What needs no answer waits until something does, or until the
// commit, and goes with it in one round trip.
type group struct {
	s       *Store
	c       conn
	pending []query
	sent    bool // the transaction has begun
	now     time.Time
	xid     string // names the transaction when the connection is gone
	held    map[string]bool
	members []*tx
	topics  []store.Topic

	broken error // why it cannot be committed
	worst  severity
}

// newGroup begins with what a call needed that could not have it, in an order that is the same for all.
func newGroup(s *Store, c conn, needs map[string]bool) *group {
	g := &group{s: s, c: c, held: map[string]bool{}}
	g.pending = append(g.pending, query{text: "BEGIN ISOLATION LEVEL READ COMMITTED"}, s.readClock(&g.now), query{
		text: "SELECT pg_current_xact_id()::text", read: func(rows pgx.Rows) error { return rows.Scan(&g.xid) },
	})
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		g.pending = append(g.pending, key{name: name}.locking(true, func(string, bool) { g.held[name] = true }))
	}
	return g
}

// send carries out what is pending, and gives how much of it worked.
func (g *group) send() (int, error) {
	n, err := g.c.send(g.pending)
	g.sent = true
	clear(g.pending)
	g.pending = g.pending[:0]
	return n, err
}

// flush is send where everything must work.
func (g *group) flush() {
	if len(g.pending) == 0 || g.broken != nil {
		return
	}
	if _, err := g.send(); err != nil {
		g.fail(judge(err, g.c.lost()))
	}
}

func (g *group) fail(err error, s severity) {
	if s > g.worst || g.broken == nil {
		g.broken, g.worst = err, s
	}
}

// wrote says whether there is anything to commit.
func (g *group) wrote() bool {
	return slices.ContainsFunc(g.members, func(t *tx) bool { return t.wrote && t.err == nil && !t.again })
}

// commit makes durable what the group wrote, if anything. What it had pending is carried out before, apart, because a row
// that turns out to be another must keep the commit from being sent.
func (g *group) commit() (committed bool) {
	if g.broken == nil && g.wrote() {
		g.flush()
		if g.broken == nil {
			committed = g.sendCommit()
		}
	}
	if !committed && g.sent && !g.c.lost() {
		if _, err := g.c.send([]query{{text: "ROLLBACK"}}); err != nil {
			g.c.close() // whether anything is left of the transaction is not known
		}
	}
	return committed
}

func (g *group) sendCommit() bool {
	_, err := g.c.send([]query{{text: "COMMIT"}})
	if err == nil {
		return true
	}
	err, s := judge(err, g.c.lost())
	if s == loses {
		g.c.close()
		switch committed, unknown := g.s.outcome(g.xid); {
		case unknown != nil:
			// It may have been: whoever listens must look, and nobody may take it for undone.
			g.s.ring(g.topics)
			g.fail(fmt.Errorf("%w: whether a commit was carried out is not known: %w", store.ErrBusy, unknown), aborts)
			return false
		case committed:
			return true
		}
	}
	g.fail(fmt.Errorf("commit: %w", err), s)
	return false
}
