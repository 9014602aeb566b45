package api

import (
	"encoding/json"
	"net/http"
	"time"

	"runnerd/gateway/identity"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
)

// An auditLine is an entry of the caller's audit log.
type auditLine struct {
	Seq       int64     `json:"seq"`
	At        time.Time `json:"at"`
	Kind      string    `json:"kind"`
	RunID     string    `json:"runId,omitempty"`
	StepID    string    `json:"stepId,omitempty"`
	RunnerID  string    `json:"runnerId,omitempty"`
	RunnerSeq int64     `json:"runnerSeq,omitempty"`
	Detail    string    `json:"detail,omitempty"`
}

type auditList struct {
	Entries []auditLine `json:"entries"`
}

func (s *Server) listAudit(w http.ResponseWriter, r *http.Request, c identity.Caller) error {
	after, err := httpapi.QueryInt(r, "after", 0, 0, 1<<53)
	if err != nil {
		return err
	}
	limit, err := httpapi.QueryInt(r, "limit", 100, 1, 1000)
	if err != nil {
		return err
	}
	var out auditList
	err = s.Store.View(r.Context(), func(rd store.Reader) error {
		out.Entries = []auditLine{}
		for e, err := range rd.Audit(c.Subject, after, int(limit)) {
			if err != nil {
				return err
			}
			out.Entries = append(out.Entries, auditLine{e.Seq, e.At.UTC(), e.Kind, string(e.Run), string(e.Step), string(e.Runner), e.RunnerSeq, e.Detail})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return httpapi.Encode(w, http.StatusOK, out)
}

// A lateLine is a result that came for a step that had ended (faults.md I4).
type lateLine struct {
	StepID   string          `json:"stepId"`
	RunnerID string          `json:"runnerId"`
	At       time.Time       `json:"at"`
	Output   json.RawMessage `json:"output"`
}

type lateList struct {
	Results []lateLine `json:"results"`
}

func (s *Server) listLate(w http.ResponseWriter, r *http.Request, c identity.Caller) error {
	id := store.RunID(r.PathValue("runId"))
	var out lateList
	err := s.Store.View(r.Context(), func(rd store.Reader) error {
		out.Results = []lateLine{}
		if _, err := runOf(rd, c, id); err != nil {
			return err
		}
		for l, err := range rd.LateResults(c.Tenant, id) {
			if err != nil {
				return err
			}
			out.Results = append(out.Results, lateLine{string(l.Step), string(l.Runner), l.At.UTC(), l.Output})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return httpapi.Encode(w, http.StatusOK, out)
}
