package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"runnerd/gateway/identity"
	"runnerd/gateway/store"
)

// Operations are what an administrator can do. Admin does them, Client asks a running gateway to.
type Operations interface {
	AddUser(context.Context, UserRef) (SignInLink, error)
	LinkUser(context.Context, UserRef) (SignInLink, error)
	Users(context.Context, TenantRef) (UserList, error)
	CreateKey(context.Context, NewKey) (CreatedKey, error)
	Keys(context.Context, TenantRef) (KeyList, error)
	RevokeKey(context.Context, IDRef) (IDRef, error)
	Runners(context.Context, TenantRef) (RunnerList, error)
	ApproveRunner(context.Context, Approval) (Approved, error)
	RevokeRunner(context.Context, IDRef) (IDRef, error)
	ImportWorkflow(context.Context, NewWorkflow) (Workflow, error)
	Workflows(context.Context, TenantRef) (WorkflowList, error)
	Status(context.Context, Nothing) (Status, error)
}

// An Admin does what an administrator asks.
type Admin struct {
	Store    store.Store
	Identity *identity.Service
	Now      func() time.Time
	Version  string
	// URL is where people reach the gateway; sign-in links begin with it.
	URL string
	// Presence says how a runner's connection stands; nil where nobody serves.
	Presence func(context.Context, store.Runner) string
}

var (
	_ Operations = (*Admin)(nil)
	_ Operations = (*Client)(nil)
)

// SignInURL is the link that signs a person in. The token stands in the fragment, which no server logs and no referrer
// carries; the page posts it.
func SignInURL(base, token string) string { return strings.TrimSuffix(base, "/") + "/sign-in#" + token }

const metaURL = "admin.url"

// RememberURL keeps the address of a gateway that serves, for links that are made while nobody does.
func RememberURL(ctx context.Context, s store.Store, url string) error {
	return s.Update(ctx, func(tx store.Tx) error { return tx.PutMeta(metaURL, []byte(url)) })
}

