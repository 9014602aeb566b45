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
	mu      sync.Mutex
	cursor  int64     // the last revocation seen
	looked  time.Time // when the store was last asked for revocations; with the monotonic clock
	version int       // rises whenever something is forgotten
	known   map[store.RunnerID]family
}

const (
	maxFamilies = 1 << 16
	staleAfter  = 5 * time.Second // from revocation to refusal (design, section 4)
	lookLimit   = 4 * time.Second
)

// find gives what is known, and the version at which that was, to be handed to keep.
func (f *families) find(id store.RunnerID) (got family, ok bool, version int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.looked) < staleAfter {
		got, ok = f.known[id]
	}
	return got, ok, f.version
}

// keep remembers what was read from the store, unless something was forgotten since find: it may have been this one.
func (f *families) keep(id store.RunnerID, got family, version int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.version != version {
		return
	}
	if f.known == nil || len(f.known) >= maxFamilies {
		f.known = make(map[store.RunnerID]family)
	}
	f.known[id] = got
}

// forget has the runner read anew.
func (f *families) forget(id store.RunnerID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	delete(f.known, id)
}

// look reads the revocations since the cursor.
func (f *families) look(ctx context.Context, s store.Store) error {
	f.mu.Lock()
	cursor := f.cursor
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	began := time.Now() // a revocation that commits while we read counts as not seen
	err := s.View(ctx, func(r store.Reader) error {
		for one, err := range r.Revocations(cursor) {
			if err != nil {
				return err
			}
			f.forget(one.Runner)
			cursor = one.Seq
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cursor, f.looked = cursor, began
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
