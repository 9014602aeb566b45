package natsbus

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"runnerd/gateway/bus"
	"runnerd/gateway/store"
)

// Options are what a bus needs from the process.
type Options struct {
	Log *slog.Logger // may be left out
}

const (
	connectWithin = 5 * time.Second
	pingEvery     = 5 * time.Second // a server that is silent to two of them is gone
	confirmWithin = 250 * time.Millisecond
	sendWithin    = time.Second // what is left to send when the bus closes
	maxUnsent     = 1 << 16     // topics
	maxUntaken    = 1 << 13     // rings of others
)

// A Bus rings within the gateway and, over a NATS server, in all others.
type Bus struct {
	log   *slog.Logger
	nc    *nats.Conn
	taken chan *nats.Msg
	kick  chan struct{}
	done  chan struct{}
	close func()
	loops sync.WaitGroup

	subscribing sync.Mutex
	subs        map[string]*nats.Subscription

	sending sync.Mutex
	unsent  map[store.Topic]struct{}
	unsure  bool // others may have missed a ring

	mu        sync.RWMutex
	closed    bool
	listeners map[string]map[*listener]struct{} // by subject
}

var _ bus.Bus = (*Bus)(nil)

// A listener's channel holds one ring: a second one before the first was taken says nothing new.
type listener struct {
	wake chan struct{}
}

func (l *listener) ring() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Open connects to the server, or to one of several with commas between them, as NATS writes URLs. Later it reconnects by
// itself, for ever. Errors name the servers and never a password.
func Open(servers string, opt Options) (*Bus, error) {
	b := &Bus{
		log: opt.Log, taken: make(chan *nats.Msg, maxUntaken), kick: make(chan struct{}, 1), done: make(chan struct{}),
		subs: map[string]*nats.Subscription{}, unsent: map[store.Topic]struct{}{}, listeners: map[string]map[*listener]struct{}{},
	}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	b.close = sync.OnceFunc(b.end)
	names, err := whereabouts(servers)
	if err != nil {
		return nil, fmt.Errorf("open bus: %w", err)
	}
	b.nc, err = nats.Connect(servers,
		nats.Name("gateway"), nats.NoEcho(), nats.Timeout(connectWithin), nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(2), nats.FlusherTimeout(pingEvery),
		nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.CustomReconnectDelay(delay), nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil: we close it
				b.log.Warn("the connection to the bus is gone", "err", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { b.reconnected() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { b.failed(err) }),
	)
	if err != nil {
		return nil, fmt.Errorf("open bus %s: %w", names, err)
	}
	if b.subs[look], err = b.nc.ChanSubscribe(look, b.taken); err == nil {
		err = b.nc.FlushTimeout(connectWithin)
	}
	if err != nil {
		b.nc.Close()
		return nil, fmt.Errorf("open bus %s: %w", names, err)
	}
	b.loops.Go(b.take)
	b.loops.Go(b.send)
	return b, nil
}

// whereabouts says where the servers are, without the credentials that URLs may hold.
func whereabouts(servers string) (string, error) {
	var names []string
	for server := range strings.SplitSeq(servers, ",") {
		server = strings.TrimSpace(server)
		if !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		u, err := url.Parse(server)
		if err != nil || u.Host == "" {
			return "", errors.New("a server is written like nats://bus.example.org:4222")
		}
		names = append(names, u.Host)
	}
	return strings.Join(names, ", "), nil
}

// delay grows with the attempts, and is not the same for all gateways.
func delay(attempts int) time.Duration {
	most := min(50*time.Millisecond<<min(attempts, 6), 2*time.Second)
	return most/2 + rand.N(most/2)
}

// Ring wakes everybody who listens to one of the topics: here before it returns, elsewhere soon after.
func (b *Bus) Ring(topics ...store.Topic) {
	if len(topics) == 0 || !b.wake(topics) {
		return
	}
	b.sending.Lock()
	for _, t := range topics {
		b.unsent[t] = struct{}{}
	}
	if len(b.unsent) > maxUnsent {
		clear(b.unsent)
		b.unsure = true
	}
	b.sending.Unlock()
	b.hurry()
}

// wake wakes listeners of this gateway, and says whether the bus is open.
func (b *Bus) wake(topics []store.Topic) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return false
	}
	if len(b.listeners) > 0 {
		for _, t := range topics {
			for l := range b.listeners[subject(t)] {
				l.ring()
			}
		}
	}
	return true
}

// wakeAll has everybody here look again.
func (b *Bus) wakeAll() {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return
	}
	for _, some := range b.listeners {
		for l := range some {
			l.ring()
		}
	}
}

func (b *Bus) hurry() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// Listen gives a channel that holds at most one pending ring for any of the topics. Stop may be called again; only the first
// call counts.
func (b *Bus) Listen(topics ...store.Topic) (<-chan struct{}, func()) {
	l := &listener{wake: make(chan struct{}, 1)}
	subjects := map[string]bool{}
	for _, t := range topics {
		subjects[subject(t)] = true
	}
	b.mu.Lock()
	for s := range subjects {
		if b.listeners[s] == nil {
			b.listeners[s] = map[*listener]struct{}{}
		}
		b.listeners[s][l] = struct{}{}
	}
	b.mu.Unlock()
	if b.subscribe(slices.Collect(maps.Keys(subjects))...) {
		b.confirm(l, subjects)
	}
	return l.wake, sync.OnceFunc(func() {
		b.mu.Lock()
		for s := range subjects {
			delete(b.listeners[s], l)
			if len(b.listeners[s]) == 0 {
				delete(b.listeners, s)
			}
		}
		b.mu.Unlock()
		b.subscribe(slices.Collect(maps.Keys(subjects))...)
	})
}

// subscribe has this gateway's subscriptions follow its listeners, and says whether there are new ones.
func (b *Bus) subscribe(subjects ...string) (added bool) {
	b.subscribing.Lock()
	defer b.subscribing.Unlock()
	for _, s := range subjects {
		b.mu.RLock()
		wanted := b.listeners[s] != nil && !b.closed
		b.mu.RUnlock()
		sub, have := b.subs[s]
		switch {
		case wanted && !have:
			sub, err := b.nc.ChanSubscribe(s, b.taken)
			if err != nil {
				b.log.Warn("bells of other gateways are not heard", "err", err)
				continue
			}
			b.subs[s], added = sub, true
		case !wanted && have:
			delete(b.subs, s)
			_ = sub.Unsubscribe() // fails only when the connection is closed
		}
	}
	return added
}

// confirm waits until the server has the new subscriptions. If that takes long the listener does not wait, and is woken when
// it has; without a connection everybody is woken when there is one.
func (b *Bus) confirm(l *listener, subjects map[string]bool) {
	if !b.nc.IsConnected() || b.nc.FlushTimeout(confirmWithin) == nil {
		return
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return
	}
	b.loops.Go(func() {
		if b.nc.FlushTimeout(2*pingEvery) != nil {
			return // the connection breaks
		}
		b.mu.RLock()
		defer b.mu.RUnlock()
		for s := range subjects {
			if _, listens := b.listeners[s][l]; listens && !b.closed {
				l.ring()
			}
		}
	})
}

// Close sends what rang, for a moment at most, and ends the bus. Listeners stay as they are, and hear nothing more.
func (b *Bus) Close() error {
	b.close()
	return nil
}

func (b *Bus) end() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	close(b.done)
	defer b.loops.Wait()
	defer b.nc.Close()
	if b.publish() {
		_ = b.nc.FlushTimeout(sendWithin) // nobody is left to hear of it
	}
}
