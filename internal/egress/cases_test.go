package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// ssrfCase is one of testdata/ssrf-urls.json, as far as Guarded is concerned.
type ssrfCase struct {
	ID, Class, URL string
	Resolve        map[string]json.RawMessage
	Hops           []struct {
		Status   int
		Location string
		Close    bool
	}
	Env     map[string]string
	Request struct {
		Method, Body     string
		Headers          map[string]any
		Repeat           int
		SimulateRebindTo string
		BodyBytes        int
		CancelAfter      int `json:"cancelAfterMillis"`
		AppendToURL      struct {
			Text  string
			Times int
		}
	}
	Config struct {
		NAT64          []netip.Prefix    `json:"nat64Prefixes"`
		Own            []netip.Addr      `json:"ownAddresses"`
		Ports          []uint16          `json:"allowedPorts"`
		DialerRewrites map[string]string `json:"dialerRewrites"`
	}
	Server struct {
		upstream
		Refuse []string
	}
	Expect struct {
		Outcome, Reason       string
		Dials                 []string
		MaxMillis             int
		MaxBytes              int64
		MustSend, MustNotSend any
	}
}

// safeFetch has rules about headers and bodies that a client alone cannot have.
func ofSafeFetch(c ssrfCase) bool {
	return c.Class == "header" || c.Request.SimulateRebindTo != "" || c.Request.BodyBytes > 0 || c.Server.ContentEncoding != ""
}

func loadCases(t *testing.T) []ssrfCase {
	b, err := os.ReadFile("testdata/ssrf-urls.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Count int
		Cases []ssrfCase
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != file.Count {
		t.Errorf("%d cases, want %d", len(file.Cases), file.Count)
	}
	ours := slices.DeleteFunc(file.Cases, ofSafeFetch)
	if left := file.Count - len(ours); left > 29 {
		t.Errorf("%d cases were left to safeFetch", left)
	}
	return ours
}

func TestGuardedFollowsTheCases(t *testing.T) {
	real := httptest.NewTLSServer(nil) // for its certificate
	defer real.Close()
	for _, c := range loadCases(t) {
		t.Run(c.ID+" "+c.Class, func(t *testing.T) {
			for k, v := range c.Env {
				t.Setenv(k, v)
			}
			c.Server.tls = &tls.Config{Certificates: real.TLS.Certificates}
			synctest.Test(t, func(t *testing.T) { run(t, c) })
		})
	}
}

func run(t *testing.T, c ssrfCase) {
	var dials, lookups []string
	up := c.Server.upstream
	for _, h := range c.Hops {
		up.hops = append(up.hops, hop{h.Status, h.Location, h.Close})
	}
	up.start(t)
	g := newGuard(GuardOptions{Ports: c.Config.Ports, NAT64: c.Config.NAT64, Own: c.Config.Own})
	g.lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
		lookups = append(lookups, name)
		return c.answer(ctx, strings.TrimSuffix(name, "."), len(lookups))
	}
	g.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		to := address
		if rewritten, ok := c.Config.DialerRewrites[address]; ok {
			to = rewritten
		}
		if err := g.control("tcp4", to, nil); err != nil { // where net.Dialer asks it
			return nil, err
		}
		dials = append(dials, address)
		if host, _, _ := net.SplitHostPort(address); slices.Contains(c.Server.Refuse, host) {
			return nil, errors.New("connection refused")
		}
		return up.dial(strings.HasPrefix(c.URL, "https"))
	}
	client := g.client()
	client.Transport.(*checked).next.TLSClientConfig.InsecureSkipVerify = true // the upstream has one certificate
	defer client.CloseIdleConnections()

	start := time.Now()
	var n int64
	var err error
	for range max(c.Request.Repeat, 1) {
		n, err = fetch(t, client, c, g.Ports)
		client.CloseIdleConnections()
		if errors.Is(err, ErrBlocked) {
			break
		}
	}
	took := time.Since(start)
	synctest.Wait() // until the upstream has seen it too
	outcome, reason := "allowed", ""
	if blocked, ok := errors.AsType[*BlockedError](err); ok {
		outcome, reason = "blocked", string(blocked.Reason)
	} else if err != nil {
		outcome = "failed"
	}
	if outcome != c.Expect.Outcome || outcome == "blocked" && reason != c.Expect.Reason {
		t.Errorf("%q: %s %s (%v), want %s %s", c.URL, outcome, reason, err, c.Expect.Outcome, c.Expect.Reason)
	}
	if d := cmp.Diff(c.Expect.Dials, slices.Compact(dials), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("dials: %s", d)
	}
	if most := time.Duration(c.Expect.MaxMillis) * time.Millisecond; most > 0 && took > most {
		t.Errorf("took %v, want at most %v", took, most)
	}
	if c.Expect.MaxBytes > 0 && n > c.Expect.MaxBytes {
		t.Errorf("delivered %d bytes", n)
	}
	for _, l := range lookups {
		if !strings.HasSuffix(l, ".") {
			t.Errorf("looked up %q, which a search list may change", l)
		}
	}
	up.check(t, c)
}

