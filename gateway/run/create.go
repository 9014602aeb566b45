package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"runnerd/gateway/dispatch"
	"runnerd/gateway/engine"
	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// SubjectMember is the member of a run's metadata in which the gateway records the subject (design, section 9). Clients
// cannot set it.
const SubjectMember = "runnerd.subject"

// ErrNoWorkflow says that a run was asked for of a workflow that is not there.
var ErrNoWorkflow = errors.New("no such workflow")

// A CreateRequest asks for a run. Inputs, Configurable and Metadata are objects or empty.
type CreateRequest struct {
	Subject      store.Subject
	Workflow     string
	Inputs       json.RawMessage
	Configurable json.RawMessage
	Tags         []string
	Metadata     json.RawMessage
	ID           store.RunID // a new one if empty
}

// Create makes a run and starts it. Its errors besides the store's are ErrNoWorkflow and what is wrong with the request, as
// *wire.FieldError values that name the member.
func (s *Service) Create(ctx context.Context, q CreateRequest) (store.Run, error) {
	var row store.Run
	err := s.dispatch.Update(ctx, func(tx *dispatch.Tx) (err error) {
		row, err = s.create(tx, q)
		return err
	})
	return row, err
}

// CreateTx is Create as a part of somebody else's transaction: run and idempotency record are there together or not at all.
func (s *Service) CreateTx(tx store.Tx, q CreateRequest) (store.Run, error) {
	var row store.Run
	err := s.dispatch.Within(tx, func(tx *dispatch.Tx) (err error) {
		row, err = s.create(tx, q)
		return err
	})
	return row, err
}

func (s *Service) create(tx *dispatch.Tx, q CreateRequest) (store.Run, error) {
	for _, doc := range []*json.RawMessage{&q.Inputs, &q.Configurable, &q.Metadata} {
		if len(*doc) == 0 {
			*doc = nil // empty but there is no JSON
		}
	}
	tenant := q.Subject.Tenant()
	doc, err := s.Workflow(tx, tenant, q.Workflow)
	if errors.Is(err, store.ErrNotFound) {
		return store.Run{}, ErrNoWorkflow
	}
	if err != nil {
		return store.Run{}, err
	}
	hash := hashOf(doc)
	wf, err := s.workflow(hash, func() ([]byte, error) { return doc, nil })
	if err != nil {
		return store.Run{}, err
	}
	metadata, err := stamp(q.Metadata, q.Subject)
	if err = errors.Join(err, engine.CheckCreate(wf, q.Inputs, q.Configurable)); err != nil {
		return store.Run{}, err
	}
	row, err := newRow(q, hash, engine.StatusPending)
	if err != nil {
		return store.Run{}, err
	}
	row.Created = s.wall()
	row.Updated = row.Created
	if _, ok := s.defined.get(hash); !ok {
		if err := tx.PutDefinition(hash, doc); err != nil {
			return row, fmt.Errorf("store definition: %w", err)
		}
		tx.AfterCommit(func() { s.defined.put(hash, struct{}{}, 1, nil) })
	}
	if err := tx.CreateRun(row); err != nil {
		return row, fmt.Errorf("create run %s: %w", row.ID, err)
	}
	tx.Publish(store.SubjectTopic(q.Subject))
	m := move{s: s, tx: tx, row: row, wf: wf, folded: folded{engine.NewState(wf), perState}, at: row.Created}
	err = m.take(engine.Created{
		RunID: string(row.ID), Owner: owner(q.Subject), Inputs: q.Inputs, Configurable: q.Configurable, Tags: q.Tags, Metadata: metadata,
	})
	if err == nil {
		err = m.write()
	}
	return m.row, err
}

func newRow(q CreateRequest, definition store.Hash, status string) (store.Run, error) {
	if q.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return store.Run{}, fmt.Errorf("make run id: %w", err)
		}
		q.ID = store.RunID("run_" + strings.ReplaceAll(id.String(), "-", ""))
	}
	asked, err := json.Marshal(request{q.Inputs, q.Configurable, q.Tags, q.Metadata})
	if err != nil {
		return store.Run{}, fmt.Errorf("write request: %w", err)
	}
	return store.Run{
		ID: q.ID, Tenant: q.Subject.Tenant(), Subject: q.Subject, WorkflowID: q.Workflow, Definition: definition,
		Request: asked, Status: status, LastSeq: -1,
	}, nil
}

// stamp puts the subject into a run's metadata, after what the client sent.
func stamp(metadata json.RawMessage, subject store.Subject) (json.RawMessage, error) {
	metadata = bytes.TrimSpace(metadata)
	if len(metadata) == 0 {
		metadata = json.RawMessage("{}")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(metadata, &members); err != nil || members == nil {
		return nil, &wire.FieldError{Field: "metadata", Reason: "must be an object"}
	}
	if _, set := members[SubjectMember]; set {
		return nil, &wire.FieldError{Field: "metadata." + SubjectMember, Reason: "is set by the gateway"}
	}
	value, err := json.Marshal(subject)
	if err != nil {
		return nil, fmt.Errorf("write subject: %w", err)
	}
	members[SubjectMember] = value
	return json.Marshal(members)
}

// owner is the subject in the protocol's words (wire 3.3).
func owner(s store.Subject) engine.Owner {
	o := engine.Owner{Tenant: string(s.Tenant()), Principal: string(s.Principal())}
	if parts := strings.Split(string(s), "/"); len(parts) == 3 {
		o.Workspace = parts[1]
	}
	return o
}