// RecallURL gives the address that RememberURL kept; empty when there is none.
func RecallURL(ctx context.Context, s store.Store) (string, error) {
	var url []byte
	err := s.View(ctx, func(r store.Reader) (err error) {
		url, err = r.Meta(metaURL)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return string(url), err
}

func tenantOf(t string) (store.Tenant, error) {
	if t == "" {
		return identity.DefaultTenant, nil
	}
	if err := store.CheckName(t); err != nil {
		return "", &Error{CodeInvalid, "tenant: " + err.Error()}
	}
	return store.Tenant(t), nil
}

// person finds the user that a request names.
func (a *Admin) person(ctx context.Context, tenant, name string) (store.User, error) {
	t, err := tenantOf(tenant)
	if err != nil {
		return store.User{}, err
	}
	if err := store.CheckName(name); err != nil {
		return store.User{}, &Error{CodeInvalid, "user: " + err.Error()}
	}
	u, err := a.Identity.User(ctx, t, name)
	return u, explain(err, "there is no user "+name)
}

// AddUser makes a person and the first sign-in link.
func (a *Admin) AddUser(ctx context.Context, in UserRef) (SignInLink, error) {
	t, err := tenantOf(in.Tenant)
	if err != nil {
		return SignInLink{}, err
	}
	if err := store.CheckName(in.User); err != nil {
		return SignInLink{}, &Error{CodeInvalid, "user: " + err.Error()}
	}
	u, token, err := a.Identity.AddUser(ctx, t, in.User)
	if errors.Is(err, store.ErrConflict) {
		return SignInLink{}, &Error{CodeConflict, "user " + in.User + " exists already; `gateway user link` makes a new sign-in link"}
	}
	if err != nil {
		return SignInLink{}, err
	}
	return SignInLink{u.Name, string(u.Subject), SignInURL(a.URL, token)}, nil
}

// LinkUser makes another sign-in link.
func (a *Admin) LinkUser(ctx context.Context, in UserRef) (SignInLink, error) {
	u, err := a.person(ctx, in.Tenant, in.User)
	if err != nil {
		return SignInLink{}, err
	}
	token, err := a.Identity.NewSignIn(ctx, u.Subject)
	if err != nil {
		return SignInLink{}, err
	}
	return SignInLink{u.Name, string(u.Subject), SignInURL(a.URL, token)}, nil
}

// Users lists the people of a tenant.
func (a *Admin) Users(ctx context.Context, in TenantRef) (UserList, error) {
	out := UserList{Users: []User{}}
	err := a.view(ctx, in, func(t store.Tenant, r store.Reader) error {
		out.Users = out.Users[:0]
		for u, err := range r.Users(t) {
			if err != nil {
				return err
			}
			out.Users = append(out.Users, User{u.Name, string(u.Subject), u.Created})
		}
		return nil
	})
	return out, err
}

func (a *Admin) view(ctx context.Context, in TenantRef, fn func(store.Tenant, store.Reader) error) error {
	t, err := tenantOf(in.Tenant)
	if err != nil {
		return err
	}
	return a.Store.View(ctx, func(r store.Reader) error { return fn(t, r) })
}

// CreateKey makes an API key for a person.
func (a *Admin) CreateKey(ctx context.Context, in NewKey) (CreatedKey, error) {
	u, err := a.person(ctx, in.Tenant, in.User)
	if err != nil {
		return CreatedKey{}, err
	}
	for _, s := range in.Scopes {
		if !slices.Contains(identity.Scopes(), s) {
			return CreatedKey{}, &Error{CodeInvalid, fmt.Sprintf("there is no scope %q; there are %s", s, strings.Join(identity.Scopes(), ", "))}
		}
	}
	k, token, err := a.Identity.CreateKey(ctx, u.Subject, in.Name, in.Scopes, time.Duration(in.LifeSeconds)*time.Second)
	if err != nil {
		return CreatedKey{}, err
	}
	return CreatedKey{Key: token, ID: k.ID, Scopes: k.Scopes, Expires: moment(k.Expires)}, nil
}

// Keys lists the API keys of a tenant, without the keys.
func (a *Admin) Keys(ctx context.Context, in TenantRef) (KeyList, error) {
	out := KeyList{Keys: []Key{}}
	err := a.view(ctx, in, func(t store.Tenant, r store.Reader) error {
		out.Keys = out.Keys[:0]
		for k, err := range r.Keys(t) {
			if err != nil {
				return err
			}
			out.Keys = append(out.Keys, Key{k.ID, string(k.Subject), k.Name, k.Scopes, k.Created, moment(k.Expires), moment(k.Revoked)})
		}
		return nil
	})
	return out, err
}

// RevokeKey ends an API key.
func (a *Admin) RevokeKey(ctx context.Context, in IDRef) (IDRef, error) {
	t, err := tenantOf(in.Tenant)
	if err != nil {
		return IDRef{}, err
	}
	return in, explain(a.Identity.RevokeKey(ctx, t, in.ID), "there is no key "+in.ID)
}

// Status says what this gateway is.
func (a *Admin) Status(ctx context.Context, _ Nothing) (Status, error) {
	out := Status{Version: a.Version, URL: a.URL, Serving: a.Presence != nil}
	err := a.Store.View(ctx, func(r store.Reader) error {
		out.Tenants, out.Users, out.Runners, out.Online = 0, 0, 0, 0
		for t, err := range r.AllTenants() {
			if err != nil {
				return err
			}
			out.Tenants++
			for _, err := range r.Users(t) {
				if err != nil {
					return err
				}
				out.Users++
			}
			for one, err := range r.RunnersOfTenant(t) {
				if err != nil {
					return err
				}
				if !one.Revoked.IsZero() {
					continue
				}
				out.Runners++
				if a.presence(ctx, one) == "online" {
					out.Online++
				}
			}
		}
		return nil
	})
	return out, err
}

func (a *Admin) presence(ctx context.Context, r store.Runner) string {
	if a.Presence == nil {
		return "offline"
	}
	return a.Presence(ctx, r)
}
