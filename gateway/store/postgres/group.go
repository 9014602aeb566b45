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
	audits  []store.AuditEntry

	broken error // why it cannot be committed
	worst  severity
	blamed *call // whose statement it was
}

// newGroup begins with what its first call could not have before, in an order that is the same for all.
func newGroup(s *Store, c conn, first *call) *group {
	g := &group{s: s, c: c, held: map[string]bool{}}
	g.pending = append(g.pending, query{text: "BEGIN ISOLATION LEVEL READ COMMITTED"}, s.readClock(&g.now), query{
		text: "SELECT pg_current_xact_id()::text", read: func(rows pgx.Rows) error { return rows.Scan(&g.xid) },
	})
	for _, name := range slices.Sorted(maps.Keys(first.needs)) {
		g.push(first, key{name: name}.locking(true, func(string, bool) { g.held[name] = true }))
	}
	return g
}

func (g *group) push(c *call, q query) {
	q.of = c
	g.pending = append(g.pending, q)
}

// send carries out what is pending. If one of the first keep statements fails the group fails with it: whose they are has
// been told that they would work.
func (g *group) send(keep int) (severity, error) {
	n, err := g.c.send(g.pending)
	g.sent = true
	s := harmless
	if err != nil {
		var of *call
		if n < len(g.pending) {
			of = g.pending[n].of
		}
		if s, err = judge(err, g.c.lost()); n < keep || s >= aborts {
			g.fail(err, s, of)
		}
	}
	clear(g.pending)
	g.pending = g.pending[:0]
	return s, err
}

// flush is send where everything must work.
func (g *group) flush() {
	if len(g.pending) > 0 && g.broken == nil {
		_, _ = g.send(len(g.pending)) // the group knows
	}
}

func (g *group) fail(err error, s severity, of *call) {
	if s == loses {
		g.c.close()
	}
	if g.broken != nil {
		return
	}
	g.broken, g.worst = err, s
	if s < aborts {
		g.blamed = of
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
		if len(g.audits) > 0 {
			g.push(nil, appendAudits(g.audits))
		}
		g.flush()
		if g.broken == nil {
			committed = g.sendCommit()
		}
	}
	if !committed && g.sent && !g.c.lost() {
		if err := g.c.control("ROLLBACK"); err != nil {
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
	s, err := judge(err, g.c.lost())
	if s == loses {
		g.c.close()
		switch committed, unknown := g.s.outcome(g.xid); {
		case unknown != nil:
			// It may have been: whoever listens must look, and nobody may take it for undone.
			g.s.ring(g.topics)
			g.fail(fmt.Errorf("%w: whether a commit was carried out is not known: %w", store.ErrBusy, unknown), aborts, nil)
			return false
		case committed:
			return true
		}
	}
	g.fail(fmt.Errorf("commit: %w", err), s, nil)
	return false
}
