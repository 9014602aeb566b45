package httpapi

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"net/http"
	"strconv"
	"time"

	"runnerd/internal/wire"
)

// The codes of the envelope that any route may answer with (wire section 4). Those of one resource stand with it.
const (
	CodeUnauthenticated  = "unauthenticated"
	CodeForbidden        = "forbidden"
	CodeNotFound         = "not_found"
	CodeMethodNotAllowed = "method_not_allowed"
	CodeValidation       = "validation_error"
	CodeTooLarge         = "payload_too_large"
	CodeMediaType        = "unsupported_media_type"
	CodeTimeout          = "request_timeout"
	CodeRateLimited      = "rate_limited"
	CodeUnavailable      = "unavailable"
	CodeInternal         = "internal_error"
)

// A Problem is an error that the caller of the API may see. Handlers return it as it is, or a function given to Wrap
// makes it from a domain error. A Problem is never changed, so one value may serve many requests.
type Problem struct {
	Status     int            // HTTP status; 500 if 0
	Code       string         // snake_case, from the protocol's list
	Message    string         // a sentence for people: no secret, no path, no stack
	Details    map[string]any // optional
	Header     http.Header    // optional
	RetryAfter time.Duration  // optional: the Retry-After field, in whole seconds, rounded up
	Cause      error          // optional: for the log only
}

func (p *Problem) Error() string {
	if p.Cause != nil {
		return p.Message + ": " + p.Cause.Error()
	}
	return p.Message
}

// Unwrap gives the cause, so that errors.Is sees through a Problem.
func (p *Problem) Unwrap() error { return p.Cause }

// Invalid is the problem of one bad field, parameter or header.
func Invalid(field, reason string) *Problem {
	return &Problem{
		Status:  http.StatusBadRequest,
		Code:    CodeValidation,
		Message: field + " " + reason,
		Details: map[string]any{"field": field},
	}
}

// NotFound is the problem of a thing that does not exist, or that the caller may not know of. what reads "run".
func NotFound(what string) *Problem {
	return &Problem{Status: http.StatusNotFound, Code: CodeNotFound, Message: "no such " + what}
}

// Unauthenticated is the problem of a missing, unknown or expired credential. It does not say which.
func Unauthenticated() *Problem {
	return &Problem{Status: http.StatusUnauthorized, Code: CodeUnauthenticated, Message: "a valid bearer credential is required"}
}

// Forbidden is the problem of a credential that lacks a scope.
func Forbidden(scope string) *Problem {
	return &Problem{
		Status:  http.StatusForbidden,
		Code:    CodeForbidden,
		Message: "the credential lacks the scope " + scope,
		Details: map[string]any{"scopeRequired": scope},
	}
}

// invalid turns what a decoder or a Validate method says into a Problem.
func invalid(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	p := &Problem{Status: http.StatusBadRequest, Code: CodeValidation, Message: err.Error()}
	if f, ok := errors.AsType[*wire.FieldError](err); ok {
		p.Details = map[string]any{"field": f.Field}
	}
	return p
}

// with returns a copy that has one more detail.
func (p *Problem) with(name string, value any) *Problem {
	c := *p
	c.Details = maps.Clone(p.Details)
	if c.Details == nil {
		c.Details = map[string]any{}
	}
	c.Details[name] = value
	return &c
}

// ServeHTTP answers with the problem, so that it can stand as a handler.
func (p *Problem) ServeHTTP(w http.ResponseWriter, _ *http.Request) { _ = p.write(w) }

func (p *Problem) write(w http.ResponseWriter) error {
	envelope := struct {
		Error   string         `json:"error"`
		Message string         `json:"message"`
		Details map[string]any `json:"details,omitempty"`
	}{p.Code, p.Message, p.Details}
	if envelope.Error == "" {
		envelope.Error = CodeInternal
	}
	status := p.Status
	if status == 0 {
		status = http.StatusInternalServerError
	}
	if envelope.Message == "" {
		envelope.Message = http.StatusText(status)
	}
	body, err := json.Marshal(envelope)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Del("Etag") // what the handler had in mind for its answer
	h.Del("Last-Modified")
	h.Del("Cache-Control")
	maps.Copy(h, p.Header)
	if status == http.StatusUnauthorized && h.Get("WWW-Authenticate") == "" {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatFloat(math.Ceil(p.RetryAfter.Seconds()), 'f', 0, 64))
	}
	return writeJSON(w, status, body)
}
