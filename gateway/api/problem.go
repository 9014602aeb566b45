package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"runnerd/gateway/identity"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
	"runnerd/internal/wire"
)

// The codes of this package's own refusals, beside those of httpapi (wire section 4).
const (
	codeKeyExpired    = "key_expired"
	codeKeyRevoked    = "key_revoked"
	codeStreamMode    = "unsupported_stream_mode"
	codeMismatch      = "idempotency_key_mismatch"
	codeSettled       = "pairing_settled"
	codeAnswered      = "already_answered"
	codeAskExpired    = "ask_expired"
	codeConflict      = "conflict"
	codeNoSpace       = "insufficient_storage"
	codeMockForbidden = "mock_provider_forbidden"
	codeCapability    = "capability_required"
)

// missing says what does not exist, or not for this caller.
func missing(err error, what string) error {
	if errors.Is(err, store.ErrNotFound) {
		return httpapi.NotFound(what)
	}
	return err
}

// problem is the one place where a domain error gets a status, a code and a sentence for the caller.
func problem(err error) *httpapi.Problem {
	as := func(status int, code, message string) *httpapi.Problem {
		return &httpapi.Problem{Status: status, Code: code, Message: message, Cause: err}
	}
	if e, ok := errors.AsType[*identity.LimitError](err); ok {
		return &httpapi.Problem{Status: http.StatusTooManyRequests, Code: httpapi.CodeRateLimited, Message: "too many attempts", RetryAfter: e.RetryAfter,
			Details: map[string]any{"retryAfterMs": e.RetryAfter.Milliseconds(), "scope": e.Scope}}
	}
	if fields := fieldErrors(err); len(fields) > 0 {
		return invalidFields(fields)
	}
	switch {
	case errors.Is(err, identity.ErrUnauthenticated):
		return httpapi.Unauthenticated()
	case errors.Is(err, identity.ErrExpired):
		return as(http.StatusUnauthorized, codeKeyExpired, "the credential has expired")
	case errors.Is(err, identity.ErrRevoked):
		return as(http.StatusUnauthorized, codeKeyRevoked, "the credential was revoked")
	case errors.Is(err, identity.ErrSettled):
		return as(http.StatusConflict, codeSettled, "this pairing was settled before; the first answer stands")
	case errors.Is(err, store.ErrNotFound):
		return httpapi.NotFound("resource")
	case errors.Is(err, store.ErrConflict):
		return as(http.StatusConflict, codeConflict, "something else changed it at the same time")
	case errors.Is(err, store.ErrFull):
		return as(http.StatusInsufficientStorage, codeNoSpace, "there is no space left; nothing was changed")
	case errors.Is(err, store.ErrBusy), errors.Is(err, store.ErrClosed), errors.Is(err, context.DeadlineExceeded):
		p := as(http.StatusServiceUnavailable, httpapi.CodeUnavailable, "the gateway is busy")
		p.RetryAfter = time.Second
		return p
	}
	return nil
}

// fieldErrors finds every field that a validation complains about.
func fieldErrors(err error) []*wire.FieldError {
	switch e := err.(type) {
	case *wire.FieldError:
		return []*wire.FieldError{e}
	case interface{ Unwrap() []error }:
		var all []*wire.FieldError
		for _, one := range e.Unwrap() {
			all = append(all, fieldErrors(one)...)
		}
		return all
	case interface{ Unwrap() error }:
		return fieldErrors(e.Unwrap())
	}
	return nil
}

// invalidFields names them all; field is the first.
func invalidFields(fields []*wire.FieldError) *httpapi.Problem {
	const most = 20
	var words, names []string
	for _, f := range fields[:min(len(fields), most)] {
		words = append(words, f.Error())
		names = append(names, f.Field)
	}
	return &httpapi.Problem{Status: http.StatusBadRequest, Code: httpapi.CodeValidation, Message: strings.Join(words, "; "),
		Details: map[string]any{"field": names[0], "fields": names}}
}

// isRefusal reports whether an error says that a credential is not accepted.
func isRefusal(err error) bool {
	p, ok := errors.AsType[*httpapi.Problem](err)
	if !ok {
		p = problem(err)
	}
	return err != nil && p != nil && p.Status == http.StatusUnauthorized
}
