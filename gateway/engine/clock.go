package engine

import (
	"strconv"
	"time"

	"runnerd/internal/wire"
)

// A runClock adds up how long a run has been going, apart from the time in which all it waits for stands in a queue, is up to
// a person (design, section 4), or is a child run, which counts its own time and hands it over when it ends. It counts in store time, so that jumps of the wall clock and, where the store's clock stands still, downtime do
// not count either. It starts and stops only at events that carry the time, so that every fold of the log agrees.
//
//	             +-- an active node that works ----------+
//	             |                                       v
//	      +---------+                               +---------+
//	----> | stopped |                               | running |  timer "run:<turn>" at what is left
//	      +---------+                               +---------+
//	             ^                                       |
//	             +-- none, or only waiting ones ---------+
type runClock struct {
	on    bool
	turn  int64 // how often it was started; names the timer, so that an old one is known
	since int64 // store time, ms
	spent int64 // ms before since
}

func (c *runClock) toggle(now int64) {
	if c.on {
		c.spent, c.on = c.elapsed(now), false
		return
	}
	c.on, c.since, c.turn = true, now, c.turn+1
}

// elapsed is the run's duration so far.
func (c *runClock) elapsed(now int64) int64 {
	if !c.on {
		return c.spent
	}
	return c.spent + max(now-c.since, 0)
}

func (c *runClock) timer() string { return runTimer + strconv.FormatInt(c.turn, 10) }

// The ids of timers begin with what they are for.
const (
	runTimer   = "run:"
	delayTimer = "delay:"
	retryTimer = "retry:"
	gateTimer  = "gate:"
)

// working reports whether the run's clock should run.
func (s *State) working() bool {
	if s.Terminal() || s.active == 0 || s.paused != nil {
		return false
	}
	for i := range s.nodes {
		if n := &s.nodes[i]; n.status == nodeActive && n.phase != phaseQueued && n.phase != phaseSuspended && n.phase != phaseChild {
			return true
		}
	}
	return false
}

// longest is a bound on how long what is going on now can go on without another decision: every active node ends by itself.
// It is generous, since its only use is to leave out a timer that could never fire.
func (s *State) longest() time.Duration {
	var longest time.Duration
	for i := range s.nodes {
		switch s.nodes[i].phase {
		case phaseAccepted:
			longest = max(longest, s.begun.options.bound())
		case phaseTimer, phaseRetry:
			longest = max(longest, maxDelay+time.Minute)
		}
	}
	return longest
}

// bound is the longest that longest can be.
func (o *options) bound() time.Duration {
	return max(o.stepTimeout()+wire.StepGrace, maxDelay) + time.Minute
}

// limit is the shortest of what the run, its workflow and the host allow (wire 5.5).
func (t *turn) limit() time.Duration {
	limit := t.env.Caps.RunDuration
	if limit <= 0 {
		limit = DefaultRunDuration
	}
	for _, asked := range []time.Duration{t.s.begun.options.runTimeout, t.s.wf.timeout} {
		if asked > 0 {
			limit = min(limit, asked)
		}
	}
	if p := t.s.begun.Parent; p != nil && p.TimeoutMs > 0 {
		limit = min(limit, time.Duration(min(p.TimeoutMs, maxWait))*time.Millisecond)
	}
	return limit
}

// keepTime starts or stops the run's clock at the end of a decision, and sets its timer where it could fire.
func (t *turn) keepTime() {
	s := t.s
	if len(t.events) == 0 {
		return
	}
	left := t.limit() - time.Duration(s.clock.elapsed(t.clock))*time.Millisecond
	if s.clock.on && !s.working() && left <= s.begun.options.bound() { // otherwise no timer was ever set in this turn
		t.effect(ClearTimer{s.clock.timer()})
	}
	if s.Terminal() {
		return
	}
	began := t.began // a node or a step began, so there is more that can last
	if s.working() != s.clock.on {
		t.events[len(t.events)-1].Clock = t.clock
		s.clock.toggle(t.clock)
		began = true
	}
	if s.clock.on && began && left <= s.longest() {
		t.effect(SetTimer{s.clock.timer(), max(left, 0) + time.Millisecond})
	}
}
