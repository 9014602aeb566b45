package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

const (
	lookupWithin   = 5 * time.Second
	guardedWithin  = 30 * time.Second // look-up, redirects and body together
	guardedBody    = 10 << 20
	mostRedirects  = 5
	mostAddresses  = 8 // that are tried of one name's answers
	eachDialWithin = 5 * time.Second
)

// ErrBodyTooLarge is the error of reading a body beyond its limit.
var ErrBodyTooLarge = errors.New("body is too large")

// GuardOptions are what an operator may change about the guard. None opens a blocked range.
type GuardOptions struct {
	Roots *x509.CertPool // instead of the system's; see Roots
	Ports []uint16       // instead of 80 and 443
	NAT64 []netip.Prefix // the network's own /96 prefixes: the IPv4 address inside is judged instead
	Own   []netip.Addr   // this machine's public addresses, which are refused too
	Body  int64          // largest answer in bytes, counted after decompression; 10 MiB if 0
}

// Guarded returns a client for URLs from content. Make requests with what ParseURL returns; what it was given in another
// way is judged when it is sent, by CheckURL's rules. Refusals are BlockedErrors.
func Guarded(o GuardOptions) *http.Client { return newGuard(o).client() }

// A guard opens connections to checked addresses only.
type guard struct {
	GuardOptions
	table  *ssrf.Guardian
	lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

func newGuard(o GuardOptions) *guard {
	if len(o.Ports) == 0 {
		o.Ports = []uint16{80, 443}
	}
	if o.Body == 0 {
		o.Body = guardedBody
	}
	azure := netip.MustParsePrefix("168.63.129.16/32") // its host agent stands in public space
	g := &guard{GuardOptions: o, table: ssrf.New(ssrf.WithDeniedV4Prefixes(azure))}
	g.lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
		return new(net.Resolver).LookupNetIP(ctx, "ip", name)
	}
	g.dial = (&net.Dialer{Timeout: eachDialWithin, Control: g.control}).DialContext
	return g
}

func (g *guard) client() *http.Client {
	t := transport(g.Roots)
	t.DialContext = g.dialContext
	t.ResponseHeaderTimeout = headersWithin
	return &http.Client{Transport: &checked{g, t}, CheckRedirect: g.redirect, Timeout: guardedWithin}
}

// allows judges one address.
func (g *guard) allows(ip netip.Addr) error {
	for _, own := range g.Own {
		if ip.Unmap() == own {
			return &BlockedError{ReasonAddress}
		}
	}
	for _, prefix := range g.NAT64 {
		if prefix.Bits() == 96 && prefix.Contains(ip) {
			b := ip.As16()
			ip = netip.AddrFrom4([4]byte(b[12:]))
		}
	}
	if g.table.SafeAddr(ip) != nil {
		return &BlockedError{ReasonAddress} // its own text names the address
	}
	return nil
}

// control is net.Dialer's last question, with the address of the socket that is about to connect.
func (g *guard) control(network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return &BlockedError{ReasonAddress}
	}
	return g.allows(to.Addr())
}

// dialContext resolves once, judges every answer, and connects to a literal.
func (g *guard) dialContext(ctx context.Context, _, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &BlockedError{ReasonHost}
	}
	answers, err := g.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, ip := range answers {
		if err := g.allows(ip); err != nil {
			return nil, err
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, &BlockedError{ReasonHost}
	}
	for _, ip := range answers[:min(len(answers), mostAddresses)] {
		var conn net.Conn
		if conn, err = g.dial(ctx, "tcp", netip.AddrPortFrom(ip, uint16(n)).String()); err == nil {
			return conn, nil
		}
		if ctx.Err() != nil || errors.Is(err, ErrBlocked) {
			break
		}
	}
	return nil, err
}

func (g *guard) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupWithin)
	defer cancel()
	answers, err := g.lookup(ctx, host+".") // absolute: no search list
	if err != nil {
		return nil, fmt.Errorf("look up host: %w", err)
	}
	if len(answers) == 0 {
		return nil, errors.New("look up host: no address")
	}
	return answers, nil
}

func (g *guard) redirect(r *http.Request, via []*http.Request) error {
	last := via[len(via)-1].URL
	switch {
	case len(via) > mostRedirects:
		return &BlockedError{ReasonRedirect}
	case last.Scheme == "https" && r.URL.Scheme == "http":
		return &BlockedError{ReasonScheme}
	}
	if err := CheckURL(r.URL, g.Ports...); err != nil {
		return err
	}
	if last.Scheme != r.URL.Scheme || last.Host != r.URL.Host {
		kept := http.Header{}
		for _, name := range []string{"Accept", "Accept-Language", "Content-Type", "User-Agent"} {
			if v := r.Header.Values(name); v != nil {
				kept[name] = v
			}
		}
		r.Header = kept
	}
	r.Header.Del("Referer")
	return nil
}

// checked judges each request before a connection, kept alive or new, is chosen for it.
type checked struct {
	guard *guard
	next  *http.Transport
}

func (c *checked) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if err := CheckURL(r.URL, c.guard.Ports...); err != nil {
		if r.Body != nil {
			r.Body.Close() // as a RoundTripper must
		}
		return nil, err
	}
	r.Host = "" // the URL's, and no other
	res, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = LimitBody(res.Body, c.guard.Body)
	return res, nil
}

// CloseIdleConnections is what http.Client's method of that name calls.
func (c *checked) CloseIdleConnections() { c.next.CloseIdleConnections() }

// LimitBody returns body, with ErrBodyTooLarge in the place of the first byte beyond n.
func LimitBody(body io.ReadCloser, n int64) io.ReadCloser { return &limited{body, n} }

type limited struct {
	io.ReadCloser
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left < 0 {
		return 0, ErrBodyTooLarge
	}
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1] // one more, to see whether there is one
	}
	n, err := l.ReadCloser.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return n - 1, ErrBodyTooLarge
	}
	return n, err
}
