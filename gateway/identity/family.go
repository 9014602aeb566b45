package identity

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"runnerd/gateway/bus"
	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// A family is what authentication needs to know of a runner.
type family struct {
	subject store.Subject
	revoked bool
	used    bool // a token of it was used or traded before
}

// families is the view of the runners that follows the cursor of revocations. It is trusted only while following works:
// when the last look at the cursor is too old, every question goes to the store.
type families struct {
	mu     sync.Mutex
	cursor int64     // the last revocation seen
	looked time.Time // when the store was last asked for revocations; with the monotonic clock
	known  map[store.RunnerID]family
	gone   map[store.RunnerID]map[chan struct{}]bool // who wants to hear of a revocation
}

const (
	maxFamilies = 1 << 16
	staleAfter  = 5 * time.Second // from revocation to refusal (design, section 4)
	lookLimit   = 4 * time.Second
)

// find gives what is known, and the cursor at which that was, to be handed to keep.
func (f *families) find(id store.RunnerID) (got family, ok bool, cursor int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.looked) < staleAfter {
		got, ok = f.known[id]
	}
	return got, ok, f.cursor
}

// keep remembers what was read from the store, unless a revocation passed since find: it may have been this one's.
func (f *families) keep(id store.RunnerID, got family, cursor int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cursor != cursor {
		return
	}
	if f.known == nil || len(f.known) >= maxFamilies {
		f.known = make(map[store.RunnerID]family)
	}
	f.known[id] = got
}

// revoke tells everybody who waits for it.
func (f *families) revoke(id store.RunnerID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(id)
}

func (f *families) forget(id store.RunnerID) {
	delete(f.known, id)
	for ch := range f.gone[id] {
		close(ch)
	}
	delete(f.gone, id)
}

// watch gives a channel that is closed when the runner is revoked. stop may be called more than once.
func (f *families) watch(id store.RunnerID) (revoked <-chan struct{}, stop func()) {
	ch := make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone == nil {
		f.gone = make(map[store.RunnerID]map[chan struct{}]bool)
	}
	if f.gone[id] == nil {
		f.gone[id] = make(map[chan struct{}]bool)
	}
	f.gone[id][ch] = true
	return ch, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if delete(f.gone[id], ch); len(f.gone[id]) == 0 {
			delete(f.gone, id)
		}
	}
}

// look reads the revocations since the cursor.
func (f *families) look(ctx context.Context, s store.Store) error {
	f.mu.Lock()
	cursor := f.cursor
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	began := time.Now() // a revocation that commits while we read counts as not seen
	var news []store.Revocation
	err := s.View(ctx, func(r store.Reader) error {
		for one, err := range r.Revocations(cursor) {
			if err != nil {
				return err
			}
			news = append(news, one)
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range news {
		f.cursor = max(f.cursor, one.Seq)
		f.forget(one.Runner)
	}
	f.looked = began
	return nil
}

func (f *families) follow(ctx context.Context, s store.Store, b bus.Bus, log *slog.Logger) error {
	wake, stop := b.Listen(store.RevokedTopic)
	defer stop()
	tick := time.NewTicker(wire.RevocationPoll)
	defer tick.Stop()
	for failing := false; ; {
		err := f.look(ctx, s)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !failing {
			log.WarnContext(ctx, "revocations not read; runners are checked one by one", "err", err)
		}
		failing = err != nil
		select {
		case <-wake:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
