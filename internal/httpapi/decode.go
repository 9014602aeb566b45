package httpapi

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	defaultMaxBytes = 1 << 20
	bodyWithin      = 30 * time.Second // for the whole of a body
)

// An Option changes what Decode accepts.
type Option func(*options)

type options struct {
	max      int64
	optional bool
}

// MaxBytes sets the largest body, 1 MiB by default.
func MaxBytes(n int64) Option { return func(o *options) { o.max = n } }

// Optional lets a body be empty; it then reads as the zero value, which is validated like any other.
func Optional() Option { return func(o *options) { o.optional = true } }

// Decode reads the request's body as one JSON document; the package comment says what it accepts. Its errors are Problems.
func Decode[T any](w http.ResponseWriter, r *http.Request, opts ...Option) (T, error) {
	o := options{max: defaultMaxBytes}
	for _, opt := range opts {
		opt(&o)
	}
	var v T
	body, err := readBody(w, r, o.max)
	switch {
	case err != nil:
		return v, err
	case len(body) == 0 && !o.optional:
		return v, Invalid("body", "must not be empty")
	case len(body) > 0:
		if err := checkMedia(r); err != nil {
			return v, err
		}
		if err := Unmarshal(body, &v); err != nil {
			return v, invalid(err)
		}
	}
	return v, validate(&v)
}

func validate[T any](v *T) error {
	in, ok := any(v).(interface{ Validate() error })
	if !ok {
		in, ok = any(*v).(interface{ Validate() error }) // T is an interface or a pointer
	}
	if !ok {
		return nil
	}
	if err := in.Validate(); err != nil {
		return invalid(err)
	}
	return nil
}

func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	if out, ok := w.(*reply); ok {
		w = out.ResponseWriter // MaxBytesReader tells the connection, which it does not look for behind a wrapper
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyWithin)) // a server without deadlines has a reason of its own
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err == nil {
		_ = control.SetReadDeadline(time.Time{}) // else it would end the request while the handler works
	} // what is left of a body that failed is read by net/http, which must not wait for it
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge(limit)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &Problem{Status: http.StatusRequestTimeout, Code: CodeTimeout, Message: "the body took too long"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, Invalid("body", "ended early")
	case err != nil: // chunks that are none, or a connection that broke: nothing that is ours to mend
		return nil, &Problem{Status: http.StatusBadRequest, Code: CodeValidation, Message: "the body could not be read",
			Details: map[string]any{"field": "body"}, Cause: err}
	}
	return body, nil
}

func tooLarge(limit int64) *Problem {
	return &Problem{
		Status:  http.StatusRequestEntityTooLarge,
		Code:    CodeTooLarge,
		Message: fmt.Sprintf("the body is larger than %d bytes", limit),
		Details: map[string]any{"maxBytes": limit},
	}
}

// checkMedia refuses what is not plain JSON. A missing type is refused too: a page elsewhere can make a browser send one.
func checkMedia(r *http.Request) error {
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := params["charset"]
	if err != nil || media != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return &Problem{
			Status:  http.StatusUnsupportedMediaType,
			Code:    CodeMediaType,
			Message: "Content-Type must be application/json",
			Details: map[string]any{"field": "Content-Type"},
		}
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return &Problem{
			Status:  http.StatusUnsupportedMediaType,
			Code:    CodeMediaType,
			Message: "the body must not be compressed",
			Details: map[string]any{"field": "Content-Encoding"},
		}
	}
	return nil
}
