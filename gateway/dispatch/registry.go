package dispatch

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"runnerd/gateway/bus"
	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// ErrSuperseded says that a newer connection of the same runner has taken over, or that a report is older than one that
// was carried out already.
var ErrSuperseded = errors.New("superseded")

// ErrRevoked says that the runner was revoked while its request was on the way.
var ErrRevoked = errors.New("runner was revoked")

// A Who is a runner that has authenticated.
type Who struct {
	Runner  store.RunnerID
	Subject store.Subject
}

// A Stream is one open GET dispatches. It is the current one of its runner until a newer one opens.
type Stream struct {
	Who
	Epoch   int64
	bounded bool // it ends by itself, and the next one is waited for
	ended   atomic.Pointer[string]
	nudged  map[int64]bool  // held steps for which "report now" was said on this stream
	asked   map[string]bool // answered questions likewise
}

// Ended says why the stream must end (wire.Control...), or nothing.
func (s *Stream) Ended() string {
	if why := s.ended.Load(); why != nil {
		return *why
	}
	return ""
}

// registry knows the presence of every runner that this gateway has heard of lately.
type registry struct {
	bus bus.Bus
	now func() time.Time

	mu        sync.Mutex
	runners   map[store.RunnerID]*presence
	bySubject map[store.Subject]map[store.RunnerID]*presence
	gains     map[store.Subject]int  // how often a runner of the subject could be given more than before
	again     map[store.Subject]bool // subjects whose waiting steps are to be looked at once more
}

func newRegistry(b bus.Bus, now func() time.Time) *registry {
	return &registry{
		bus: b, now: now, runners: map[store.RunnerID]*presence{}, bySubject: map[store.Subject]map[store.RunnerID]*presence{},
		gains: map[store.Subject]int{}, again: map[store.Subject]bool{},
	}
}

// adopt makes sure that the runner is known as its row says, or as memory does if that is newer. The caller holds the lock.
func (r *registry) adopt(row store.Runner, a Abilities) *presence {
	p := r.runners[row.ID]
	if p == nil {
		now := r.now()
		p = &presence{id: row.ID, subject: row.Subject, closed: now, sign: now, stored: row.LastSeen, was: shown{status: Offline}, since: now}
		r.runners[row.ID] = p
		of := r.bySubject[row.Subject]
		if of == nil {
			of = map[store.RunnerID]*presence{}
			r.bySubject[row.Subject] = of
		}
		of[row.ID] = p
	}
	if row.Epoch > p.epoch || p.epoch == 0 {
		if p.stream != nil && row.Epoch > p.stream.Epoch {
			r.end(p, wire.ControlSuperseded)
			p.stream, p.closed, p.until = nil, r.now(), time.Time{}
		}
		p.epoch, p.n, p.reconciled, p.plain, p.busy = row.Epoch, 0, false, false, false
		p.abilities, p.journal, p.reports, p.state, p.max = a, row.Journal, row.Reports, row.State, row.MaxSteps
	}
	return p
}

// end tells the runner's stream to end.
func (r *registry) end(p *presence, why string) {
	if p.stream != nil {
		p.stream.ended.CompareAndSwap(nil, &why)
		r.bus.Ring(store.RunnerTopic(p.id))
	}
}

// note rings the subject's bell if what surfaces see of p has changed.
func (r *registry) note(p *presence, now time.Time) {
	is := p.shown(now)
	if is == p.was {
		return
	}
	if is.status != p.was.status {
		p.since = now
		p.stored = time.Time{} // last_seen is stored on change
	}
	p.was = is
	r.bus.Ring(store.SubjectTopic(p.subject))
}

// register takes note of a registration record: a new epoch, not reconciled yet.
func (r *registry) register(row store.Runner, a Abilities) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.adopt(row, a)
	now := r.now()
	p.sign = now
	r.note(p, now)
}

// open makes a new stream the runner's current one and ends the one before. It is true when the runner can be given steps
// by that, because it reported a moment ago.
func (r *registry) open(row store.Runner, a Abilities, bounded bool) (*Stream, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.adopt(row, a)
	r.end(p, wire.ControlSuperseded)
	now := r.now()
	could := p.dispatchable(now)
	p.stream = &Stream{Who: Who{p.id, p.subject}, Epoch: row.Epoch, bounded: bounded}
	if !now.Before(p.until) { // not one bounded stream after the other
		p.opened = now
	}
	p.until, p.sign = time.Time{}, now
	r.note(p, now)
	return p.stream, r.gained(p, !could && p.dispatchable(now))
}

// close ends a stream. It is true when the runner has no connection now, so that its offers are to be withdrawn.
func (r *registry) close(s *Stream, gap time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.runners[s.Runner]
	if p == nil || p.stream != s {
		return false
	}
	now := r.now()
	p.stream, p.closed = nil, now
	if p.plain {
		p.sign = now
	}
	if gap > 0 && s.Ended() == "" {
		p.until = now.Add(gap)
	}
	r.note(p, now)
	return !p.connected(now)
}

// seen is a sign of life of any kind.
func (r *registry) seen(id store.RunnerID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.runners[id]; p != nil {
		p.sign = r.now()
	}
}

// release forgets that the runner holds an offer, because it said itself that it is done with it.
func (r *registry) release(id store.RunnerID, seqs ...int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.runners[id]
	if p == nil {
		return
	}
	kept := p.held[:0]
	for _, h := range p.held {
		gone := false
		for _, q := range seqs {
			gone = gone || q == h.seq
		}
		if !gone {
			kept = append(kept, h)
		}
	}
	p.held = kept
}

// used notes that the runner was given a step.
func (r *registry) used(id store.RunnerID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.runners[id]; p != nil {
		p.used = r.now()
	}
}

// A candidate is a runner to choose from, before its lanes are counted.
type candidate struct {
	Candidate
	held []heldStep
}

// gained counts that the runner can be given more than before, if it can.
func (r *registry) gained(p *presence, more bool) bool {
	if more {
		r.gains[p.subject]++
	}
	return more
}

// missed is called when a transaction that looked at the subject's runners is durable, with what candidates had given. Where a
// runner gained since, the search for waiting steps that followed may have come before the commit, and is made once more.
func (r *registry) missed(s store.Subject, gains int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gains[s] != gains {
		r.again[s] = true
		r.bus.Ring(DueTopic)
	}
}

// candidates are the dispatchable runners of a subject and of nobody else, and how often they have gained.
func (r *registry) candidates(s store.Subject) ([]candidate, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	var all []candidate
	for _, p := range r.bySubject[s] {
		if p.dispatchable(now) {
			lanes := p.max
			if p.plain {
				lanes = wire.DefaultMaxStep
			}
			all = append(all, candidate{
				Candidate{Subject: p.subject, Runner: p.id, Abilities: p.abilities, Max: lanes, Used: p.used},
				append([]heldStep(nil), p.held...),
			})
		}
	}
	return all, r.gains[s]
}

// gone reports whether the runner is still lost: it may have come back since a tick found it so.
func (r *registry) gone(id store.RunnerID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.runners[id]
	return p == nil || p.lost(r.now())
}

// unlinked reports whether the runner is still without a connection.
func (r *registry) unlinked(id store.RunnerID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.runners[id]
	return p == nil || !p.connected(r.now())
}

// standing gives what a stream needs to know of its runner: whether it is a plain one, what it holds, and how many
// questions it has asked.
func (r *registry) standing(st *Stream) (plain bool, held []heldStep, asks int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.runners[st.Runner]
	if p == nil || p.stream != st {
		return false, nil, 0
	}
	return p.plain, append([]heldStep(nil), p.held...), p.asks
}
