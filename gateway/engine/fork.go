package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strconv"
	"strings"
	"time"

	"runnerd/internal/wire"
)

// The modes of a fork (wire section 10).
const (
	ModeReplay = "replay" // what had an effect is answered from the source's log
	ModeBranch = "branch" // everything happens anew
)

// ErrInvalidFromSeq says that a fork begins beyond its source's log (wire 10, 422).
var ErrInvalidFromSeq = errors.New("the source's log does not go so far")

// A Fork makes a run of another's history.
type Fork struct {
	RunID   string // of the new run
	Mode    string
	FromSeq int64 // events below it are history
	Overlay Overlay

	// What the source was started with, unmasked, as its row keeps it.
	Inputs       json.RawMessage
	Configurable json.RawMessage
}

// An Overlay is what a branch has instead of its source (runOptionsOverlay): members of configurable and metadata one by one,
// tags as a whole.
type Overlay struct {
	Configurable json.RawMessage
	Tags         []string
	Metadata     json.RawMessage
}

func (o *Overlay) empty() bool {
	blank := func(doc json.RawMessage) bool { all, err := members(doc); return err == nil && len(all) == 0 }
	return o.Tags == nil && blank(o.Configurable) && blank(o.Metadata)
}

// A ForkedFrom stands on the run.started of a fork, beside the payload, which is the source's: with it the state knows where
// history ends.
type ForkedFrom struct {
	RunID        string          `json:"runId"`
	Mode         string          `json:"mode"`
	FromSeq      int64           `json:"fromSeq"`
	UpTo         int64           `json:"upTo"` // last sequence of the source at the time
	At           time.Time       `json:"at"`
	Runner       bool            `json:"runner,omitzero"` // the branch asks for a runner of its own
	Configurable json.RawMessage `json:"configurable,omitzero"`
	Tags         []string        `json:"tags,omitzero"`
	Metadata     json.RawMessage `json:"metadata,omitzero"`
}

// Request is what the new run's row keeps as its configurable: the source's with the overlay, without the source's runner (wire
// 14.10). The inputs are the source's.
func (f *Fork) Request() (json.RawMessage, error) {
	all, err := members(f.Configurable)
	if err != nil {
		return nil, fmt.Errorf("configurable of the source: %w", err)
	}
	delete(all, keyRunner)
	over, err := members(f.Overlay.Configurable)
	if err != nil {
		return nil, &wire.FieldError{Field: "runOptionsOverlay.configurable", Reason: "must be an object"}
	}
	if all == nil && over == nil {
		return nil, nil
	}
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	maps.Copy(all, over)
	return mustEncode(all), nil
}

