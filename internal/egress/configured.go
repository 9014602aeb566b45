package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	dialWithin     = 10 * time.Second
	headersWithin  = 30 * time.Second
	maxHeaderBytes = 64 << 10
)

// Options are what may differ between configured destinations. The zero value is good for most.
type Options struct {
	Roots         *x509.CertPool // instead of the system's; see Roots
	Proxy         *url.URL       // for everything but this machine; the environment is never asked
	HTTP1         bool           // no HTTP/2: one connection a request, which suits event streams
	HeadersWithin time.Duration  // from the request's end to the answer's header; 30 s if 0. A cold local model needs more
}

// Configured returns a client for addresses that the owner or IT wrote down. It has no time limit on bodies, which may be
// streams. It follows no redirect: the redirect is the answer, so that a credential never goes where it was not sent to.
func Configured(o Options) *http.Client {
	t := transport(o.Roots)
	t.DialContext = (&net.Dialer{Timeout: dialWithin}).DialContext
	t.ResponseHeaderTimeout = headersWithin
	if o.HeadersWithin > 0 {
		t.ResponseHeaderTimeout = o.HeadersWithin
	}
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	t.Protocols.SetHTTP2(!o.HTTP1)
	if o.Proxy != nil {
		t.Proxy = func(r *http.Request) (*url.URL, error) {
			if isThisMachine(r.URL.Hostname()) {
				return nil, nil
			}
			return o.Proxy, nil
		}
	}
	return &http.Client{Transport: t, CheckRedirect: answerRedirects}
}

// Socket returns a client that reaches the program behind a Unix socket, whatever host a URL names.
func Socket(path string) *http.Client {
	t := transport(nil)
	t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: dialWithin}).DialContext(ctx, "unix", path)
	}
	t.ResponseHeaderTimeout = headersWithin
	return &http.Client{Transport: t, CheckRedirect: answerRedirects}
}

// Roots returns the system's certificate authorities and those in a PEM file, or nil, the system's alone, for no file.
func Roots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read certificate authorities: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a system without its own
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read certificate authorities: %s holds no certificate", file)
	}
	return pool, nil
}

// transport has what all ways out have in common.
func transport(roots *x509.CertPool) *http.Transport {
	return &http.Transport{
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialWithin,
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        90 * time.Second, // so that an address which moved is looked up again
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
	}
}

func answerRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// isThisMachine says whether a host is loopback by its name alone.
func isThisMachine(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
