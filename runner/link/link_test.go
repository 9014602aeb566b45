package link_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/internal/egress"
	"runnerd/internal/redact"
	"runnerd/internal/wire"
	"runnerd/runner/link"
)

var errLocked = errors.New("credential store is locked")

// A store is credentials in memory that can be locked; it writes down what was set.
type store struct {
	mu     sync.Mutex
	values map[string]string
	locked bool
	set    []string
}

func (s *store) Get(_ context.Context, name string) (redact.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.values[name]; ok && !s.locked {
		return redact.New(v), nil
	}
	return redact.Secret{}, errLocked
}

func (s *store) Set(_ context.Context, name string, v redact.Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locked {
		return errLocked
	}
	s.values[name] = v.Reveal()
	s.set = append(s.set, name+"="+v.Reveal())
	return nil
}

func (s *store) Delete(_ context.Context, name string) error { delete(s.values, name); return nil }

func (s *store) List(context.Context) (names []string, err error) {
	for name := range s.values {
		names = append(names, name)
	}
	return names, nil
}

// An issuer is the gateway's side of the tokens: generation g is good until g+1 is presented.
type issuer struct {
	mu        sync.Mutex
	bearer    string
	presented int
	trades    []string
	revoked   bool
	before    func() // called when a refresh token was presented, before the answer
}

func (g *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/tokens") {
		var in wire.TokenRequest
		_ = json.NewDecoder(r.Body).Decode(&in)
		g.trades = append(g.trades, in.RefreshToken)
		var gen int
		_, err := fmt.Sscanf(in.RefreshToken, "refresh-%d", &gen)
		if err != nil || gen < g.presented || g.revoked {
			g.revoked = true
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":%q}`, wire.TokenInvalid)
			return
		}
		if g.before != nil {
			g.before()
		}
		g.presented = gen
		g.bearer = fmt.Sprintf("bearer-%d-%d", gen+1, len(g.trades))
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3600,"refresh_token":"refresh-%d","runner_id":"rnr_1","subject":"default/ada"}`, g.bearer, gen+1)
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+g.bearer || g.revoked {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":"unauthenticated","message":"no"}`)
		return
	}
	fmt.Fprint(w, `{"epoch":7}`)
}

func client(t *testing.T, h http.Handler, s *store) *link.Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := link.New(server.URL, egress.Configured(egress.Options{}), s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func paired() *store {
	return &store{values: map[string]string{link.RefreshName: "refresh-0", link.BearerName: "bearer-old"}}
}

func TestA401RenewsOnceAndStoresBeforeItUses(t *testing.T) {
	s, g := paired(), &issuer{bearer: "another"}
	c := client(t, g, s)
	epoch, err := c.Register(t.Context(), wire.Registration{})
	if err != nil || epoch != 7 {
		t.Fatalf("epoch %d, %v", epoch, err)
	}
	if diff := cmp.Diff([]string{"runner.refresh=refresh-1", "runner.bearer=bearer-1-1"}, s.set); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	for range 3 {
		if _, err := c.Register(t.Context(), wire.Registration{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(g.trades) != 1 {
		t.Errorf("%d renewals, want 1", len(g.trades))
	}
}

func TestA401OnAFreshBearerStopsAndSaysSo(t *testing.T) {
	s, g := paired(), &issuer{}
	refuse := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/tokens") {
			g.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":"unauthenticated","message":"no"}`)
	})
	c := client(t, refuse, s)
	if _, err := c.Register(t.Context(), wire.Registration{}); !errors.Is(err, link.ErrUnpaired) {
		t.Errorf("error %v, want ErrUnpaired", err)
	}
	if len(g.trades) != 1 {
		t.Errorf("%d renewals, want 1", len(g.trades))
	}
}

func TestRevokedFamilyIsNotAskedAgainUntilPairedAnew(t *testing.T) {
	s, g := paired(), &issuer{revoked: true}
	c := client(t, g, s)
	for range 3 {
		if _, err := c.Register(t.Context(), wire.Registration{}); !errors.Is(err, link.ErrUnpaired) {
			t.Errorf("error %v, want ErrUnpaired", err)
		}
	}
	if len(g.trades) != 1 {
		t.Errorf("%d renewals, want 1: a refused token stays refused", len(g.trades))
	}
	if c.Tokens().Changed(t.Context()) {
		t.Error("changed, though nobody paired")
	}
	g.mu.Lock()
	g.revoked, g.bearer = false, "bearer-new"
	g.mu.Unlock()
	s.values[link.RefreshName], s.values[link.BearerName] = "refresh-5", "bearer-new"
	if !c.Tokens().Changed(t.Context()) {
		t.Fatal("not changed, though somebody paired")
	}
	if _, err := c.Register(t.Context(), wire.Registration{}); err != nil {
		t.Error(err)
	}
}

// While the store is locked the runner renews with what it has stored, so that a crash finds a token that is good.
func TestLockedStoreRenewsWithWhatItHas(t *testing.T) {
	s, g := paired(), &issuer{bearer: "another"}
	g.before = func() { s.mu.Lock(); s.locked = true; s.mu.Unlock() } // locks between Get and Set
	c := client(t, g, s)
	for range 2 {
		if _, err := c.Register(t.Context(), wire.Registration{}); err != nil {
			t.Fatal(err)
		}
		if c.Tokens().Unsaved() == nil {
			t.Error("the owner is not told")
		}
		g.mu.Lock()
		g.bearer = "expired meanwhile"
		g.mu.Unlock()
	}
	if diff := cmp.Diff([]string{"refresh-0", "refresh-0"}, g.trades); diff != "" {
		t.Errorf("presented (-want +got):\n%s", diff)
	}
	g.before = nil
	s.mu.Lock()
	s.locked = false
	s.mu.Unlock()
	if _, err := c.Register(t.Context(), wire.Registration{}); err != nil || c.Tokens().Unsaved() != nil {
		t.Errorf("after unlocking: %v, %v", err, c.Tokens().Unsaved())
	}
	if s.values[link.RefreshName] != "refresh-1" {
		t.Errorf("stored %q", s.values[link.RefreshName])
	}
}

func TestThoseWhoAreRefusedTogetherShareOneRenewal(t *testing.T) {
	s, g := paired(), &issuer{bearer: "another"}
	c := client(t, g, s)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if _, err := c.Register(t.Context(), wire.Registration{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(g.trades) != 1 {
		t.Errorf("%d renewals, want 1", len(g.trades))
	}
}

func TestA401OfAProxyIsNotAGateways(t *testing.T) {
	s := paired()
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/tokens") {
			t.Error("the refresh token was shown to a proxy's page")
		}
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusUnauthorized)
	}), s)
	if _, err := c.Register(t.Context(), wire.Registration{}); err == nil || errors.Is(err, link.ErrUnpaired) {
		t.Errorf("error %v", err)
	}
}

