package identity

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"runnerd/gateway/store"
)

// AddUser makes a person and the token of a one-time sign-in link. An existing one gives store.ErrConflict.
func (s *Service) AddUser(ctx context.Context, t store.Tenant, name string) (u store.User, signIn string, err error) {
	p := store.Principal(name)
	subject, err := store.NewSubject(t, "", p)
	if err != nil {
		return store.User{}, "", err
	}
	now, token := s.now(), mint(prefixSignIn)
	u = store.User{Tenant: t, Principal: p, Subject: subject, Name: name, Created: now.UTC()}
	err = s.store.Update(ctx, func(tx store.Tx) error {
		if err := tx.CreateUser(u); err != nil {
			return err
		}
		return tx.PutSignIn(store.SignIn{Hash: hashOf(token), Subject: subject, Expires: now.Add(SignInLife)})
	})
	if err != nil {
		return store.User{}, "", fmt.Errorf("add user %s: %w", name, err)
	}
	return u, token, nil
}

// User gives a person by name; store.ErrNotFound when there is none.
func (s *Service) User(ctx context.Context, t store.Tenant, name string) (u store.User, err error) {
	err = s.store.View(ctx, func(r store.Reader) (err error) {
		u, err = r.User(t, store.Principal(name))
		return err
	})
	return u, err
}

// NewSignIn makes another one-time sign-in token for a person who exists.
func (s *Service) NewSignIn(ctx context.Context, subject store.Subject) (string, error) {
	now, token := s.now(), mint(prefixSignIn)
	err := s.store.Update(ctx, func(tx store.Tx) error {
		if _, err := tx.User(subject.Tenant(), subject.Principal()); err != nil {
			return err
		}
		return tx.PutSignIn(store.SignIn{Hash: hashOf(token), Subject: subject, Expires: now.Add(SignInLife)})
	})
	if err != nil {
		return "", fmt.Errorf("make a sign-in link: %w", err)
	}
	return token, nil
}

// SignIn trades a one-time token for a browser's cookie. Both happen in one transaction: a token that was taken has given
// a session.
func (s *Service) SignIn(ctx context.Context, token string) (cookie string, subject store.Subject, err error) {
	if !minted(prefixSignIn, token) {
		return "", "", ErrUnauthenticated
	}
	now, fresh := s.now(), mint(prefixSession)
	err = s.store.Update(ctx, func(tx store.Tx) error {
		in, err := tx.TakeSignIn(hashOf(token))
		if err != nil {
			return err
		}
		if !now.Before(in.Expires) {
			return store.ErrNotFound
		}
		subject = in.Subject
		return tx.PutSession(store.Session{Hash: hashOf(fresh), Subject: subject, Created: now, Expires: now.Add(SessionLife)})
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", "", ErrUnauthenticated
	case err != nil:
		return "", "", fmt.Errorf("sign in: %w", err)
	}
	return fresh, subject, nil
}

// Session gives whose cookie it is, and moves its expiry once a day.
func (s *Service) Session(ctx context.Context, cookie string) (store.Session, error) {
	var found store.Session
	if !minted(prefixSession, cookie) {
		return found, ErrUnauthenticated
	}
	hash, now := hashOf(cookie), s.now()
	err := s.store.View(ctx, func(r store.Reader) (err error) {
		found, err = r.SessionByHash(hash)
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Session{}, ErrUnauthenticated
	case err != nil:
		return store.Session{}, fmt.Errorf("read session: %w", err)
	case subtle.ConstantTimeCompare(found.Hash[:], hash[:]) != 1 || !now.Before(found.Expires):
		return store.Session{}, ErrUnauthenticated
	case found.Expires.Sub(now) > SessionLife-sessionSlide:
		return found, nil
	}
	moved := found
	moved.Expires = now.Add(SessionLife)
	err = s.store.Update(ctx, func(tx store.Tx) error {
		if _, err := tx.SessionByHash(hash); err != nil {
			return err // signed out meanwhile: it must not come back
		}
		return tx.PutSession(moved)
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Session{}, ErrUnauthenticated
	case err != nil: // a store without space must not sign people out
		s.log.WarnContext(ctx, "session not prolonged", "err", err)
		return found, nil
	}
	return moved, nil
}

// SignOut ends a session. A cookie that is none, or no longer, is no error: the browser wanted to be without it.
func (s *Service) SignOut(ctx context.Context, cookie string) error {
	if !minted(prefixSession, cookie) {
		return nil
	}
	err := s.store.Update(ctx, func(tx store.Tx) error { return tx.DeleteSession(hashOf(cookie)) })
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("sign out: %w", err)
	}
	return nil
}

// PageBearer makes the short-lived bearer that the page keeps in memory, for the person whose session it is.
func (s *Service) PageBearer(subject store.Subject) (token string, expires time.Time) {
	now := s.now().Truncate(time.Second)
	return s.page.stamp(string(subject), now.Unix()), now.Add(PageLife)
}
