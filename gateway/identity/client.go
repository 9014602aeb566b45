package identity

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"runnerd/gateway/store"
)

// The scopes of wire 3.2, and ours for runners: read sees them and the audit log, manage approves pairings and revokes.
const (
	ScopeManifestRead     = "manifest:read"
	ScopeRunsCreate       = "runs:create"
	ScopeRunsRead         = "runs:read"
	ScopeRunsCancel       = "runs:cancel"
	ScopeApprovalsRespond = "approvals:respond"
	ScopeArtifactsRead    = "artifacts:read"
	ScopeWebhooksManage   = "webhooks:manage"
	ScopePacksPublish     = "packs:publish"
	ScopePacksInstall     = "packs:install"
	ScopeRunnersRead      = "runners:read"
	ScopeRunnersManage    = "runners:manage"
)

// Scopes lists every scope there is.
func Scopes() []string {
	return []string{ScopeManifestRead, ScopeRunsCreate, ScopeRunsRead, ScopeRunsCancel, ScopeApprovalsRespond,
		ScopeArtifactsRead, ScopeWebhooksManage, ScopePacksPublish, ScopePacksInstall, ScopeRunnersRead, ScopeRunnersManage}
}

// pageScopes are what a person may do on the page.
func pageScopes() []string {
	return []string{ScopeManifestRead, ScopeRunsCreate, ScopeRunsRead, ScopeRunsCancel, ScopeApprovalsRespond,
		ScopeArtifactsRead, ScopeRunnersRead, ScopeRunnersManage}
}

// A Caller is who speaks on the client API.
type Caller struct {
	Tenant    store.Tenant
	Principal store.Principal
	Subject   store.Subject
	Scopes    []string
	Key       string // id of the API key; empty for a person's page
}

// May reports whether the caller has the scope.
func (c Caller) May(scope string) bool { return slices.Contains(c.Scopes, scope) }

func newCaller(s store.Subject, scopes []string, key string) Caller {
	return Caller{Tenant: s.Tenant(), Principal: s.Principal(), Subject: s, Scopes: scopes, Key: key}
}

// AuthenticateClient says whose bearer it is: an API key or a page's. Everything else, a runner's bearer too, is
// ErrUnauthenticated.
func (s *Service) AuthenticateClient(ctx context.Context, token string) (Caller, error) {
	switch {
	case strings.HasPrefix(token, prefixPage):
		st, ok := s.page.read(token)
		switch {
		case !ok:
			return Caller{}, ErrUnauthenticated
		case !current(st.number, PageLife, s.now()):
			return Caller{}, ErrExpired
		}
		return newCaller(store.Subject(st.who), pageScopes(), ""), nil
	case minted(prefixKey, token):
		return s.authenticateKey(ctx, token)
	}
	return Caller{}, ErrUnauthenticated
}

func (s *Service) authenticateKey(ctx context.Context, token string) (Caller, error) {
	var k store.Key
	hash := hashOf(token)
	err := s.store.View(ctx, func(r store.Reader) (err error) {
		k, err = r.KeyByHash(hash)
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Caller{}, ErrUnauthenticated
	case err != nil:
		return Caller{}, fmt.Errorf("read key: %w", err)
	case subtle.ConstantTimeCompare(k.Hash[:], hash[:]) != 1:
		return Caller{}, ErrUnauthenticated
	case !k.Revoked.IsZero():
		return Caller{}, ErrRevoked
	case !k.Expires.IsZero() && !s.now().Before(k.Expires):
		return Caller{}, ErrExpired
	}
	return newCaller(k.Subject, k.Scopes, k.ID), nil
}

// CreateKey makes an API key for a person. No scopes means all of them, no life means until revoked. The key is returned
// once and never again; its id ends in the key's own last characters, by which a person knows it.
func (s *Service) CreateKey(ctx context.Context, subject store.Subject, name string, scopes []string, life time.Duration) (store.Key, string, error) {
	if len(scopes) == 0 {
		scopes = Scopes()
	}
	for _, scope := range scopes {
		if !slices.Contains(Scopes(), scope) {
			return store.Key{}, "", fmt.Errorf("create key: no such scope %q; there are %s", scope, strings.Join(Scopes(), ", "))
		}
	}
	now, token := s.now(), mint(prefixKey)
	k := store.Key{ID: "key_" + strings.ToLower(rand.Text()[:10]) + "_" + token[len(token)-4:], Hash: hashOf(token),
		Subject: subject, Name: name, Scopes: slices.Compact(slices.Sorted(slices.Values(scopes))), Created: now.UTC()}
	if life > 0 {
		k.Expires = now.Add(life).UTC()
	}
	err := s.store.Update(ctx, func(tx store.Tx) error {
		if _, err := tx.User(subject.Tenant(), subject.Principal()); err != nil {
			return err
		}
		return tx.CreateKey(k)
	})
	if err != nil {
		return store.Key{}, "", fmt.Errorf("create key: %w", err)
	}
	return k, token, nil
}

// RevokeKey ends an API key of the tenant; store.ErrNotFound when there is none of that id.
func (s *Service) RevokeKey(ctx context.Context, t store.Tenant, id string) error {
	err := s.store.Update(ctx, func(tx store.Tx) error { return tx.RevokeKey(t, id, s.now()) })
	if err != nil {
		return fmt.Errorf("revoke key %s: %w", id, err)
	}
	return nil
}
