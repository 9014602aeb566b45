package identity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// AuthenticateRunner says which runner's bearer it is, and whose the runner is.
func (s *Service) AuthenticateRunner(ctx context.Context, token string) (store.RunnerID, store.Subject, error) {
	st, ok := s.bearer.read(token)
	if !ok {
		return "", "", ErrUnauthenticated
	}
	now, id := s.now(), store.RunnerID(st.who)
	if !current(st.number, wire.BearerLife, now) {
		return "", "", ErrExpired
	}
	f, ok, version := s.families.find(id)
	if !ok {
		var err error
		if f, err = s.readFamily(ctx, id, now); err != nil {
			return "", "", err
		}
		s.families.keep(id, f, version)
	}
	if f.revoked {
		return "", "", ErrRevoked
	}
	return id, f.subject, nil
}

// readFamily reads the runner, and notes the first use of its bearer: from then on its device code gives no tokens.
func (s *Service) readFamily(ctx context.Context, id store.RunnerID, now time.Time) (family, error) {
	var row store.Runner
	err := s.store.View(ctx, func(r store.Reader) (err error) {
		row, err = r.RunnerOfAll(id)
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return family{}, ErrUnauthenticated
	case err != nil:
		return family{}, fmt.Errorf("read runner: %w", err)
	}
	f := family{row.Subject, !row.Revoked.IsZero(), !row.Used.IsZero()}
	if f.used || f.revoked {
		return f, nil
	}
	err = s.store.Update(ctx, func(tx store.Tx) error { return tx.MoveFamily(id, row.Generation, row.Generation, now) })
	if err != nil && !errors.Is(err, store.ErrConflict) { // in conflict somebody else noted it
		return family{}, fmt.Errorf("note first use of runner: %w", err)
	}
	f.used = true
	return f, nil
}

// RevokeRunner ends a runner of the subject: from the phone, from the command line, or by its own logout. Its tokens are
// dead when this returns. why stands in the audit log.
func (s *Service) RevokeRunner(ctx context.Context, subject store.Subject, id store.RunnerID, why string) error {
	now := s.now()
	err := s.store.Update(ctx, func(tx store.Tx) error { return revoke(tx, subject, id, now, store.AuditRevoke, why) })
	if err != nil {
		return fmt.Errorf("revoke runner %s: %w", id, err)
	}
	s.families.forget(id)
	s.log.InfoContext(ctx, "runner revoked", "subject", subject, "runner", id, "why", why)
	return nil
}

// revoke marks the runner, tells every gateway, and writes the audit entry, once.
func revoke(tx store.Tx, subject store.Subject, id store.RunnerID, now time.Time, kind, why string) error {
	r, err := tx.Runner(subject, id)
	if err != nil {
		return err
	}
	if !r.Revoked.IsZero() && kind == store.AuditRevoke {
		return nil // revoking twice is revoking once
	}
	if err := tx.RevokeRunner(subject, id, now); err != nil {
		return err
	}
	tx.Publish(store.RevokedTopic)
	tx.Publish(store.RunnerTopic(id))
	tx.Publish(store.SubjectTopic(subject))
	return tx.AppendAudit(store.AuditEntry{Subject: subject, At: now, Kind: kind, Runner: id, Detail: why})
}

// reply makes the tokens of a runner: the bearer dated issued, and the refresh token of generation g.
func (s *Service) reply(r store.Runner, g int64, issued, now time.Time) wire.TokenReply {
	left := wire.BearerLife - now.Sub(time.Unix(issued.Unix(), 0))
	return wire.TokenReply{
		AccessToken:  s.bearer.stamp(string(r.ID), issued.Unix()),
		TokenType:    "Bearer",
		ExpiresIn:    max(1, int64(left/time.Second)),
		RefreshToken: s.refresh.stamp(string(r.ID), g),
		RunnerID:     string(r.ID),
		Subject:      string(r.Subject),
	}
}

// A TokenError is a refusal of POST tokens: one of the codes in internal/wire.
type TokenError struct{ Code string }

func (e *TokenError) Error() string { return "no tokens: " + e.Code }

// Trade gives a runner its tokens for a device code or a refresh token. It refuses with a *TokenError.
func (s *Service) Trade(ctx context.Context, in wire.TokenRequest) (wire.TokenReply, error) {
	if in.RefreshToken != "" {
		return s.renew(ctx, in.RefreshToken)
	}
	return s.claim(ctx, in.DeviceCode)
}

func (s *Service) renew(ctx context.Context, token string) (wire.TokenReply, error) {
	st, ok := s.refresh.read(token)
	if !ok {
		return wire.TokenReply{}, &TokenError{wire.TokenInvalid}
	}
	var out wire.TokenReply
	var reused store.RunnerID
	now, id := s.now(), store.RunnerID(st.who)
	err := s.store.Update(ctx, func(tx store.Tx) error {
		reused = ""
		r, err := tx.RunnerOfAll(id)
		if err != nil {
			return err
		}
		what, issued := judge(r, st.number, now)
		switch what {
		case tradeReuse: // an error would undo the revocation
			reused = id
			return revoke(tx, r.Subject, id, now, store.AuditReuse, "a refresh token was used a second time")
		case tradeAgain, tradeAdvance:
			out = s.reply(r, st.number+1, issued, now)
			if what == tradeAgain && issued.Equal(r.Used) {
				return nil
			}
			return tx.MoveFamily(id, r.Generation, st.number, issued)
		}
		return &TokenError{wire.TokenInvalid}
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		err = &TokenError{wire.TokenInvalid}
	case err == nil && reused != "":
		s.families.forget(reused)
		s.log.WarnContext(ctx, "refresh token reused; runner revoked", "runner", reused)
		err = &TokenError{wire.TokenInvalid}
	}
	if err != nil {
		return wire.TokenReply{}, fmt.Errorf("renew: %w", err)
	}
	return out, nil
}