// answer is the fake resolver's n-th answer, the last one repeating.
func (c ssrfCase) answer(ctx context.Context, name string, n int) ([]netip.Addr, error) {
	raw, ok := c.Resolve[name]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	}
	if bytes.Equal(raw, []byte(`"timeout"`)) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	var lists [][]netip.Addr
	if err := json.Unmarshal(raw, &lists); err != nil {
		return nil, err
	}
	return lists[min(n, len(lists))-1], nil
}

func fetch(t *testing.T, client *http.Client, c ssrfCase, ports []uint16) (int64, error) {
	raw := c.URL + strings.Repeat(c.Request.AppendToURL.Text, c.Request.AppendToURL.Times)
	u, err := ParseURL(raw, ports...)
	if err != nil {
		return 0, err
	}
	ctx := t.Context()
	if c.Request.CancelAfter > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, time.Duration(c.Request.CancelAfter)*time.Millisecond)
		defer cancel()
	}
	r, err := http.NewRequestWithContext(ctx, c.Request.Method, u.String(), strings.NewReader(c.Request.Body))
	if err != nil {
		return 0, err
	}
	for k, v := range c.Request.Headers {
		r.Header.Set(k, fmt.Sprint(v))
	}
	res, err := client.Do(r)
	if err != nil {
		if strings.Contains(err.Error(), "parse \"") { // http.Client reads Location before it asks us
			err = &BlockedError{ReasonHost}
		}
		return 0, err
	}
	defer res.Body.Close()
	return io.Copy(io.Discard, res.Body)
}

// upstream is the server that every connection reaches. It lives on the bubble's clock.
type upstream struct {
	BodyBytes       int64
	GzipExpandsTo   int64
	ContentEncoding string
	Stall, Drip     string
	HeaderBytes     int
	Informational   int
	Chunked         string
	TrailerBytes    int
	Truncate        bool

	hops  []hop
	conns chan net.Conn
	tls   *tls.Config
	seen  []*http.Request
}

type hop struct {
	status   int
	location string
	close    bool
}

func (u *upstream) start(t *testing.T) {
	u.conns = make(chan net.Conn)
	srv := &http.Server{Handler: http.HandlerFunc(u.serve)}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(u) }()
	t.Cleanup(func() { close(u.conns); srv.Close(); <-done })
}

func (u *upstream) Accept() (net.Conn, error) {
	if c, ok := <-u.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (u *upstream) Close() error   { return nil }
func (u *upstream) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (u *upstream) dial(secure bool) (net.Conn, error) {
	here, there := net.Pipe()
	switch {
	case u.Stall == "accept":
		return here, nil
	case secure:
		u.conns <- tls.Server(there, u.tls)
	default:
		u.conns <- there
	}
	return here, nil
}

func (u *upstream) serve(w http.ResponseWriter, r *http.Request) {
	i := len(u.seen)
	u.seen = append(u.seen, r)
	if i < len(u.hops) {
		w.Header()["Location"] = []string{u.hops[i].location}
		if u.hops[i].close {
			w.Header().Set("Connection", "close")
		}
		w.WriteHeader(u.hops[i].status)
		return
	}
	u.misbehave(w, r)
}

func (u *upstream) check(t *testing.T, c ssrfCase) {
	if len(u.seen) == 0 {
		return
	}
	if c.Request.Repeat == 0 && len(u.seen) > 1+mostRedirects {
		t.Errorf("%d requests", len(u.seen))
	}
	last := u.seen[len(u.seen)-1]
	if host := last.Host; strings.ToLower(host) != host || strings.HasSuffix(host, ".") {
		t.Errorf("sent Host %q", host)
	}
	if c.Request.Method == "POST" && len(c.Hops) > 0 && c.Hops[0].Status == 303 && last.Method != "GET" {
		t.Errorf("after 303 the method is %s", last.Method)
	}
	if strings.HasPrefix(c.URL, "https") && last.TLS != nil && last.TLS.ServerName != last.Host && !strings.Contains(last.Host, ":") {
		t.Errorf("SNI %q, Host %q", last.TLS.ServerName, last.Host)
	}
	first := u.seen[0]
	for _, r := range u.seen {
		if r.Host != first.Host && r.Header.Get("X-Api-Key") != "" {
			t.Errorf("the key went to %s", r.Host)
		}
		if r.Header.Get("Referer") != "" {
			t.Errorf("sent Referer %s", r.Header.Get("Referer"))
		}
	}
}
