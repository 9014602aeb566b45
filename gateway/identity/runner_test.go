package identity

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

func TestDeviceCodeGivesTheSameTokensUntilTheBearerIsUsed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := w.begin()
		ask := wire.TokenRequest{DeviceCode: p.DeviceCode}
		w.refused(ask, wire.TokenPending)
		w.refused(ask, wire.TokenSlowDown)
		w.skip(8 * time.Second)
		w.refused(ask, wire.TokenPending)
		if seen, err := w.Pairing(t.Context(), alice, strings.ToLower(p.UserCode)); err != nil || seen.Name != "laptop" {
			t.Errorf("a person sees %+v, %v", seen, err)
		}
		approved, err := w.Approve(t.Context(), alice, p.UserCode)
		if err != nil {
			t.Fatal(err)
		}
		first := w.trade(ask)
		if first.RunnerID != string(approved.Runner) || first.Subject != string(alice) || first.TokenType != "Bearer" {
			t.Errorf("tokens %+v", first)
		}
		w.skip(time.Minute)
		again := w.trade(ask)
		if again.ExpiresIn != first.ExpiresIn-60 {
			t.Errorf("lives %d s, then %d s", first.ExpiresIn, again.ExpiresIn)
		}
		again.ExpiresIn = first.ExpiresIn
		if d := cmp.Diff(first, again); d != "" {
			t.Errorf("asked again (-first +again): %s", d)
		}
		if err := w.asRunner(w.Service, first.AccessToken); err != nil {
			t.Fatal(err)
		}
		w.refused(ask, wire.TokenInvalid)
		if _, err := w.Approve(t.Context(), alice, p.UserCode); !errors.Is(err, ErrSettled) {
			t.Errorf("approved twice: %v", err)
		}
		if _, err := w.Approve(t.Context(), bob, p.UserCode); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("another person learns of it: %v", err)
		}
		if d := cmp.Diff([]string{"pair approved: laptop"}, w.audit(alice)); d != "" {
			t.Error(d)
		}
	})
}

func TestPairingIsDeniedOrExpires(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		denied, late := w.begin(), w.begin()
		if _, err := w.Deny(t.Context(), bob, denied.UserCode); err != nil {
			t.Fatal(err)
		}
		w.refused(wire.TokenRequest{DeviceCode: denied.DeviceCode}, wire.TokenDenied)
		w.skip(wire.PairingLife)
		w.refused(wire.TokenRequest{DeviceCode: late.DeviceCode}, wire.TokenExpired)
		if _, err := w.Approve(t.Context(), bob, late.UserCode); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("approved after its time: %v", err)
		}
		w.refused(wire.TokenRequest{DeviceCode: mint(prefixDevice)}, wire.TokenInvalid)
		if d := cmp.Diff([]string{"pair denied: laptop"}, w.audit(bob)); d != "" {
			t.Error(d)
		}
	})
}

func TestUserCodesCannotBeGuessed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tries := 0
		for ; tries < 1000; tries++ {
			_, err := w.Approve(t.Context(), bob, randomText(codeLength, codeLetters))
			if limit, ok := errors.AsType[*LimitError](err); ok {
				if limit.RetryAfter <= 0 || limit.Scope != "key" {
					t.Errorf("limit %+v", limit)
				}
				break
			}
		}
		if tries != 5 {
			t.Errorf("%d guesses before the limit", tries)
		}
		p := w.begin()
		if _, err := w.Approve(t.Context(), bob, p.UserCode); err == nil {
			t.Error("the right code is still looked at")
		}
		for range 20 { // an honest person is not limited by success
			if _, err := w.Pairing(t.Context(), alice, p.UserCode); err != nil {
				t.Fatal(err)
			}
		}
		w.skip(15 * time.Second)
		if _, err := w.Approve(t.Context(), bob, p.UserCode); err != nil {
			t.Errorf("after a while: %v", err)
		}
	})
}

func TestRefreshRotates(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		device, first := w.pair(alice)
		second := w.trade(wire.TokenRequest{RefreshToken: first.RefreshToken})
		w.skip(10 * time.Second)
		lost := w.trade(wire.TokenRequest{RefreshToken: first.RefreshToken}) // its answer was lost
		if lost.AccessToken != second.AccessToken || lost.RefreshToken != second.RefreshToken {
			t.Error("a repeated presentation gives other tokens")
		}
		w.refused(wire.TokenRequest{DeviceCode: device}, wire.TokenInvalid)
		w.skip(wire.BearerLife)
		if err := w.asRunner(w.Service, second.AccessToken); !errors.Is(err, ErrExpired) {
			t.Errorf("an old bearer: %v", err)
		}
		slept := w.trade(wire.TokenRequest{RefreshToken: first.RefreshToken}) // the answer was lost and the laptop slept
		if slept.RefreshToken != second.RefreshToken || slept.AccessToken == second.AccessToken || slept.ExpiresIn != 3600 {
			t.Errorf("after a sleep: %d s, same refresh %v", slept.ExpiresIn, slept.RefreshToken == second.RefreshToken)
		}
		third := w.trade(wire.TokenRequest{RefreshToken: second.RefreshToken})
		if err := w.asRunner(w.Service, third.AccessToken); err != nil {
			t.Errorf("the newest bearer: %v", err)
		}
		w.refused(wire.TokenRequest{RefreshToken: first.RefreshToken}, wire.TokenInvalid) // reuse
		if err := w.asRunner(w.Service, third.AccessToken); !errors.Is(err, ErrRevoked) {
			t.Errorf("after reuse: %v", err)
		}
		w.refused(wire.TokenRequest{RefreshToken: third.RefreshToken}, wire.TokenInvalid)
		w.refused(wire.TokenRequest{RefreshToken: first.RefreshToken}, wire.TokenInvalid)
		if d := cmp.Diff([]string{"pair approved: laptop", "reuse a refresh token was used a second time"}, w.audit(alice)); d != "" {
			t.Error(d)
		}
	})
}

