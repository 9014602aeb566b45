package identity

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"runnerd/gateway/bus/membus"
	"runnerd/gateway/store"
	"runnerd/gateway/store/sqlite"
	"runnerd/internal/wire"
)

// A world is a service over a real store, in a bubble's time. Everything it logs is kept, to be searched for tokens.
type world struct {
	*Service
	t     *testing.T
	store store.Store
	bus   *membus.Bus
	log   *bytes.Buffer
	ahead time.Duration // of the bubble's clock: a store notes the time every minute, so days are skipped, not slept
}

// now is the wall clock; skip moves it.
func (w *world) now() time.Time       { return time.Now().Add(w.ahead) }
func (w *world) skip(d time.Duration) { w.ahead += d }

const (
	alice store.Subject = "default/alice"
	bob   store.Subject = "default/bob"
)

func inWorld(t *testing.T, fn func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := membus.New()
		w := &world{t: t, bus: b, log: new(bytes.Buffer)}
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "gateway.db"), sqlite.Options{Ring: b.Ring, Wall: w.now})
		if err != nil {
			t.Fatal(err)
		}
		w.store = s
		w.Service = w.another()
		for _, name := range []string{"alice", "bob"} {
			if _, _, err := w.AddUser(t.Context(), DefaultTenant, name); err != nil {
				t.Fatal(err)
			}
		}
		fn(t, w)
		if err := errors.Join(s.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	})
}

// another is one more gateway over the same store.
func (w *world) another() *Service {
	w.t.Helper()
	s, err := New(w.t.Context(), w.store, w.now, slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// running runs a service for as long as fn takes.
func (w *world) running(s *Service, fn func()) {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx, w.bus); err != nil {
			w.t.Errorf("run: %v", err)
		}
	})
	synctest.Wait()
	fn()
	stop()
	wg.Wait()
}

// pair makes a runner of the subject, up to its first tokens.
func (w *world) pair(subject store.Subject) (device string, tokens wire.TokenReply) {
	w.t.Helper()
	p := w.begin()
	if _, err := w.Approve(w.t.Context(), subject, p.UserCode); err != nil {
		w.t.Fatal(err)
	}
	return p.DeviceCode, w.trade(wire.TokenRequest{DeviceCode: p.DeviceCode})
}

func (w *world) begin() wire.PairingReply {
	w.t.Helper()
	p, err := w.Pair(w.t.Context(), "192.0.2.1", "http://gw/pair", wire.PairingRequest{Name: "laptop", Platform: "linux", Version: "1"})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) trade(in wire.TokenRequest) wire.TokenReply {
	w.t.Helper()
	out, err := w.Trade(w.t.Context(), in)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// refused checks that a trade is refused with the code.
func (w *world) refused(in wire.TokenRequest, code string) {
	w.t.Helper()
	out, err := w.Trade(w.t.Context(), in)
	e, ok := errors.AsType[*TokenError](err)
	if !ok || e.Code != code || out != (wire.TokenReply{}) {
		w.t.Errorf("got %v, %v; want the code %s", out, err, code)
	}
}

func (w *world) asRunner(s *Service, token string) error {
	_, _, err := s.AuthenticateRunner(w.t.Context(), token)
	return err
}

// audit gives the subject's log as kinds and details.
func (w *world) audit(s store.Subject) []string {
	w.t.Helper()
	var got []string
	err := w.store.View(w.t.Context(), func(r store.Reader) error {
		for e, err := range r.Audit(s, 0, 100) {
			if err != nil {
				return err
			}
			got = append(got, e.Kind+" "+e.Detail)
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}
