package dispatch

import (
	"context"
	"maps"

	"runnerd/gateway/store"
)

// A Tx is a transaction of the store with what dispatch keeps while it lasts: how many lanes are taken, so that a batch of
// results asks once, and what is to be done in memory when the commit is durable. See Service.Update and Within.
type Tx struct {
	store.Tx
	steps   stepCache
	hands   map[store.RunnerID]hand
	freed   map[fence]bool          // offers whose lane the runner has given back, whatever it reported last
	without map[store.RunnerID]bool // runners that just refused a step as busy, or were revoked
	refills map[store.Subject]bool  // subjects that have a lane or a waiting step more than before
	looked  map[store.Subject]bool  // subjects whose runners it looked at
	after   []func()
}

// A fence names one offer.
type fence struct {
	runner store.RunnerID
	seq    int64
}

// AfterCommit has f called once the transaction is durable, and not at all if it fails.
func (t *Tx) AfterCommit(f func()) { t.after = append(t.after, f) }

// looks is true for the first look at a subject's runners.
func (t *Tx) looks(s store.Subject) bool {
	if t.looked[s] {
		return false
	}
	if t.looked == nil {
		t.looked = map[store.Subject]bool{}
	}
	t.looked[s] = true
	return true
}

// Update runs fn in one transaction of the store and returns when it is durable. Lanes that fn freed are given to waiting
// steps at its end, in the same transaction: a run that is ending has abandoned all its steps by then.
func (s *Service) Update(ctx context.Context, fn func(*Tx) error) error {
	var last *Tx // fn may run again after a serialization failure
	err := s.store.Update(ctx, func(tx store.Tx) (err error) {
		last, err = s.within(tx, fn)
		return err
	})
	if err != nil {
		return err
	}
	for _, f := range last.after {
		f()
	}
	return nil
}

// Within runs fn as a part of a transaction that somebody else began. Unless that was Update or a Store, what AfterCommit is
// given never happens, so only caches and hints may hang on it.
func (s *Service) Within(tx store.Tx, fn func(*Tx) error) error {
	if t, ok := tx.(*Tx); ok {
		return fn(t)
	}
	_, err := s.within(tx, fn)
	return err
}

func (s *Service) within(tx store.Tx, fn func(*Tx) error) (*Tx, error) {
	t := &Tx{Tx: tx}
	if err := fn(t); err != nil {
		return t, err
	}
	for subject := range t.refills {
		if err := s.refill(t, subject); err != nil {
			return t, err
		}
	}
	return t, nil
}

// Store gives the store to write through for those who call into dispatch or runs from transactions of their own: what
// their transactions lead to there is done as by Update.
func (s *Service) Store() store.Store { return through{s.store, s} }

type through struct {
	store.Store
	s *Service
}

func (t through) Update(ctx context.Context, fn func(store.Tx) error) error {
	return t.s.Update(ctx, func(tx *Tx) error { return fn(tx) })
}

// A stepCache has the steps that the transaction wrote, as they are now. What it reads goes through it too, so that a report
// does not read a step once to accept it and once more to answer.
type stepCache map[stepKey]store.Step

type stepKey struct {
	tenant store.Tenant
	run    store.RunID
	step   store.StepID
}

func (c *stepCache) put(s store.Step) {
	if *c == nil {
		*c = stepCache{}
	}
	(*c)[stepKey{s.Tenant, s.Run, s.ID}] = s
}

// Step is the store's, or what the transaction itself has made of the step.
func (t *Tx) Step(tenant store.Tenant, run store.RunID, step store.StepID) (store.Step, error) {
	if s, ok := t.steps[stepKey{tenant, run, step}]; ok {
		return s, nil
	}
	s, err := t.Tx.Step(tenant, run, step)
	if err == nil {
		t.steps.put(s)
	}
	return s, err
}

// A hand is what a runner has been given and not finished.
type hand struct {
	steps int
	lanes map[string]int // by provider
	seqs  map[int64]bool
}

// hand counts the lanes of a runner that are taken: steps offered to it or accepted by it, and those that it still holds
// though they ended here.
func (t *Tx) hand(s store.Subject, r store.RunnerID, held []heldStep) (hand, error) {
	h, ok := t.hands[r]
	if !ok {
		h = hand{lanes: map[string]int{}, seqs: map[int64]bool{}}
		for step, err := range t.StepsOfRunner(s, r, store.StepOffered, store.StepAccepted) {
			if err != nil {
				return hand{}, err
			}
			h.take(step.Seq, step.UseProv)
		}
		if t.hands == nil {
			t.hands = map[store.RunnerID]hand{}
		}
		t.hands[r] = h
	}
	full := hand{h.steps, map[string]int{}, h.seqs}
	maps.Copy(full.lanes, h.lanes)
	for _, x := range held {
		if !h.seqs[x.seq] && !t.freed[fence{r, x.seq}] {
			full.steps++
			full.lanes[x.provider]++
		}
	}
	return full, nil
}

func (h *hand) take(seq int64, provider string) {
	h.steps++
	h.lanes[provider]++
	h.seqs[seq] = true
}

// took and gave keep the counts true while the transaction moves steps.
func (t *Tx) took(s store.Step) {
	if h, ok := t.hands[s.Runner]; ok {
		h.take(s.Seq, s.UseProv)
		t.hands[s.Runner] = h
	}
}

func (t *Tx) gave(s store.Step) {
	if t.refills == nil {
		t.refills = map[store.Subject]bool{}
	}
	t.refills[s.Subject] = true
	if h, ok := t.hands[s.Runner]; ok && h.seqs[s.Seq] {
		h.steps--
		h.lanes[s.UseProv]--
		delete(h.seqs, s.Seq)
		t.hands[s.Runner] = h
	}
}

// free notes that the runner itself gave back the lane of an offer.
func (t *Tx) free(r store.RunnerID, seq int64) {
	if t.freed == nil {
		t.freed = map[fence]bool{}
	}
	t.freed[fence{r, seq}] = true
}

// leaveOut keeps a runner from being offered anything more by this transaction.
func (t *Tx) leaveOut(r store.RunnerID) {
	if t.without == nil {
		t.without = map[store.RunnerID]bool{}
	}
	t.without[r] = true
}