// CheckFork says what is wrong with a fork before there is one: what wire 10 makes a 400. The error joins every mistake, each a
// *wire.FieldError.
func CheckFork(wf *Workflow, f *Fork) error {
	var r reader
	if f.Mode != ModeReplay && f.Mode != ModeBranch {
		r.fail("mode", "must be %s or %s", ModeReplay, ModeBranch)
	}
	if f.FromSeq < 0 {
		r.fail("fromSeq", "must be 0 or more")
	}
	if f.Mode == ModeReplay && !f.Overlay.empty() {
		r.fail("runOptionsOverlay", "must be empty for a %s", ModeReplay)
	}
	over := r.open("runOptionsOverlay.configurable", f.Overlay.Configurable)
	r.open("runOptionsOverlay.metadata", f.Overlay.Metadata)
	errs := r.errs
	if over.members != nil {
		configurable, err := f.Request()
		if err == nil {
			err = CheckCreate(wf, f.Inputs, configurable)
		}
		if err != nil {
			for _, err := range leaves(err) {
				if e, ok := errors.AsType[*wire.FieldError](err); ok {
					err = &wire.FieldError{Field: "runOptionsOverlay." + e.Field, Reason: e.Reason}
				}
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// ForkRun begins a fork: it reads the source's log, copies the events below FromSeq as they were, and decides what follows. Its
// errors are those of CheckFork, ErrInvalidFromSeq, those of source, and broken invariants. Next has the source's recording.
func ForkRun(wf *Workflow, source iter.Seq2[Event, error], f Fork, env Env) (Decision, error) {
	if err := CheckFork(wf, &f); err != nil {
		return Decision{}, err
	}
	if f.RunID == "" || len(f.RunID) > maxRunID {
		return Decision{}, fmt.Errorf("fork: a run id has 1 to %d bytes", maxRunID)
	}
	configurable, err := f.Request()
	if err != nil {
		return Decision{}, err
	}
	t := newTurn(NewState(wf), env)
	rec := &Recording{nodes: map[string][]attempt{}}
	var history []Event
	for e, err := range source {
		if err != nil {
			return Decision{}, fmt.Errorf("fork: read source: %w", err)
		}
		if e.Sequence < max(f.FromSeq, 1) {
			history = append(history, e)
		}
		rec.add(e)
	}
	if len(history) == 0 || f.FromSeq > rec.last+1 {
		return Decision{}, ErrInvalidFromSeq
	}
	from := ForkedFrom{RunID: history[0].RunID, Mode: f.Mode, FromSeq: f.FromSeq, UpTo: rec.last, At: t.now}
	if err := f.overlay(&from, &history[0]); err != nil {
		return Decision{}, err
	}
	for i, e := range history {
		e = f.copied(e, from.RunID)
		if i == 0 {
			e.Fork = &from
		}
		if err := t.s.Apply(e); err != nil {
			return Decision{}, fmt.Errorf("fork: %w", err)
		}
		t.events = append(t.events, e)
	}
	if err := t.s.Reveal(f.Inputs, configurable); err != nil {
		return Decision{}, fmt.Errorf("fork: %w", err)
	}
	if f.Mode == ModeReplay {
		rec.from = f.FromSeq
		t.s.recording = rec
	}
	if !t.s.Terminal() {
		t.goOn()
	}
	return t.decision()
}

// overlay puts the overlay where it belongs: into a run.started that is not history yet, else beside it.
func (f *Fork) overlay(from *ForkedFrom, started *Event) error {
	if f.Mode != ModeBranch {
		return nil
	}
	over, err := members(f.Overlay.Configurable)
	if err != nil {
		return err
	}
	_, from.Runner = over[keyRunner]
	if delete(over, keyRunner); len(over) > 0 {
		from.Configurable = mustEncode(over)
	}
	from.Tags, from.Metadata = f.Overlay.Tags, given(f.Overlay.Metadata)
	if f.FromSeq > 0 {
		return nil
	}
	var p runStarted
	if err := decode(started.Payload, &p); err != nil {
		return err
	}
	if err := p.overlay(from); err != nil {
		return err
	}
	from.Configurable, from.Tags, from.Metadata = nil, nil, nil
	payload, err := encode(p)
	started.Payload = json.RawMessage(payload)
	return err
}

// overlay gives a run.started what its fork has instead.
func (p *runStarted) overlay(from *ForkedFrom) (err error) {
	if p.Configurable, err = merged(p.Configurable, from.Configurable); err != nil {
		return err
	}
	if p.Metadata, err = merged(p.Metadata, from.Metadata); err != nil {
		return err
	}
	if from.Tags != nil {
		p.Tags = from.Tags
	}
	if p.Masked != nil || from.Runner {
		m := maskedMembers{Runner: from.Runner}
		if p.Masked != nil {
			m.Inputs = p.Masked.Inputs
		}
		if p.Masked = &m; m.Inputs == nil && !m.Runner {
			p.Masked = nil
		}
	}
	return nil
}

func merged(under, over json.RawMessage) (json.RawMessage, error) {
	if len(over) == 0 {
		return under, nil
	}
	all, err := members(under)
	if err != nil {
		return nil, err
	}
	more, err := members(over)
	if err != nil {
		return nil, err
	}
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	maps.Copy(all, more)
	return mustEncode(all), nil
}

// copied is an event of the source as it stands in the fork: under another id, with the same payload. Its clock counted for
// another run.
func (f *Fork) copied(e Event, source string) Event {
	cause, ours := strings.CutPrefix(e.CausationID, source+".")
	e.EventID, e.RunID, e.Clock, e.Fork, e.CausationID = eventID(f.RunID, e.Sequence), f.RunID, 0, nil, ""
	if seq, err := strconv.ParseInt(cause, 10, 64); ours && err == nil {
		e.CausationID = eventID(f.RunID, seq)
	}
	return e
}

// A Source says what a replay is answered from.
type Source struct {
	RunID   string
	FromSeq int64
	UpTo    int64
}

// Source is where the recording of a replay comes from: false for every other run.
func (s *State) Source() (Source, bool) {
	if s.fork == nil || s.fork.Mode != ModeReplay {
		return Source{}, false
	}
	return Source{s.fork.RunID, s.fork.FromSeq, s.fork.UpTo}, true
}

// forked takes over what a fork has instead of what its source was started with.
func (b *begun) forked(from *ForkedFrom) error {
	b.Parent = nil // nobody waits for a fork
	b.at = from.At
	return b.overlay(from)
}

// boundary makes the state at the end of history one that can be gone on from: nothing of what the source had outstanding is,
// and what the source's end had cut goes on.
func (s *State) boundary() {
	if s.Terminal() {
		return
	}
	s.paused, s.draining, s.clock = nil, nil, runClock{}
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.status == nodeCancelledStatus {
			n.status, n.phase, n.payload, n.ended = nodeActive, phaseCut, nil, time.Time{}
			s.active++
		}
		if n.status != nodeActive {
			continue
		}
		n.started, n.stream = s.fork.At, stream{}
		if n.phase == phaseSuspended && n.gate != nil && n.gate.request == nil && s.fork.Mode == ModeBranch { // half of a question
			if n.gate = n.gate.under; n.gate == nil {
				n.phase = phaseNone
			}
		}
		switch n.phase {
		case phaseSuspended, phaseCut, phaseNone:
		case phaseRetry: // the step is a new one to this run's dispatch
			n.asked = 0
		default:
			n.phase, n.try, n.asked = s.waits(i), 1, 1
		}
	}
}

// goOn continues where history ends.
func (t *turn) goOn() {
	s := t.s
	t.idle = map[int]bool{}
	for i := range s.nodes {
		t.idle[i] = s.nodes[i].status == nodeActive
	}
	if s.fork.FromSeq <= 1 && !t.able() {
		return
	}
	if r := s.recording; r != nil && r.end != nil && r.end.Type != TypeRunCancelled && r.end.Sequence == s.seq+1 {
		t.emitRaw(Event{Type: r.end.Type, ContentTrust: r.end.ContentTrust, Payload: r.end.Payload}) // all is done but this
		return
	}
	for _, i := range s.wf.order {
		if s.nodes[i].status == nodeFailedStatus && !t.handled(i) {
			t.failAfter(i)
			return
		}
	}
	t.began = true
	for _, i := range s.wf.order {
		if t.err != nil || s.Terminal() {
			return
		}
		if s.nodes[i].status == nodeActive {
			t.goOnWith(i)
		}
	}
	if t.err == nil {
		t.settle()
	}
}

// goOnWith takes up a node that was active.
func (t *turn) goOnWith(i int) {
	delete(t.idle, i)
	n := &t.s.nodes[i]
	kind, _ := typeOf(t.s.wf.nodes[i].typeID)
	g := n.gate
	switch {
	case n.phase == phaseCut:
		t.startNode(i)
	case n.phase == phaseRetry:
		t.awaitRetry(i)
	case t.s.recording != nil && (n.phase == phaseSuspended || n.phase == phaseNone && g != nil):
		t.recorded(i)
	case n.phase == phaseSuspended && g != nil && g.request != nil:
		t.ask(i, g)
	case n.phase == phaseNone && g != nil && g.over() && g.resumed:
		t.do(i, kind.resume(&call{t, &t.s.wf.nodes[i], nil, &t.s.begun.options}, g))
	case n.answered():
		t.resumeNode(i)
	default:
		t.do(i, t.first(i))
	}
}

// ask opens an interrupt that history left open. Its votes may have decided it.
func (t *turn) ask(i int, g *gate) {
	var d approval
	if g.kind == KindApproval && len(g.votes) > 0 && decode(g.data, &d) == nil {
		if count, last := tallyOf(g.votes, &d), g.votes[len(g.votes)-1]; count.verdict(d.Policy) != wait {
			value := mustEncode(map[string]string{"action": last.Action, "voter": last.Voter, "comment": last.Comment})
			t.resolved(i, g, Resolve{Value: value, By: last.DecidedBy, Authorized: true})
			return
		}
	}
	for ; g != nil; g = g.under {
		if g.timeout > 0 {
			t.effect(SetTimer{g.timer(), g.timeout})
		}
	}
}
