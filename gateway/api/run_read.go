package api

import (
	"net/http"

	"runnerd/gateway/engine"
	"runnerd/gateway/identity"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
)

func (s *Server) getRun(w http.ResponseWriter, r *http.Request, c identity.Caller) error {
	var out engine.RunSnapshot
	id := store.RunID(r.PathValue("runId"))
	err := s.Store.View(r.Context(), func(rd store.Reader) error {
		if _, err := runOf(rd, c, id); err != nil {
			return err
		}
		v, err := s.Runs.ViewIn(rd, c.Tenant, id)
		if err != nil {
			return err
		}
		out = v.Snapshot()
		return nil
	})
	if err != nil {
		return err
	}
	return httpapi.Encode(w, http.StatusOK, out)
}

// A cancelRequest may be absent.
type cancelRequest struct {
	Reason string `json:"reason,omitempty"`
}

// Validate bounds the reason, which stands in the log.
func (q cancelRequest) Validate() error {
	if len(q.Reason) > 1024 {
		return httpapi.Invalid("reason", "must have at most 1024 bytes")
	}
	return nil
}

type cancelReply struct {
	RunID  string `json:"runId"`
	Status string `json:"status"`
}

// cancelRun ends a run at once, whatever its runner does (design, section 5).
func (s *Server) cancelRun(w http.ResponseWriter, r *http.Request, c identity.Caller) error {
	in, err := httpapi.Decode[cancelRequest](w, r, httpapi.MaxBytes(s.MaxBody), httpapi.Optional())
	if err != nil {
		return err
	}
	id := store.RunID(r.PathValue("runId"))
	return s.once(w, r, c, "runs.cancel "+string(id), in, http.StatusOK, func(tx store.Tx) (any, error) {
		if _, err := runOf(tx, c, id); err != nil {
			return nil, err
		}
		status, err := s.Runs.CancelTx(tx, c.Tenant, id, in.Reason, string(c.Principal))
		return cancelReply{string(id), status}, err
	})
}
