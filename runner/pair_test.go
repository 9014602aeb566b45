package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/internal/redact"
	"runnerd/internal/wire"
	"runnerd/runner"
)

// inMemory answers requests without a network: by a handler, or an error.
type inMemory func(w http.ResponseWriter, r *http.Request) error

func (f inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Context().Err() != nil {
		return nil, context.Cause(r.Context())
	}
	w := httptest.NewRecorder()
	if err := f(w, r); err != nil {
		return nil, err
	}
	res := w.Result()
	res.Request = r
	return res, nil
}

// A desk clerk answers pairings: with one answer after the other, then with tokens.
type clerk struct {
	answers []string // error codes; "" resets the connection
	asked   []time.Time
	life    int
}

func (c *clerk) answer(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/pairings") {
		w.WriteHeader(http.StatusCreated)
		return json.NewEncoder(w).Encode(wire.PairingReply{
			DeviceCode: "dev", UserCode: "ABCD-EFGH", VerificationURI: "https://g/pair", VerificationURIComplete: "https://g/pair?c=ABCD-EFGH",
			ExpiresIn: int64(c.life), Interval: 2,
		})
	}
	c.asked = append(c.asked, time.Now())
	if n := len(c.asked) - 1; n < len(c.answers) {
		if c.answers[n] == "" {
			return errDown
		}
		w.WriteHeader(http.StatusBadRequest)
		_, err := fmt.Fprintf(w, `{"error":%q}`, c.answers[n])
		return err
	}
	return json.NewEncoder(w).Encode(wire.TokenReply{
		AccessToken: "bearer-x-of-the-runner", TokenType: "Bearer", ExpiresIn: 3600, RefreshToken: "refresh-x-of-the-runner", RunnerID: "rnr_9", Subject: "default/ada",
	})
}

func pair(ctx context.Context, t *testing.T, c *clerk, s *store) (runner.PairResult, string, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	shown := 0
	got, err := runner.Pair(ctx, runner.PairConfig{
		Gateway: "https://gateway.example", Dir: dir, Name: "Ada's laptop", Version: "1", Store: "memory", Credentials: s,
		Client: &http.Client{Transport: inMemory(c.answer)},
	}, func(code wire.PairingReply) {
		if shown++; code.UserCode != "ABCD-EFGH" {
			t.Errorf("code %+v", code)
		}
	})
	if shown != 1 {
		t.Errorf("the code was shown %d times", shown)
	}
	return got, dir, err
}

func TestPairingWaitsForItsApprovalAndStoresTheTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clerk{life: 600, answers: []string{wire.TokenPending, wire.TokenPending, "", wire.TokenSlowDown, wire.TokenPending}}
		s := &store{values: map[string]redact.Secret{}}
		got, dir, err := pair(t.Context(), t, c, s)
		if err != nil || got != (runner.PairResult{RunnerID: "rnr_9", Subject: "default/ada"}) {
			t.Fatalf("%+v, %v", got, err)
		}
		if s.values["runner.refresh"].Reveal() != "refresh-x-of-the-runner" || s.values["runner.bearer"].Reveal() != "bearer-x-of-the-runner" {
			t.Error("the tokens are not stored")
		}
		id, err := runner.LoadIdentity(dir)
		id.Paired = time.Time{}
		want := runner.Identity{Gateway: "https://gateway.example", RunnerID: "rnr_9", Subject: "default/ada", Name: "Ada's laptop", Store: "memory"}
		if diff := cmp.Diff(want, id); err != nil || diff != "" {
			t.Errorf("identity: %v (-want +got):\n%s", err, diff)
		}
		b, err := os.ReadFile(filepath.Join(dir, "runner.json"))
		if err != nil || strings.Contains(string(b), "-x-of-the-runner") {
			t.Errorf("a token is in the identity: %s, %v", b, err)
		}
		var waits []time.Duration
		for i := 1; i < len(c.asked); i++ {
			waits = append(waits, c.asked[i].Sub(c.asked[i-1]))
		}
		if diff := cmp.Diff([]time.Duration{2 * time.Second, 2 * time.Second, 2 * time.Second, 7 * time.Second, 7 * time.Second}, waits); diff != "" {
			t.Errorf("waits (-want +got):\n%s", diff)
		}
	})
}

func TestPairingThatComesToNothingLeavesNothing(t *testing.T) {
	pending := make([]string, 1000)
	for i := range pending {
		pending[i] = wire.TokenPending
	}
	for name, c := range map[string]struct {
		clerk  clerk
		locked bool
		says   string
	}{
		"denied":  {clerk: clerk{life: 600, answers: []string{wire.TokenPending, wire.TokenDenied}}, says: "not approved"},
		"expired": {clerk: clerk{life: 600, answers: []string{wire.TokenExpired}}, says: "not approved"},
		"nobody":  {clerk: clerk{life: 60, answers: pending}, says: "not approved within 1m0s"},
		"locked":  {clerk: clerk{life: 600}, locked: true, says: "locked"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{values: map[string]redact.Secret{}}
				if c.locked {
					s.lock(errors.New("locked"))
				}
				_, dir, err := pair(t.Context(), t, &c.clerk, s)
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("error %v, want %q", err, c.says)
				}
				if _, err := runner.LoadIdentity(dir); !errors.Is(err, runner.ErrNotPaired) {
					t.Errorf("identity: %v", err)
				}
				if len(s.values) != 0 {
					t.Errorf("stored %d", len(s.values))
				}
			})
		})
	}
}

