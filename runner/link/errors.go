package link

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"runnerd/internal/sse"
	"runnerd/internal/wire"
)

// What callers act on.
var (
	ErrUnpaired   = errors.New("the gateway does not know this runner any more; run `runnerd pair` again")
	ErrPlain      = errors.New("the gateway does not take reports")
	ErrNotGateway = errors.New("what answered is not a gateway; perhaps a sign-in page of this network")
	ErrSuperseded = errors.New("another process has connected as this runner")
)

// A StatusError is an answer that is not a good one.
type StatusError struct {
	Status     int
	Code       string // of the error envelope; empty when the answer has none, and then it is not a gateway's
	Message    string
	RetryAfter time.Duration // what the answer asks for, 0 when nothing
	Redirect   string        // the host that a redirect points to
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("answered %d %s", e.Status, http.StatusText(e.Status))
	switch {
	case e.Redirect != "":
		return s + ", a redirect to " + e.Redirect + ", which was not followed"
	case e.Code != "" && e.Message != "":
		return s + ": " + e.Code + ": " + e.Message
	case e.Code != "":
		return s + ": " + e.Code
	}
	return s
}

// Is lets a gateway's code be told by errors.Is.
func (e *StatusError) Is(target error) bool {
	return target == ErrSuperseded && e.Status == http.StatusConflict && e.Code == "superseded"
}

// Lasting says that the same request would get the same answer: a 4xx that does not ask to be tried again (faults N07).
func (e *StatusError) Lasting() bool {
	return e.Status >= 400 && e.Status < 500 && e.Status != http.StatusRequestTimeout && e.Status != http.StatusTooManyRequests
}

// final says that a refresh token or a device code will never be taken again.
func (e *StatusError) final() bool {
	return slices.Contains([]string{wire.TokenInvalid, wire.TokenExpired, wire.TokenDenied}, e.Code)
}

// Words says what is wrong with the link in a sentence for the owner. It names no token, address or path.
func (c *Client) Words(err error) string {
	host := c.base.Hostname()
	skew := c.Skew().Round(time.Minute)
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		issuer := "an unknown authority"
		if unknown.Cert != nil && unknown.Cert.Issuer.String() != "" {
			issuer = unknown.Cert.Issuer.String()
		}
		return "the certificate of " + host + " is signed by " + issuer + ", which this machine does not trust"
	}
	if wrong, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate that answered is for " + strings.Join(wrong.Certificate.DNSNames, ", ") + ", not for " + host
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if invalid.Reason == x509.Expired {
			return "the certificate of " + host + " has expired or is not valid yet; or the clock of this machine is wrong"
		}
		return "the certificate of " + host + " is not valid"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return host + " does not speak TLS"
	}
	if alert, ok := errors.AsType[*net.OpError](err); ok && (alert.Op == "remote error" || alert.Op == "local error") {
		return "no TLS with " + host + ": " + alert.Err.Error()
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		if name.IsNotFound {
			return "the name " + host + " is not known"
		}
		return "the name " + host + " cannot be looked up; there may be no network"
	}
	switch {
	case errors.Is(err, sse.ErrNotStream):
		return ErrNotGateway.Error()
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing answers at " + host
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "there is no way to " + host + "; there may be no network"
	case errors.Is(err, errSlow), errors.Is(err, os.ErrDeadlineExceeded):
		return host + " does not answer"
	case errors.Is(err, sse.ErrSilent):
		return "the stream from " + host + " went silent"
	}
	if e, ok := errors.AsType[*StatusError](err); ok && skew.Abs() >= 2*time.Minute && (e.Status == http.StatusUnauthorized || e.final()) {
		return fmt.Sprintf("%v; clock skew of %v", err, skew)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the address
	}
	return err.Error()
}
