package admin

import (
	"context"
	"errors"

	"runnerd/gateway/identity"
	"runnerd/gateway/store"
)

// Runners lists the runners of a tenant that are not revoked.
func (a *Admin) Runners(ctx context.Context, in TenantRef) (RunnerList, error) {
	out := RunnerList{Runners: []Runner{}}
	err := a.view(ctx, in, func(t store.Tenant, r store.Reader) error {
		out.Runners = out.Runners[:0]
		for one, err := range r.RunnersOfTenant(t) {
			if err != nil {
				return err
			}
			if !one.Revoked.IsZero() {
				continue
			}
			out.Runners = append(out.Runners, Runner{ID: string(one.ID), Subject: string(one.Subject), Name: one.Name, Platform: one.Platform,
				Version: one.Version, Presence: a.presence(ctx, one), Created: one.Created, LastSeen: moment(one.LastSeen)})
		}
		return nil
	})
	return out, err
}

// ApproveRunner approves the pairing that waits under a code, in the name of a person.
func (a *Admin) ApproveRunner(ctx context.Context, in Approval) (Approved, error) {
	u, err := a.person(ctx, in.Tenant, in.User)
	if err != nil {
		return Approved{}, err
	}
	p, err := a.Identity.Approve(ctx, u.Subject, in.Code)
	if errors.Is(err, identity.ErrSettled) {
		return Approved{}, &Error{CodeConflict, "the pairing under this code was settled before"}
	}
	if err != nil {
		return Approved{}, explain(err, "no runner waits under this code; codes last ten minutes")
	}
	return Approved{string(p.Runner), string(p.Subject), p.Name}, nil
}

// RevokeRunner ends a runner of the tenant.
func (a *Admin) RevokeRunner(ctx context.Context, in IDRef) (IDRef, error) {
	t, err := tenantOf(in.Tenant)
	if err != nil {
		return IDRef{}, err
	}
	var found store.Runner
	err = a.Store.View(ctx, func(r store.Reader) (err error) {
		found, err = r.RunnerOfAll(store.RunnerID(in.ID))
		return err
	})
	if err == nil && found.Subject.Tenant() != t {
		err = store.ErrNotFound
	}
	if err == nil {
		err = a.Identity.RevokeRunner(ctx, found.Subject, found.ID, "by an administrator")
	}
	return in, explain(err, "there is no runner "+in.ID)
}
