package api

import (
	"encoding/json"
	"net/http"

	"runnerd/gateway/identity"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
)

func (s *Server) getWorkflow(w http.ResponseWriter, r *http.Request, c identity.Caller) error {
	id := r.PathValue("workflowId")
	if !validID(id) {
		return httpapi.NotFound("workflow")
	}
	var doc []byte
	err := s.Store.View(r.Context(), func(rd store.Reader) (err error) {
		doc, err = s.Runs.Workflow(rd, c.Tenant, id)
		return err
	})
	if err != nil {
		return missing(err, "workflow")
	}
	return httpapi.Encode(w, http.StatusOK, json.RawMessage(doc))
}

type workflowLine struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Version     string `json:"version"`
	Builtin     bool   `json:"builtin"`
}

type workflowList struct {
	Workflows []workflowLine `json:"workflows"`
}

// listWorkflows lists what can be started: the built-in one first, then the tenant's.
func (s *Server) listWorkflows(w http.ResponseWriter, r *http.Request, c identity.Caller) error {
	var out workflowList
	err := s.Store.View(r.Context(), func(rd store.Reader) error {
		out.Workflows = []workflowLine{lineOf(s.chat.Doc(), true)}
		for wf, err := range rd.Workflows(c.Tenant) {
			if err != nil {
				return err
			}
			if wf.ID != s.chat.ID {
				out.Workflows = append(out.Workflows, lineOf(wf.Doc, false))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return httpapi.Encode(w, http.StatusOK, out)
}

// lineOf reads the head of a definition that was found valid when it was stored.
func lineOf(doc []byte, builtin bool) workflowLine {
	var l workflowLine
	_ = json.Unmarshal(doc, &l)
	l.Builtin = builtin
	return l
}