func TestUD16ClockSkewIsNoticedAndSaid(t *testing.T) {
	s := paired()
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(-21*time.Minute).UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"expired_token"}`)
	}), s)
	_, err := c.Register(t.Context(), wire.Registration{})
	if skew := c.Skew(); skew < 20*time.Minute || skew > 22*time.Minute {
		t.Errorf("skew %v", skew)
	}
	if words := c.Words(err); !strings.Contains(words, "clock skew of 21m") {
		t.Errorf("words: %s", words)
	}
}

func TestN15NoTokenGoesWhereTheCertificateIsNotGood(t *testing.T) {
	asked := false
	quiet := log.New(io.Discard, "", 0)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	server.Config.ErrorLog = quiet
	server.StartTLS()
	defer server.Close()
	old := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	old.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}
	old.Config.ErrorLog = quiet
	old.StartTLS()
	defer old.Close()
	for name, c := range map[string]struct{ url, says string }{
		"unknown issuer": {server.URL, "Acme Co"},
		"old TLS":        {old.URL, "no TLS with"},
	} {
		l, err := link.New(c.url, egress.Configured(egress.Options{}), paired())
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Register(t.Context(), wire.Registration{})
		if err == nil || !strings.Contains(l.Words(err), c.says) || strings.Contains(l.Words(err), "bearer") {
			t.Errorf("%s: %s (%v)", name, l.Words(err), err)
		}
	}
	if asked {
		t.Error("a request was sent all the same")
	}
}

func TestGatewayURLMustBeSafe(t *testing.T) {
	for url, ok := range map[string]bool{
		"https://gateway.example": true, "https://gateway.example/base": true, "http://127.0.0.1:8080": true, "http://localhost:8080": true, "http://[::1]:1": true,
		"http://gateway.example": false, "gateway.example": false, "ftp://x": false, "https://": false, "https://me:pw@gateway.example": false,
		"https://gateway.example?x=1": false, "http://127.0.0.1.evil.example": false, "": false,
	} {
		if _, err := link.New(url, &http.Client{}, paired()); (err == nil) != ok {
			t.Errorf("%q: %v, want ok %v", url, err, ok)
		}
	}
}

func TestWordsSayWhatIsWrongWithoutAddresses(t *testing.T) {
	c, err := link.New("https://gateway.example", &http.Client{}, paired())
	if err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"the name gateway.example is not known":                                 &net.DNSError{IsNotFound: true},
		"the name gateway.example cannot be looked up; there may be no network": &net.DNSError{IsTemporary: true},
		link.ErrUnpaired.Error():                                                link.ErrUnpaired,
	} {
		if got := c.Words(fmt.Errorf("register: %w", err)); !strings.HasSuffix(got, want) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

func TestUD14BackoffGrowsWithJitterAndIsReset(t *testing.T) {
	var b link.Backoff
	for i := range 12 {
		most := min(wire.BackoffMin<<i, wire.BackoffMax)
		if d := b.Next(0); d < most/2 || d > most {
			t.Errorf("wait %d is %v, want %v to %v", i, d, most/2, most)
		}
	}
	if d := b.Next(3 * time.Minute); d != 3*time.Minute {
		t.Errorf("asked for 3 min, waits %v", d)
	}
	b.Reset()
	if d := b.Next(0); d > wire.BackoffMin {
		t.Errorf("after a success the wait is %v", d)
	}
}
