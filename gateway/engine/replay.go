package engine

import (
	"errors"
	"iter"
	"time"
)

// ErrNoRecording says that a replay has nothing to be answered from yet: call Attach.
var ErrNoRecording = errors.New("the replay's recording was not attached")

// A Recording is what became of the nodes of a run: what a replay gives back instead of doing it again. It is not changed once
// it is made, and any number of replays may share it.
type Recording struct {
	from   int64 // the first event that is not history
	last   int64
	size   int
	nodes  map[string][]attempt
	end    *Event // nil while the source runs
	capped []Event
}

// An attempt is what the log has after one node.started of a node.
type attempt struct {
	events []Event
	ended  bool
}

// Record reads the log of a replay's source, up to where it was when the replay began.
func Record(source Source, log iter.Seq2[Event, error]) (*Recording, error) {
	r := &Recording{from: source.FromSeq, nodes: map[string][]attempt{}}
	for e, err := range log {
		if err != nil {
			return nil, err
		}
		if e.Sequence <= source.UpTo {
			r.add(e)
		}
	}
	return r, nil
}

// Size is about what the recording takes of memory, in bytes.
func (r *Recording) Size() int { return r.size }

func (r *Recording) add(e Event) {
	r.last = e.Sequence
	switch e.Type {
	case TypeRunCompleted, TypeRunFailed, TypeRunCancelled:
		r.end = &e
		return
	case TypeCapBreached:
		var p capBreached
		if decode(e.Payload, &p) == nil && (p.Kind == capStarts || p.Kind == capDuration) { // those of the run, not of a loop
			r.capped = append(r.capped, e)
			return
		}
	case TypeStepAccepted, TypeStepQueued, TypeNodeSkipped: // of a runner that is not asked, and of no attempt
		return
	}
	if e.NodeID == "" {
		return
	}
	r.size += len(e.Payload) + 200
	all := r.nodes[e.NodeID]
	if e.Type == TypeNodeStarted {
		r.nodes[e.NodeID] = append(all, attempt{})
		return
	}
	if len(all) == 0 || all[len(all)-1].ended {
		return
	}
	at := &all[len(all)-1]
	at.events = append(at.events, e)
	at.ended = e.Type == TypeNodeCompleted || e.Type == TypeNodeFailed || e.Type == TypeNodeRetried
}

// attempt is the nth attempt that came to an end. Those that a pause cut do not count: a replay is not paused.
func (r *Recording) attempt(node string, n int) []Event {
	for _, a := range r.nodes[node] {
		if !a.ended {
			continue
		}
		if n--; n == 0 {
			return a.events
		}
	}
	return nil
}

// Attach gives a replay's state what it is answered from.
func (s *State) Attach(r *Recording) { s.recording = r }

// recordedEnd is the event that ended the node's attempt in the source.
func (t *turn) recordedEnd(i int) *Event {
	if t.s.recording == nil {
		return nil
	}
	events := t.s.recording.attempt(t.s.wf.nodes[i].id, t.s.nodes[i].retries+1)
	if len(events) == 0 {
		return nil
	}
	return &events[len(events)-1]
}

// recorded gives back what became of a node's attempt in the source, event by event and as it was written. It is the only
// answer to what has an effect: without one the node fails.
func (t *turn) recorded(i int) {
	id := t.s.wf.nodes[i].id
	events := t.s.recording.attempt(id, t.s.nodes[i].retries+1)
	if len(events) == 0 {
		t.failNode(i, fail(codeNotRecorded, "the source of this replay has no outcome of node %q", id))
		return
	}
	written := map[string]string{}
	for _, e := range events {
		if e.Sequence < t.s.recording.from || t.err != nil {
			continue
		}
		t.emitRaw(Event{Type: e.Type, NodeID: id, ContentTrust: e.ContentTrust, CausationID: written[e.CausationID], Payload: e.Payload})
		written[e.EventID] = eventID(t.s.runID, t.s.seq)
	}
	switch end := events[len(events)-1]; {
	case t.err != nil:
	case end.Type == TypeNodeRetried:
		t.awaitRetry(i)
	case end.Type == TypeNodeFailed && !t.handled(i):
		t.failAfter(i)
	}
}

// awaitRetry sets the timer of the attempt that node.retried announced.
func (t *turn) awaitRetry(i int) {
	var p nodeRetried
	if t.err = decode(t.s.nodes[i].payload, &p); t.err == nil {
		after := time.Duration(min(max(p.DelayMs, 1), maxRetryDelay.Milliseconds())) * time.Millisecond
		t.effect(SetTimer{t.nodeTimer(retryTimer, i), after})
	}
}

// duration is how long a node took: in a replay as recorded, else as long as it was to wait, so that two replays of one source
// say the same.
func (t *turn) duration(i int) int64 {
	if _, replay := t.s.Source(); !replay {
		return t.since(t.s.nodes[i].started)
	}
	var p struct {
		DurationMs int64 `json:"durationMs"`
	}
	if end := t.recordedEnd(i); end != nil && decode(end.Payload, &p) == nil {
		return p.DurationMs
	}
	if kind, _ := typeOf(t.s.wf.nodes[i].typeID); kind.wake != nil {
		if d, ok := t.first(i).(sleep); ok {
			return time.Duration(d).Milliseconds()
		}
	}
	return 0
}

// runDuration is how long the run took: in a replay as recorded, if the source came to the same end, else not said.
func (t *turn) runDuration(typ string) *int64 {
	took := t.since(t.s.begun.at)
	if _, replay := t.s.Source(); !replay {
		return &took
	}
	var p struct {
		DurationMs *int64 `json:"durationMs"`
	}
	if end := t.s.recording.end; end != nil && end.Type == typ && decode(end.Payload, &p) == nil {
		return p.DurationMs
	}
	return nil
}

// observed is how far past a ceiling the source was seen, else how far it has to be: what a replay sees is another time.
func (r *Recording) observed(b capBreached) int64 {
	for _, e := range r.capped {
		var was capBreached
		if decode(e.Payload, &was) == nil && was.Kind == b.Kind && was.Limit == b.Limit {
			return was.Observed
		}
	}
	return b.Limit + 1
}

// diverged notes that a node came to another end than in the source (wire section 10). It is for information.
func (t *turn) diverged(i int) {
	end := t.recordedEnd(i)
	if end == nil || t.err != nil || end.Sequence < t.s.recording.from {
		return
	}
	p := replayDiverged{
		SourceRunID: t.s.fork.RunID, AtSequence: end.Sequence, OriginalEventID: end.EventID, ReplayEventID: eventID(t.s.runID, t.s.seq),
		DivergenceKind: "output", DivergencePoint: end.Type,
	}
	got := t.events[len(t.events)-1]
	if got.Type != end.Type {
		p.DivergenceKind = "type-mismatch"
	} else if sameJSON(got.Payload, end.Payload) {
		return
	}
	t.emit(TypeReplayDiverged, t.s.wf.nodes[i].id, "", p)
}
