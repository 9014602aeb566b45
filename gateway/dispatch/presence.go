package dispatch

import (
	"time"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// A Status is where a runner's connection stands (UD-97).
type Status string

// The three states of a runner's connection.
const (
	Online       Status = "online"
	Disconnected Status = "disconnected" // its steps go on until Presence.Until
	Offline      Status = "offline"
)

// A Presence is what the gateway knows of a runner now. The matcher and every surface read this same value.
type Presence struct {
	Status       Status
	Dispatchable bool      // given work if it has a free lane
	State        string    // as reported: wire.StateReady and so on; empty when it never reported
	Plain        bool      // a plain RFC 0122 runner: no permits, no progress, no asks
	LastSeen     time.Time // last sign of life; wall time
	Since        time.Time // when Status began, as far as this gateway saw it; wall time
	Until        time.Time // of a disconnected runner: when it is taken for offline
}

// A presence is what the registry holds of a runner. Times are of the gateway's wall clock with its monotonic part.
type presence struct {
	id        store.RunnerID
	subject   store.Subject
	epoch     int64
	n         int64  // of the latest report in the epoch
	journal   string // as last reported, in whatever epoch
	abilities Abilities
	reports   bool // it has reported at least once, ever

	stream     *Stream   // nil while none is open
	opened     time.Time // of the stream
	closed     time.Time // when the latest stream ended, or when this gateway began to wait for one
	until      time.Time // between bounded streams: until when the next one is waited for
	reconciled bool      // the epoch's first report was carried out
	plain      bool
	reported   time.Time // latest report of the epoch
	sign       time.Time // last sign of life of any kind
	state      string
	max        int
	busy       bool // it refused a step as busy and has not said since that a lane is free
	held       []heldStep
	finished   []int64   // seqs of steps whose results are on their way (UD-88)
	asks       int       // open questions to the owner
	used       time.Time // when it was last given a step
	stored     time.Time // when last_seen was last stored
	was        shown     // as last made known
	since      time.Time // when was.status began
}

// A heldStep is a step that the runner holds and has not finished.
type heldStep struct {
	run      store.RunID
	step     store.StepID
	seq      int64
	provider string
	phase    string
}

// shown is what surfaces see of a presence: a bell rings when it changes.
type shown struct {
	status       Status
	dispatchable bool
	state        string
}

func (p *presence) connected(now time.Time) bool { return p.stream != nil || now.Before(p.until) }

// online: an open stream, reconciled by a first report, the last report not too old. A report makes a runner online, so the
// last one is younger than wire.OnlineWithin then; it stays online until wire.DisconnectedAfter.
func (p *presence) online(now time.Time) bool {
	switch {
	case !p.connected(now):
		return false
	case p.plain:
		return true
	}
	return p.reconciled && now.Sub(p.reported) < wire.DisconnectedAfter
}

func (p *presence) dispatchable(now time.Time) bool {
	switch {
	case !p.online(now) || p.busy:
		return false
	case p.plain:
		return true
	}
	return p.state == wire.StateReady && now.Sub(p.reported) < wire.OnlineWithin
}

// parted is when the runner was last known to be connected, for one that is not online now.
func (p *presence) parted(now time.Time) time.Time {
	switch {
	case !p.connected(now):
		if p.reconciled && p.reported.Add(wire.DisconnectedAfter).Before(p.closed) {
			return p.reported.Add(wire.DisconnectedAfter)
		}
		return later(p.closed, p.until)
	case p.reconciled:
		return p.reported.Add(wire.DisconnectedAfter)
	}
	return p.opened // connected, but its first report is still to come
}

func (p *presence) status(now time.Time) Status {
	switch {
	case p.online(now):
		return Online
	case now.Sub(p.parted(now)) < wire.OfflineAfter:
		return Disconnected
	}
	return Offline
}

func (p *presence) shown(now time.Time) shown {
	return shown{p.status(now), p.dispatchable(now), p.state}
}

// lost reports whether the steps that the runner accepted are to be given up. An open stream is a sign of life only from a
// plain runner, which gives no other.
func (p *presence) lost(now time.Time) bool {
	return now.Sub(p.sign) >= wire.LostAfter && !(p.plain && p.stream != nil)
}

// over reports whether there is nothing left to remember that the store does not know.
func (p *presence) over(now time.Time) bool {
	return p.stream == nil && p.status(now) == Offline && p.lost(now)
}

func (p *presence) view(now time.Time) Presence {
	v := Presence{Status: p.status(now), Dispatchable: p.dispatchable(now), State: p.state, Plain: p.plain, LastSeen: p.sign, Since: p.since}
	if p.plain && p.stream != nil {
		v.LastSeen = now
	}
	if v.Status == Disconnected {
		v.Until = p.parted(now).Add(wire.OfflineAfter)
	}
	return v
}

// plainAt is when a runner with an open stream that never reported is taken for a plain one; zero if it is not to be.
func (p *presence) plainAt() time.Time {
	if p.reports || p.plain || p.stream == nil {
		return time.Time{}
	}
	return p.opened.Add(wire.PlainAfter)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