func TestRestoredGatewayTakesALaterGeneration(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, first := w.pair(alice)
		ahead := w.refresh.stamp(first.RunnerID, 7)
		next := w.trade(wire.TokenRequest{RefreshToken: ahead})
		w.trade(wire.TokenRequest{RefreshToken: next.RefreshToken})
		w.refused(wire.TokenRequest{RefreshToken: ahead}, wire.TokenInvalid)
	})
}

func TestUnusedFamilyExpires(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, first := w.pair(alice)
		second := w.trade(wire.TokenRequest{RefreshToken: first.RefreshToken})
		w.skip(wire.RefreshIdle + time.Second)
		w.refused(wire.TokenRequest{RefreshToken: second.RefreshToken}, wire.TokenInvalid)
	})
}

func TestSimultaneousPresentationsGiveOneAnswer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, first := w.pair(alice)
		got := make([]wire.TokenReply, 16)
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() { got[i], _ = w.Trade(t.Context(), wire.TokenRequest{RefreshToken: first.RefreshToken}) })
		}
		wg.Wait()
		if got[0].AccessToken == "" || len(slices.Compact(got)) != 1 {
			t.Errorf("%d different answers", len(slices.Compact(got)))
		}
	})
}

func TestRevokedRunnerIsRefusedEverywhereWithinFiveSeconds(t *testing.T) { // faults.md T07
	inWorld(t, func(t *testing.T, w *world) {
		other := w.another()
		w.running(w.Service, func() {
			w.running(other, func() {
				_, tokens := w.pair(alice)
				id := store.RunnerID(tokens.RunnerID)
				for _, s := range []*Service{w.Service, other} {
					if err := w.asRunner(s, tokens.AccessToken); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.RevokeRunner(t.Context(), bob, id, "theft"); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("revoked by another person: %v", err)
				}
				if err := w.RevokeRunner(t.Context(), alice, id, "lost"); err != nil {
					t.Fatal(err)
				}
				if err := w.asRunner(w.Service, tokens.AccessToken); !errors.Is(err, ErrRevoked) {
					t.Errorf("here: %v", err)
				}
				synctest.Wait() // the bell
				if err := w.asRunner(other, tokens.AccessToken); !errors.Is(err, ErrRevoked) {
					t.Errorf("there: %v", err)
				}
				w.refused(wire.TokenRequest{RefreshToken: tokens.RefreshToken}, wire.TokenInvalid)
				if err := w.RevokeRunner(t.Context(), alice, id, "again"); err != nil {
					t.Errorf("twice: %v", err)
				}
			})
		})
		if d := cmp.Diff([]string{"pair approved: laptop", "revoke lost"}, w.audit(alice)); d != "" {
			t.Error(d)
		}
	})
}

func TestRevocationIsFoundWithoutABell(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		deaf := w.another()
		_, tokens := w.pair(alice)
		if err := w.bus.Close(); err != nil { // nothing rings any more
			t.Fatal(err)
		}
		w.running(deaf, func() {
			if err := w.asRunner(deaf, tokens.AccessToken); err != nil {
				t.Fatal(err)
			}
			if err := w.RevokeRunner(t.Context(), alice, store.RunnerID(tokens.RunnerID), "lost"); err != nil {
				t.Fatal(err)
			}
			if err := w.asRunner(deaf, tokens.AccessToken); err != nil {
				t.Errorf("known before the poll, without a bell: %v", err)
			}
			time.Sleep(wire.RevocationPoll)
			synctest.Wait()
			if err := w.asRunner(deaf, tokens.AccessToken); !errors.Is(err, ErrRevoked) {
				t.Errorf("after the poll: %v", err)
			}
		})
	})
}

func TestRunnerIsCheckedOneByOneWhileNobodyFollows(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		other := w.another()
		_, tokens := w.pair(alice)
		for range 3 {
			if err := w.asRunner(other, tokens.AccessToken); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.RevokeRunner(t.Context(), alice, store.RunnerID(tokens.RunnerID), "lost"); err != nil {
			t.Fatal(err)
		}
		if err := w.asRunner(other, tokens.AccessToken); !errors.Is(err, ErrRevoked) {
			t.Errorf("got %v", err)
		}
	})
}

func TestPairingsAreLimitedPerSender(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		pair := func(from string) error {
			_, err := w.Pair(t.Context(), from, "http://gw/pair", wire.PairingRequest{Name: "x", Platform: "x", Version: "x"})
			return err
		}
		var n int
		for ; n < 100 && pair("192.0.2.1") == nil; n++ {
		}
		if n != 10 {
			t.Errorf("%d pairings before the limit", n)
		}
		for range 1000 { // what is refused to one sender is taken from nobody else
			if err := pair("192.0.2.1"); err == nil {
				t.Fatal("the limit does not last")
			}
		}
		if err := pair("192.0.2.2"); err != nil {
			t.Errorf("another sender: %v", err)
		}
		if _, err := w.Pair(t.Context(), "192.0.2.3", "", wire.PairingRequest{}); err == nil {
			t.Error("a nameless runner is let in")
		}
	})
}
