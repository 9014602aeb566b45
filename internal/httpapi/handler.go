package httpapi

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"

	"runnerd/internal/sse"
)

// A Handler replies or returns an error, never both.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Wrap makes an http.Handler. An error that is a *Problem is answered as it is; problem turns domain errors into one, and
// returns nil for those that it does not know, which are answered by a bare 500. problem may be nil.
func Wrap(log *slog.Logger, problem func(error) *Problem, h Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &reply{ResponseWriter: w}
		err := call(h, out, r)
		if err == nil {
			return
		}
		log := log.With("method", r.Method, "route", r.Pattern) // a path may hold a token
		if out.begun {
			endEarly(log, r, err)
			return
		}
		p := find(problem, err)
		switch {
		case p != nil:
			log.Debug("request refused", "status", p.Status, "code", p.Code, "err", err)
		case r.Context().Err() != nil:
			log.Debug("request cut off", "err", err)
			p = &Problem{Status: http.StatusServiceUnavailable, Code: CodeUnavailable, Message: "the request was cut off"}
		default:
			id := "c-" + rand.Text()[:12]
			log.Error("request failed", "correlationId", id, "err", err)
			p = (&Problem{Code: CodeInternal, Message: "something went wrong on our side"}).with("correlationId", id)
		}
		if err := p.write(out); err != nil {
			log.Error("write error reply", "err", err)
		}
	})
}

// call runs h and turns a panic into an error, so that a broken invariant in one request is logged like any other failure.
func call(h Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		if v := recover(); v == http.ErrAbortHandler {
			panic(v)
		} else if v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return h(w, r)
}

func find(problem func(error) *Problem, err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if errors.Is(err, sse.ErrLastEventID) {
		return Invalid("Last-Event-ID", "must be a decimal number")
	}
	if problem == nil {
		return nil
	}
	return problem(err)
}

// endEarly ends a reply that has begun. The connection is cut, except where the end of the reply is what was meant.
func endEarly(log *slog.Logger, r *http.Request, err error) {
	switch {
	case errors.Is(err, sse.ErrEnded):
		return
	case r.Context().Err() != nil: // the client left, or we are stopping
		log.Debug("reply ended early", "err", err)
		return
	case errors.Is(err, os.ErrDeadlineExceeded):
		log.Info("reader cut off: it took nothing for too long", "err", err)
	default:
		log.Error("reply failed after it began", "err", err)
	}
	panic(http.ErrAbortHandler)
}

// Encode replies with v as JSON. Nothing is written if v cannot be encoded.
func Encode(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode reply: %w", err)
	}
	return writeJSON(w, status, body)
}

func writeJSON(w http.ResponseWriter, status int, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	w.WriteHeader(status)
	_, err := w.Write(append(body, '\n'))
	return err
}

// A reply knows whether it has begun. http.ResponseController finds the connection behind it by Unwrap.
type reply struct {
	http.ResponseWriter
	begun bool
}

func (w *reply) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *reply) WriteHeader(status int) {
	w.begun = w.begun || status >= 200
	w.ResponseWriter.WriteHeader(status)
}

func (w *reply) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}

// FlushError is how http.ResponseController flushes.
func (w *reply) FlushError() error {
	w.begun = true
	return http.NewResponseController(w.ResponseWriter).Flush()
}
