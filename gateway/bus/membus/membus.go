// Package membus is the bus of one process. It promises that Ring never blocks and never waits for a listener, that a ring
// which comes while a listener works is not lost, and that listeners of other topics cost a ring nothing.
package membus

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"runnerd/gateway/bus"
	"runnerd/gateway/store"
)

// shards is how many locks the topics are spread over.
const shards = 64

// A Bus rings within the process. Use New.
type Bus struct {
	closed atomic.Bool
	seed   maphash.Seed
	shard  [shards]shard
}

var _ bus.Bus = (*Bus)(nil)

type shard struct {
	mu        sync.RWMutex
	listeners map[store.Topic]map[*listener]struct{}
}

// A listener's channel holds one ring: a second one before the first was taken says nothing new.
type listener struct {
	wake chan struct{}
}

// New makes a bus that nobody listens to yet.
func New() *Bus {
	b := &Bus{seed: maphash.MakeSeed()}
	for i := range b.shard {
		b.shard[i].listeners = map[store.Topic]map[*listener]struct{}{}
	}
	return b
}

// Ring wakes everybody who listens to one of the topics.
func (b *Bus) Ring(topics ...store.Topic) {
	if b.closed.Load() {
		return
	}
	for _, topic := range topics {
		s := b.of(topic)
		s.mu.RLock()
		for l := range s.listeners[topic] {
			select {
			case l.wake <- struct{}{}:
			default:
			}
		}
		s.mu.RUnlock()
	}
}

// Listen gives a channel that holds at most one pending ring for any of the topics. Stop may be called again; only the
// first call counts.
func (b *Bus) Listen(topics ...store.Topic) (<-chan struct{}, func()) {
	topics = slices.Clone(topics)
	l := &listener{wake: make(chan struct{}, 1)}
	for _, topic := range topics {
		b.of(topic).add(topic, l)
	}
	return l.wake, sync.OnceFunc(func() {
		for _, topic := range topics {
			b.of(topic).remove(topic, l)
		}
	})
}

// Close ends the bus. Listeners stay as they are, and hear nothing more.
func (b *Bus) Close() error {
	b.closed.Store(true)
	return nil
}

func (b *Bus) of(topic store.Topic) *shard {
	return &b.shard[maphash.String(b.seed, string(topic))%shards]
}

func (s *shard) add(topic store.Topic, l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners[topic] == nil {
		s.listeners[topic] = map[*listener]struct{}{}
	}
	s.listeners[topic][l] = struct{}{}
}

func (s *shard) remove(topic store.Topic, l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners[topic], l)
	if len(s.listeners[topic]) == 0 {
		delete(s.listeners, topic) // or a gateway would keep an entry for every run it ever had
	}
}
