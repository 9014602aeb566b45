package channel

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"

	"runnerd/gateway/bus"
	"runnerd/gateway/dispatch"
	"runnerd/gateway/identity"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
	"runnerd/internal/wire"
)

// Identity is what the channel asks about credentials. Package identity answers.
type Identity interface {
	AuthenticateRunner(ctx context.Context, token string) (store.RunnerID, store.Subject, error)
	RevokeRunner(ctx context.Context, s store.Subject, id store.RunnerID, why string) error
	Pair(ctx context.Context, from, page string, in wire.PairingRequest) (wire.PairingReply, error)
	Trade(ctx context.Context, in wire.TokenRequest) (wire.TokenReply, error)
}

var _ Identity = (*identity.Service)(nil)

// A Config is what a Server is made of.
type Config struct {
	Dispatch *dispatch.Service
	Identity Identity
	Bus      bus.Bus
	Log      *slog.Logger
	Taint    func([]byte) bool            // reports whether a document holds what looks like a credential
	Page     func(r *http.Request) string // the address at which people confirm a pairing
	From     func(r *http.Request) string // who sends a request, for limits; the connection's address if nil
}

// A Server answers runners.
type Server struct {
	dispatch *dispatch.Service
	identity Identity
	bus      bus.Bus
	log      *slog.Logger
	taint    func([]byte) bool
	page     func(r *http.Request) string
	from     func(r *http.Request) string
	streams  streams
	begins   begins
}

// New makes a server.
func New(c Config) *Server {
	s := &Server{dispatch: c.Dispatch, identity: c.Identity, bus: c.Bus, log: c.Log, taint: c.Taint, page: c.Page, from: c.From}
	if s.taint == nil {
		s.taint = func([]byte) bool { return false }
	}
	if s.from == nil {
		s.from = address
	}
	return s
}

// Routes names every route of the channel to handle.
func (s *Server) Routes(handle func(pattern string, h httpapi.Handler)) {
	for pattern, h := range map[string]httpapi.Handler{
		"POST " + wire.Prefix + "/pairings":  s.pair,
		"POST " + wire.Prefix + "/tokens":    s.trade,
		"PUT " + wire.Prefix + "/runner":     s.as(s.register),
		"GET " + wire.Prefix + "/dispatches": s.as(s.stream),
		"POST " + wire.Prefix + "/reports":   s.as(s.report),
		"POST " + wire.Prefix + "/results":   s.as(s.results),
		"DELETE " + wire.Prefix + "/runner":  s.as(s.logout),
	} {
		handle(pattern, func(w http.ResponseWriter, r *http.Request) error { return problem(h(w, r)) })
	}
}

// as authenticates the runner before anything else is looked at.
func (s *Server) as(h func(http.ResponseWriter, *http.Request, dispatch.Who) error) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		token := httpapi.Bearer(r)
		if token == "" {
			return httpapi.Unauthenticated()
		}
		id, subject, err := s.identity.AuthenticateRunner(r.Context(), token)
		if err != nil {
			return err
		}
		return h(w, r, dispatch.Who{Runner: id, Subject: subject})
	}
}

func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// The codes of this package's own refusals.
const (
	codeSuperseded    = "superseded"
	codeNotRegistered = "not_registered"
	codeKeyExpired    = "key_expired"
	codeKeyRevoked    = "key_revoked"
)

// problem is the one place where an error of the channel gets a status, a code and a sentence. What it does not know it
// returns as it is.
func problem(err error) error {
	if err == nil {
		return nil
	}
	as := func(status int, code, message string) error {
		return &httpapi.Problem{Status: status, Code: code, Message: message, Cause: err}
	}
	if p, ok := errors.AsType[*httpapi.Problem](err); ok {
		return p
	}
	if f, ok := errors.AsType[*wire.FieldError](err); ok {
		return httpapi.Invalid(f.Field, f.Reason)
	}
	if e, ok := errors.AsType[*identity.TokenError](err); ok {
		return as(http.StatusBadRequest, e.Code, tokenMessage(e.Code))
	}
	if e, ok := errors.AsType[*identity.LimitError](err); ok {
		return &httpapi.Problem{
			Status: http.StatusTooManyRequests, Code: httpapi.CodeRateLimited, Message: "too many requests", RetryAfter: e.RetryAfter,
			Details: map[string]any{"retryAfterMs": e.RetryAfter.Milliseconds(), "scope": e.Scope}, Cause: err,
		}
	}
	switch {
	case errors.Is(err, identity.ErrUnauthenticated):
		return as(http.StatusUnauthorized, httpapi.CodeUnauthenticated, "a valid bearer credential is required")
	case errors.Is(err, identity.ErrExpired):
		return as(http.StatusUnauthorized, codeKeyExpired, "the bearer has expired")
	case errors.Is(err, identity.ErrRevoked), errors.Is(err, dispatch.ErrRevoked):
		return as(http.StatusUnauthorized, codeKeyRevoked, "the runner was revoked")
	case errors.Is(err, dispatch.ErrSuperseded):
		return as(http.StatusConflict, codeSuperseded, "a newer connection of this runner has taken over")
	case errors.Is(err, dispatch.ErrNotRegistered):
		return as(http.StatusConflict, codeNotRegistered, "the registration record must be sent first")
	case errors.Is(err, store.ErrBusy):
		return &httpapi.Problem{Status: http.StatusServiceUnavailable, Code: httpapi.CodeUnavailable, Message: "the store is busy", RetryAfter: wire.BackoffMin, Cause: err}
	case errors.Is(err, store.ErrFull):
		return as(http.StatusInsufficientStorage, "insufficient_storage", "there is no space left")
	}
	return err
}

func tokenMessage(code string) string {
	switch code {
	case wire.TokenPending:
		return "nobody has confirmed the pairing yet"
	case wire.TokenSlowDown:
		return "ask less often"
	case wire.TokenExpired:
		return "the pairing was not confirmed in time"
	case wire.TokenDenied:
		return "the pairing was denied"
	}
	return "the token is unknown, was used before or was revoked"
}