func TestPairingEndsCleanlyWithCtrlC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		interrupted := errors.New("interrupted")
		ctx, stop := context.WithCancelCause(t.Context())
		go func() {
			time.Sleep(5 * time.Second)
			stop(interrupted)
		}()
		c := &clerk{life: 600, answers: []string{wire.TokenPending, wire.TokenPending, wire.TokenPending, wire.TokenPending}}
		begun := time.Now()
		if _, _, err := pair(ctx, t, c, newStore()); !errors.Is(err, interrupted) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("ended after %v", took)
		}
	})
}

func TestNobodyIsARunnerWithoutPairing(t *testing.T) {
	_, err := runner.New(runner.Config{Dir: t.TempDir(), Credentials: newStore(), Client: &http.Client{}, Providers: &backend{}, Log: (&world{T: t}).runnerLog()})
	if !errors.Is(err, runner.ErrNotPaired) {
		t.Errorf("New = %v, want ErrNotPaired", err)
	}
	if _, err := runner.New(runner.Config{MaxSteps: -1}); err == nil || strings.Count(err.Error(), "must be") != 6 {
		t.Errorf("New = %v, want every mistake at once", err)
	}
}

func TestUD63LogoutRevokesAtTheGatewayFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		if err := w.runner.Logout(w.Context(), false); err != nil {
			t.Fatal(err)
		}
		if err := <-w.ended; !errors.Is(err, runner.ErrLoggedOut) {
			t.Errorf("Run = %v, want ErrLoggedOut", err)
		}
		w.stop = nil
		if !get(w.gateway, func() bool { return w.gateway.revoked }) || len(w.store.values) != 0 {
			t.Errorf("revoked %v, %d credentials are left", w.gateway.revoked, len(w.store.values))
		}
		if _, err := runner.LoadIdentity(w.dir); !errors.Is(err, runner.ErrNotPaired) {
			t.Errorf("identity: %v", err)
		}
	})
}

func TestLogoutWithoutTheGatewayNeedsForce(t *testing.T) {
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprint("running ", running), func(t *testing.T) {
			inWorld(t, func(w *world) {
				cfg := runner.PairConfig{Dir: w.dir, Credentials: w.store, Client: &http.Client{Transport: inMemory(func(http.ResponseWriter, *http.Request) error { return errDown })}}
				logout := func(force bool) error { return runner.Logout(w.Context(), cfg, force) }
				w.pipe.set(errDown, false)
				if running {
					w.launch()
					time.Sleep(time.Second)
					logout = func(force bool) error { return w.runner.Logout(w.Context(), force) }
				}
				if err := logout(false); !errors.Is(err, runner.ErrStillPaired) || !strings.Contains(err.Error(), "network is down") {
					t.Errorf("error %v, want ErrStillPaired and why", err)
				}
				if len(w.store.values) != 2 {
					t.Errorf("%d credentials are left, want both", len(w.store.values))
				}
				if err := logout(true); err != nil {
					t.Errorf("by force: %v", err)
				}
				if len(w.store.values) != 0 {
					t.Errorf("%d credentials are left", len(w.store.values))
				}
				if running {
					<-w.ended
					w.stop = nil
				}
			})
		})
	}
}

func TestRevokedRunnerStopsDiallingAndComesBackWhenPairedAnew(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.gateway.with(func() { w.gateway.revoked = true })
		w.pipe.reset()
		w.until("unpaired", func() bool { return w.runner.Status().Link.State == "unpaired" })
		if st := w.runner.Status(); !strings.Contains(st.Link.Reason, "runnerd pair") {
			t.Errorf("link %+v", st.Link)
		}
		requests := 0
		w.gateway.with(func() {
			w.gateway.hook = func(http.ResponseWriter, *http.Request) bool {
				w.gateway.mu.Lock()
				defer w.gateway.mu.Unlock()
				requests++
				return false
			}
		})
		time.Sleep(50 * time.Minute)
		if n := get(w.gateway, func() int { return requests }); n != 0 {
			t.Errorf("%d requests though it is useless", n)
		}
		w.gateway.with(func() { w.gateway.revoked = false })
		if err := errors.Join(w.store.Set(w.Context(), "runner.refresh", redact.New(refreshToken(8))), w.store.Set(w.Context(), "runner.bearer", redact.New("stale-bearer"))); err != nil {
			t.Fatal(err)
		}
		w.until("online", func() bool { return w.runner.Status().Link.State == "online" })
	})
}
