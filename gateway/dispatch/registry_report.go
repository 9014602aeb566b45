package dispatch

import (
	"maps"
	"slices"
	"time"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// A footing is how a report stands to what is known of its runner.
type footing struct {
	first bool // of its epoch: what it does not hold is lost
	news  bool // it says something that the runner's row does not
}

// begin judges a report by its epoch and number. The same number again is the same report again, because its answer was
// lost (UD-22); a lower one is from somebody who was overtaken. It is false when the runner is not known, or not in this
// epoch: look at its row.
func (r *registry) begin(id store.RunnerID, rep wire.Report) (f footing, known bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.runners[id]
	if p == nil || rep.Epoch > p.epoch {
		return footing{}, false, nil
	}
	if rep.Epoch < p.epoch || rep.N < p.n {
		return footing{}, true, ErrSuperseded
	}
	p.n, p.sign = rep.N, r.now()
	f.first = !p.reconciled
	f.news = !p.reports || p.state != rep.State || p.max != rep.Capacity.Max || p.journal != rep.JournalID || rep.Inventory != nil
	return f, true, nil
}

// reported takes over what a report said once it was carried out. It is true when the runner may now be given a step that
// it could not be given before.
func (r *registry) reported(id store.RunnerID, rep wire.Report, held []heldStep, refused bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.runners[id]
	if p == nil || p.epoch != rep.Epoch || p.n != rep.N {
		return false // a newer report was carried out while this one was
	}
	now := r.now()
	could, lanes := p.dispatchable(now), p.max
	freed := false
	for _, h := range p.held {
		freed = freed || !holds(held, h.seq)
	}
	p.reconciled, p.reports, p.plain = true, true, false
	p.reported, p.sign, p.journal = now, now, rep.JournalID
	p.state, p.max, p.held, p.asks = rep.State, rep.Capacity.Max, held, len(rep.Asks)
	p.finished = p.finished[:0]
	for _, h := range rep.Held {
		if h.Phase == wire.PhaseFinished {
			p.finished = append(p.finished, h.Seq)
		}
	}
	switch {
	case refused:
		p.busy = true
	case rep.Capacity.Free > 0:
		p.busy = false
	}
	if rep.Inventory != nil {
		p.abilities.Inventory = rep.Inventory
	}
	r.note(p, now)
	return r.gained(p, p.dispatchable(now) && (!could || p.max > lanes || freed || rep.Inventory != nil))
}

func holds(held []heldStep, seq int64) bool {
	for _, h := range held {
		if h.seq == seq {
			return true
		}
	}
	return false
}

// wait makes known that the runner is waited for from now on, because this gateway has just started (design, section 5:
// disconnected windows start anew).
func (r *registry) wait(row store.Runner, a Abilities) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.adopt(row, a)
	r.note(p, r.now())
}

// A due is what passing time brings to runners.
type due struct {
	lost    []Who           // steps accepted by them are lost
	parted  []Who           // no next bounded stream came: offers to them are to be withdrawn
	ready   []store.Subject // their runners can be given steps: plain ones were found, or a search came too early
	touched []touch
	known   int // how many runners are remembered
}

type touch struct {
	Who
	seen time.Time
}

// maxTouches bounds how many last_seen are stored in one transaction.
const maxTouches = 500

// tick moves every runner to where time has brought it.
func (r *registry) tick() due {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	var d due
	for _, p := range r.runners {
		who := Who{p.id, p.subject}
		if !p.until.IsZero() && !now.Before(p.until) {
			p.closed, p.until = p.until, time.Time{}
			d.parted = append(d.parted, who)
		}
		if at := p.plainAt(); !at.IsZero() && !now.Before(at) {
			p.plain = true
			r.again[who.Subject] = r.gained(p, true)
		}
		r.note(p, now)
		if p.lost(now) {
			d.lost = append(d.lost, who)
		}
		if now.Sub(p.stored) >= wire.LastSeenEvery && p.sign.After(p.stored) && len(d.touched) < maxTouches {
			p.stored = now
			d.touched = append(d.touched, touch{who, p.view(now).LastSeen})
		}
		if p.over(now) {
			r.forget(p)
		}
	}
	d.ready = slices.AppendSeq(d.ready, maps.Keys(r.again))
	clear(r.again)
	d.known = len(r.runners)
	return d
}

func (r *registry) forget(p *presence) {
	delete(r.runners, p.id)
	if of := r.bySubject[p.subject]; len(of) > 1 {
		delete(of, p.id)
	} else {
		delete(r.bySubject, p.subject)
		delete(r.gains, p.subject)
	}
}

// drop ends the runner's stream for good and forgets it.
func (r *registry) drop(id store.RunnerID, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.runners[id]
	if p == nil {
		return
	}
	r.end(p, why)
	p.stream, p.until = nil, time.Time{}
	p.closed = r.now().Add(-wire.OfflineAfter)
	r.note(p, r.now())
	r.forget(p)
}

// presence gives what is known of a runner, or what its row says when it was not heard of lately.
func (r *registry) presence(row store.Runner) Presence {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.runners[row.ID]; p != nil && p.subject == row.Subject {
		return p.view(r.now())
	}
	return Presence{Status: Offline, State: row.State, LastSeen: row.LastSeen}
}

// phase gives the phase that the runner last reported for an offer it holds, or nothing.
func (r *registry) phase(id store.RunnerID, seq int64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.runners[id]; p != nil {
		for _, h := range p.held {
			if h.seq == seq {
				return h.phase
			}
		}
		if slices.Contains(p.finished, seq) {
			return wire.PhaseFinished
		}
	}
	return ""
}
