package admin

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"runnerd/gateway/engine"
	"runnerd/gateway/store"
)

// ImportWorkflow puts a definition under its id.
func (a *Admin) ImportWorkflow(ctx context.Context, in NewWorkflow) (Workflow, error) {
	t, err := tenantOf(in.Tenant)
	if err != nil {
		return Workflow{}, err
	}
	wf, err := engine.Parse(in.Document)
	if err != nil {
		return Workflow{}, &Error{CodeInvalid, "workflow: " + strings.ReplaceAll(err.Error(), "\n", "; ")}
	}
	if wf.ID == engine.Builtin().ID {
		return Workflow{}, &Error{CodeConflict, "workflow " + wf.ID + " is built in and cannot be replaced"}
	}
	now := a.Now().UTC()
	row := store.Workflow{Tenant: t, ID: wf.ID, Hash: sha256.Sum256(in.Document), Doc: in.Document, Updated: now}
	if err := a.Store.Update(ctx, func(tx store.Tx) error { return tx.PutWorkflow(row) }); err != nil {
		return Workflow{}, fmt.Errorf("import workflow %s: %w", wf.ID, err)
	}
	return Workflow{wf.ID, wf.Name, wf.Version, now}, nil
}

// Workflows lists the definitions of a tenant.
func (a *Admin) Workflows(ctx context.Context, in TenantRef) (WorkflowList, error) {
	out := WorkflowList{Workflows: []Workflow{}}
	err := a.view(ctx, in, func(t store.Tenant, r store.Reader) error {
		out.Workflows = out.Workflows[:0]
		for w, err := range r.Workflows(t) {
			if err != nil {
				return err
			}
			var head struct{ Name, Version string }
			if err := json.Unmarshal(w.Doc, &head); err != nil {
				return fmt.Errorf("read workflow %s: %w", w.ID, err)
			}
			out.Workflows = append(out.Workflows, Workflow{w.ID, head.Name, head.Version, w.Updated})
		}
		return nil
	})
	return out, err
}
