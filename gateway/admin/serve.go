package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"runnerd/gateway/identity"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
	"runnerd/internal/wire"
)

// maxBody leaves room for a definition of the largest size, which travels as base64.
const maxBody = 8 << 20

// Handler serves operations: POST /name with the request as JSON.
func Handler(ops Operations, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	serve(mux, log, pathAddUser, ops.AddUser)
	serve(mux, log, pathLinkUser, ops.LinkUser)
	serve(mux, log, pathUsers, ops.Users)
	serve(mux, log, pathCreateKey, ops.CreateKey)
	serve(mux, log, pathKeys, ops.Keys)
	serve(mux, log, pathRevokeKey, ops.RevokeKey)
	serve(mux, log, pathRunners, ops.Runners)
	serve(mux, log, pathApproveRunner, ops.ApproveRunner)
	serve(mux, log, pathRevokeRunner, ops.RevokeRunner)
	serve(mux, log, pathImportWorkflow, ops.ImportWorkflow)
	serve(mux, log, pathWorkflows, ops.Workflows)
	serve(mux, log, pathStatus, ops.Status)
	return httpapi.Routes(mux)
}

// The paths of the operations.
const (
	pathAddUser        = "/user/add"
	pathLinkUser       = "/user/link"
	pathUsers          = "/user/list"
	pathCreateKey      = "/key/create"
	pathKeys           = "/key/list"
	pathRevokeKey      = "/key/revoke"
	pathRunners        = "/runner/list"
	pathApproveRunner  = "/runner/approve"
	pathRevokeRunner   = "/runner/revoke"
	pathImportWorkflow = "/workflow/import"
	pathWorkflows      = "/workflow/list"
	pathStatus         = "/status"
)

func serve[In, Out any](mux *http.ServeMux, log *slog.Logger, path string, do func(context.Context, In) (Out, error)) {
	mux.Handle("POST "+path, httpapi.Wrap(log, problem, func(w http.ResponseWriter, r *http.Request) error {
		in, err := httpapi.Decode[In](w, r, httpapi.MaxBytes(maxBody))
		if err != nil {
			return err
		}
		out, err := do(r.Context(), in)
		if err != nil {
			return err
		}
		return httpapi.Encode(w, http.StatusOK, out)
	}))
}

// problem gives an operation's error its status. An administrator may know the cause of every failure.
func problem(err error) *httpapi.Problem {
	e := asError(err)
	status := http.StatusInternalServerError
	switch e.Code {
	case CodeInvalid:
		status = http.StatusBadRequest
	case CodeNotFound:
		status = http.StatusNotFound
	case CodeConflict:
		status = http.StatusConflict
	case CodeLimited:
		status = http.StatusTooManyRequests
	}
	return &httpapi.Problem{Status: status, Code: e.Code, Message: e.Message, Cause: err}
}

// asError gives an error the words and the code that an administrator sees.
func asError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*wire.FieldError](err); ok {
		return &Error{CodeInvalid, e.Error()}
	}
	if e, ok := errors.AsType[*identity.LimitError](err); ok {
		return &Error{CodeLimited, e.Error()}
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return &Error{CodeNotFound, err.Error()}
	case errors.Is(err, store.ErrConflict):
		return &Error{CodeConflict, err.Error()}
	}
	return &Error{CodeInternal, err.Error()}
}
