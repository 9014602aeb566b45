package postgres

import (
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// A clock is the database's (design, section 5), so all gateways have the same. It is read once in a transaction. Should the
// database's clock be set back, a gateway's stands still until it has caught up.
type clock struct {
	mu   sync.Mutex
	last time.Time
}

// saw takes a reading and gives what it means here.
func (c *clock) saw(at time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.After(c.last) {
		c.last = at
	}
	return c.last
}

// readClock asks for the time, in whole microseconds.
func (s *Store) readClock(to *time.Time) query {
	return query{text: "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint", read: func(rows pgx.Rows) error {
		var n int64
		err := rows.Scan(&n)
		*to = s.clock.saw(moment(n))
		return err
	}}
}
