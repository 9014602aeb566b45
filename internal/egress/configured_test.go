package egress

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func body(t *testing.T, c *http.Client, target string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", target, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer t")
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestConfiguredFollowsNoRedirect(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("followed, with %v", r.Header)
	}))
	defer other.Close()
	srv := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer srv.Close()
	if status, _ := body(t, Configured(Options{}), srv.URL); status != http.StatusTemporaryRedirect {
		t.Errorf("status %d", status)
	}
}

func TestTheEnvironmentsProxyIsIgnored(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "direct") }))
	defer srv.Close()
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	if _, got := body(t, Configured(Options{}), "http://localhost:"+port); got != "direct" {
		t.Errorf("got %q", got)
	}
}

func TestAConfiguredProxyIsNotUsedForThisMachine(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "proxied "+r.URL.Host) }))
	defer proxy.Close()
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "direct") }))
	defer local.Close()
	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := Configured(Options{Proxy: u})
	if _, got := body(t, c, "http://gateway.example:81/"); got != "proxied gateway.example:81" {
		t.Errorf("got %q", got)
	}
	if _, got := body(t, c, local.URL); got != "direct" {
		t.Errorf("got %q", got)
	}
}

func TestHTTPVersions(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	roots, err := Roots(file)
	if err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]Options{"HTTP/1.1": {Roots: roots, HTTP1: true}, "HTTP/2.0": {Roots: roots}} {
		if _, got := body(t, Configured(o), srv.URL); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestConfiguredNeverSendsToTheWrongServer(t *testing.T) {
	refuse := func(w http.ResponseWriter, r *http.Request) { t.Errorf("got a request with %v", r.Header) }
	unknown := httptest.NewTLSServer(http.HandlerFunc(refuse)) // self-signed
	defer unknown.Close()
	old := httptest.NewUnstartedServer(http.HandlerFunc(refuse))
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	old.StartTLS()
	defer old.Close()
	for _, target := range []string{unknown.URL, old.URL} {
		if res, err := Configured(Options{}).Get(target); err == nil {
			res.Body.Close()
			t.Errorf("%s was answered %d", target, res.StatusCode)
		}
	}
}

func TestRoots(t *testing.T) {
	if pool, err := Roots(""); pool != nil || err != nil {
		t.Errorf("no file: %v, %v", pool, err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if _, err := Roots(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if err := os.WriteFile(file, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Roots(file); err == nil || !strings.Contains(err.Error(), "holds no certificate") {
		t.Errorf("empty file: %v", err)
	}
}

func TestSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "admin"))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) }))
	srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	defer srv.Close()
	if _, got := body(t, Socket(l.Addr().String()), "http://gateway/"); got != "gateway" {
		t.Errorf("got %q", got)
	}
}

func TestGuardedRefusesThisMachineOverRealSockets(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("reached") }))
	defer srv.Close()
	to := netip.MustParseAddrPort(srv.Listener.Addr().String())
	g := newGuard(GuardOptions{Ports: []uint16{to.Port()}})
	if _, err := g.client().Get(srv.URL); !errors.Is(err, ErrBlocked) || strings.Contains(strings.TrimPrefix(err.Error(), `Get "`+srv.URL), "127") {
		t.Errorf("got %v", err)
	}
	// Even with every check before it gone, the socket itself is refused.
	if _, err := g.dial(t.Context(), "tcp", to.String()); !errors.Is(err, ErrBlocked) {
		t.Errorf("Control let it pass: %v", err)
	}
}

func TestLimitBody(t *testing.T) {
	for limit, want := range map[int64]error{3: ErrBodyTooLarge, 4: nil, 5: nil} {
		b, err := io.ReadAll(LimitBody(io.NopCloser(strings.NewReader("four")), limit))
		if !errors.Is(err, want) || int64(len(b)) != min(limit, 4) {
			t.Errorf("limit %d: %q, %v", limit, b, err)
		}
	}
}

// FuzzParseURL: what is accepted is written one way, and that way is accepted and means the same.
func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"http://api.example.com/?a=b#c", "HTTPS://API.Example.com.:443/", "http://[2606:4700::1]:80/", "http://1.1.1.1", "http://a@b/", "http:\\\\x", "http://xn--bcher-kva.example.com/", "http://0x7f.1/", "http://x.local/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := ParseURL(raw)
		if err != nil {
			if !errors.Is(err, ErrBlocked) {
				t.Errorf("%q: %v is no BlockedError", raw, err)
			}
			return
		}
		again, err := ParseURL(u.String())
		if len(u.String()) <= maxURL && (err != nil || again.Host != u.Host || again.RequestURI() != u.RequestURI()) {
			t.Errorf("%q became %q: %v", raw, u, err)
		}
		if u.Host != strings.ToLower(u.Host) || strings.ContainsAny(u.Host, "@%\\ ") || strings.HasSuffix(u.Hostname(), ".") {
			t.Errorf("%q: host %q", raw, u.Host)
		}
	})
}
