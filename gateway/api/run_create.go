package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"runnerd/gateway/engine"
	"runnerd/gateway/identity"
	"runnerd/gateway/run"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
	"runnerd/internal/wire"
)

// Runs is what the API asks of runs. Package run does it.
type Runs interface {
	CreateTx(store.Tx, run.CreateRequest) (store.Run, error)
	CancelTx(tx store.Tx, t store.Tenant, id store.RunID, reason, by string) (string, error)
	ViewIn(store.Reader, store.Tenant, store.RunID) (run.View, error)
	Workflow(r store.Reader, t store.Tenant, id string) ([]byte, error)
}

var _ Runs = (*run.Service)(nil)

// A createRequest is wire 5.1's body. It is closed; inputs, configurable and metadata are open inside.
type createRequest struct {
	WorkflowID   string          `json:"workflowId"`
	Inputs       json.RawMessage `json:"inputs,omitempty"`
	Configurable json.RawMessage `json:"configurable,omitempty"`
	Tags         []string        `json:"tags,omitempty"`
	Metadata     json.RawMessage `json:"metadata,omitempty"`
	TenantID     string          `json:"tenantId,omitempty"`
	ScopeID      string          `json:"scopeId,omitempty"`
	CallbackURL  string          `json:"callbackUrl,omitempty"`
	Residency    json.RawMessage `json:"residency,omitempty"`
	Mode         json.RawMessage `json:"mode,omitempty"`
}

const (
	maxTags     = 100
	maxTag      = 256
	maxMetadata = 50 << 10 // recommended by the schema of run options
)

// Validate names what the protocol fixes; the workflow's own wishes are looked at when the run is made.
func (q createRequest) Validate() error {
	var errs []error
	bad := func(field, reason string) { errs = append(errs, &wire.FieldError{Field: field, Reason: reason}) }
	if q.WorkflowID == "" {
		bad("workflowId", "is required")
	} else if !validID(q.WorkflowID) {
		bad("workflowId", "must have at most 128 characters")
	}
	if len(q.Tags) > maxTags {
		bad("tags", fmt.Sprintf("must hold at most %d tags", maxTags))
	}
	for i, tag := range q.Tags {
		if tag == "" || len(tag) > maxTag {
			bad(fmt.Sprintf("tags[%d]", i), "must have 1 to 256 bytes")
			break
		}
	}
	if len(q.Metadata) > maxMetadata {
		bad("metadata", "must have at most 50 KiB")
	}
	if len(q.TenantID) > wire.MaxID || len(q.ScopeID) > wire.MaxID {
		bad("tenantId", "and scopeId must have at most 128 characters")
	}
	return errors.Join(errs...)
}

// A createReply is wire 5.1's.
type createReply struct {
	RunID     string `json:"runId"`
	Status    string `json:"status"`
	EventsURL string `json:"eventsUrl"`
	StatusURL string `json:"statusUrl"`
}

func (s *Server) createRun(w http.ResponseWriter, r *http.Request, c identity.Caller) error {
	in, err := httpapi.Decode[createRequest](w, r, httpapi.MaxBytes(s.MaxBody))
	if err != nil {
		return err
	}
	if err := s.mayCreate(in, c); err != nil {
		return err
	}
	return s.once(w, r, c, "runs.create", in, http.StatusCreated, func(tx store.Tx) (any, error) {
		row, err := s.Runs.CreateTx(tx, run.CreateRequest{Subject: c.Subject, Workflow: in.WorkflowID, Inputs: in.Inputs,
			Configurable: in.Configurable, Tags: in.Tags, Metadata: in.Metadata})
		if errors.Is(err, run.ErrNoWorkflow) {
			return nil, httpapi.Invalid("workflowId", "names no workflow")
		}
		path := "/v1/runs/" + string(row.ID)
		return createReply{string(row.ID), begun(row.Status), path + "/events", path}, err
	})
}

// begun is the status that a creation may answer with: a short run may have ended in the transaction that made it, which its
// snapshot says (wire 5.1).
func begun(status string) string {
	if store.Terminal(status) {
		return engine.StatusRunning
	}
	return status
}

// mayCreate refuses what a credential does not allow, and what asks for a capability that is not offered.
func (s *Server) mayCreate(in createRequest, c identity.Caller) error {
	if in.TenantID != "" && in.TenantID != string(c.Tenant) {
		return &httpapi.Problem{Status: http.StatusForbidden, Code: httpapi.CodeForbidden, Message: "tenantId is not the credential's tenant",
			Details: map[string]any{"field": "tenantId"}}
	}
	for capability, asked := range map[string]bool{
		"webhooks":  in.CallbackURL != "",
		"residency": len(in.Residency) > 0,
		"mode":      len(in.Mode) > 0,
	} {
		if asked {
			return &httpapi.Problem{Status: http.StatusBadRequest, Code: codeCapability, Message: "the request needs a capability that is not offered",
				Details: map[string]any{"requiredCapability": capability}}
		}
	}
	var reserved struct {
		Mock json.RawMessage `json:"mockProvider"`
	}
	if json.Unmarshal(in.Configurable, &reserved) == nil && len(reserved.Mock) > 0 {
		return &httpapi.Problem{Status: http.StatusForbidden, Code: codeMockForbidden, Message: "mock providers are for test keys, and there are none"}
	}
	return nil
}

// validID says whether a path or a body may name something by s (wire section 1).
func validID(s string) bool { return s != "" && len(s) <= wire.MaxID }

// limits of the host, as discovery tells them and the engine keeps them.
func limits(c engine.Caps) engine.Caps {
	if c.NodeExecutions <= 0 {
		c.NodeExecutions = engine.DefaultNodeExecutions
	}
	if c.RunDuration <= 0 {
		c.RunDuration = engine.DefaultRunDuration
	}
	return c
}
