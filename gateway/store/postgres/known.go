package postgres

import (
	"encoding/json"
	"iter"
	"time"

	"runnerd/gateway/store"
)

// What a function has read or written of a run, a step or a runner stays so until the function ends, because it holds the
// subject. So the next question about it needs no answer of the database, and neither does a write that names what it
// expects: it is sent later, and names that to the database too.
type known struct {
	runs    map[runKey]*knownRun
	steps   map[stepKey]store.Step
	runners map[store.RunnerID]store.Runner
	ours    map[key]bool // runs and runners whose subject is held
	vacant  map[key]bool // idempotency keys that are not in use
}

type (
	runKey struct {
		tenant store.Tenant
		id     store.RunID
	}
	stepKey struct {
		run runKey
		id  store.StepID
	}
	knownRun struct {
		store.Run
		n     int64
		fresh bool // created by this function: it has no steps that are not known
	}
)

func newKnown() known {
	return known{map[runKey]*knownRun{}, map[stepKey]store.Step{}, map[store.RunnerID]store.Runner{}, map[key]bool{}, map[key]bool{}}
}

func keyOf(s store.Step) stepKey { return stepKey{runKey{s.Tenant, s.Run}, s.ID} }

// noting gives what seq gives, and remembers it. A step that is known by now may have moved since the list was read.
func (t *tx) noting(seq iter.Seq2[store.Step, error]) iter.Seq2[store.Step, error] {
	return func(yield func(store.Step, error) bool) {
		for s, err := range seq {
			if _, ok := t.steps[keyOf(s)]; err == nil && !ok {
				t.steps[keyOf(s)] = s
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

// The functions below give a value as it will be read back. Documents are shared: nobody changes one in place.

func keptTime(t time.Time) time.Time { return moment(micros(t)) }

func keptDuration(d time.Duration) time.Duration { return d.Truncate(time.Microsecond) }

func keptDoc(d json.RawMessage) json.RawMessage { return blob(d) }

func keptRun(r store.Run) store.Run {
	r.Request, r.Created, r.Updated = keptDoc(r.Request), keptTime(r.Created), keptTime(r.Updated)
	return r
}

func keptStep(s store.Step) store.Step {
	s.Inputs, s.Output = keptDoc(s.Inputs), keptDoc(s.Output)
	s.Wait, s.Timeout, s.Waited = keptDuration(s.Wait), keptDuration(s.Timeout), keptDuration(s.Waited)
	s.Created, s.Since, s.Due = keptTime(s.Created), keptTime(s.Since), keptTime(s.Due)
	return s
}

func keptRunner(r store.Runner) store.Runner {
	r.Record, r.Inventory = keptDoc(r.Record), keptDoc(r.Inventory)
	r.Created, r.Used, r.Revoked, r.LastSeen = keptTime(r.Created), keptTime(r.Used), keptTime(r.Revoked), keptTime(r.LastSeen)
	return r
}
