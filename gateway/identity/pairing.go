package identity

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// ErrSettled says that the pairing was approved, denied or used before; the first answer stands.
var ErrSettled = errors.New("the pairing was settled before")

// Pair begins a pairing. from is who asks, for the limit; page is the address at which people confirm.
func (s *Service) Pair(ctx context.Context, from, page string, in wire.PairingRequest) (wire.PairingReply, error) {
	if err := in.Validate(); err != nil {
		return wire.PairingReply{}, err
	}
	now := s.now()
	if wait, ok := s.pairs.take(from, now); !ok { // first, or one sender's flood would use up everybody's
		return wire.PairingReply{}, &LimitError{wait, "route"}
	}
	if wait, ok := s.allPairs.take("", now); !ok {
		s.pairs.give(from, now)
		return wire.PairingReply{}, &LimitError{wait, "global"}
	}
	device := mint(prefixDevice)
	p := store.Pairing{Device: hashOf(device), Name: in.Name, Platform: in.Platform, Version: in.Version,
		State: store.PairingPending, Expires: now.Add(wire.PairingLife)}
	for try := 1; ; try++ {
		p.UserCode = randomText(codeLength, codeLetters)
		err := s.store.Update(ctx, func(tx store.Tx) error { return tx.CreatePairing(p) })
		if err == nil {
			break
		}
		if !errors.Is(err, store.ErrConflict) || try == 5 {
			return wire.PairingReply{}, fmt.Errorf("begin pairing: %w", err)
		}
	}
	shown := ShowUserCode(p.UserCode)
	return wire.PairingReply{
		DeviceCode:              device,
		UserCode:                shown,
		VerificationURI:         page,
		VerificationURIComplete: page + "?code=" + shown, // worth nothing to who is not signed in
		ExpiresIn:               int64(wire.PairingLife / time.Second),
		Interval:                int64(wire.PairingInterval / time.Second),
	}, nil
}

// Pairing gives what is waiting under a user code, so that a person sees what would be approved.
func (s *Service) Pairing(ctx context.Context, subject store.Subject, code string) (store.Pairing, error) {
	var p store.Pairing
	err := s.guess(subject, code, func(code string, now time.Time) error {
		return s.store.View(ctx, func(r store.Reader) (err error) {
			p, err = open(r, subject, code, now)
			return err
		})
	})
	return p, err
}

// Approve makes the runner that waits under the user code one of the subject's.
func (s *Service) Approve(ctx context.Context, subject store.Subject, code string) (store.Pairing, error) {
	id := store.RunnerID("rnr_" + strings.ToLower(rand.Text()))
	return s.settle(ctx, subject, code, func(tx store.Tx, p *store.Pairing, now time.Time) error {
		p.State, p.Runner, p.Issued = store.PairingApproved, id, now
		err := tx.CreateRunner(store.Runner{ID: id, Subject: subject, Name: p.Name, Platform: p.Platform, Version: p.Version, Created: now})
		if err != nil {
			return err
		}
		tx.Publish(store.SubjectTopic(subject))
		return tx.AppendAudit(store.AuditEntry{Subject: subject, At: now, Kind: store.AuditPair, Runner: id, Detail: "approved: " + p.Name})
	})
}

// Deny refuses the runner that waits under the user code.
func (s *Service) Deny(ctx context.Context, subject store.Subject, code string) (store.Pairing, error) {
	return s.settle(ctx, subject, code, func(tx store.Tx, p *store.Pairing, now time.Time) error {
		p.State = store.PairingDenied
		return tx.AppendAudit(store.AuditEntry{Subject: subject, At: now, Kind: store.AuditPair, Detail: "denied: " + p.Name})
	})
}

func (s *Service) settle(ctx context.Context, subject store.Subject, code string, change func(store.Tx, *store.Pairing, time.Time) error) (store.Pairing, error) {
	var p store.Pairing
	err := s.guess(subject, code, func(code string, now time.Time) error {
		now = now.UTC().Truncate(time.Microsecond) // as the store keeps it
		return s.store.Update(ctx, func(tx store.Tx) (err error) {
			if p, err = open(tx, subject, code, now); err != nil {
				return err
			}
			if p.State != store.PairingPending {
				return ErrSettled
			}
			p.Subject = subject
			if err := change(tx, &p, now); err != nil {
				return err
			}
			return tx.MovePairing(store.PairingPending, p)
		})
	})
	return p, err
}

// open reads a pairing that is not past its time. One that another person settled is unknown.
func open(r store.Reader, subject store.Subject, code string, now time.Time) (store.Pairing, error) {
	p, err := r.PairingByUserCode(code)
	if err == nil && (!now.Before(p.Expires) || p.Subject != "" && p.Subject != subject) {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Pairing{}, err
	}
	return p, nil
}

// guess runs try with a code that a person typed. Codes that are none cost the person, and everybody, one attempt.
func (s *Service) guess(subject store.Subject, typed string, try func(code string, now time.Time) error) error {
	now := s.now()
	if wait, ok := s.guesses.take(string(subject), now); !ok {
		return &LimitError{wait, "key"}
	}
	if wait, ok := s.allCodes.take("", now); !ok {
		s.guesses.give(string(subject), now)
		return &LimitError{wait, "global"}
	}
	code, ok := ReadUserCode(typed)
	err := store.ErrNotFound
	if ok {
		err = try(code, now)
	}
	if !errors.Is(err, store.ErrNotFound) {
		s.guesses.give(string(subject), now)
		s.allCodes.give("", now)
	}
	if err != nil && !errors.Is(err, ErrSettled) {
		err = fmt.Errorf("pairing by code: %w", err)
	}
	return err
}

// claim trades a device code (RFC 8628 section 3.4). Until the bearer is used for the first time it gives the same tokens
// again, so that a lost answer costs nothing.
func (s *Service) claim(ctx context.Context, device string) (wire.TokenReply, error) {
	refuse := func(code string) (wire.TokenReply, error) { return wire.TokenReply{}, &TokenError{code} }
	if !minted(prefixDevice, device) {
		return refuse(wire.TokenInvalid)
	}
	var p store.Pairing
	var r store.Runner
	hash, now := hashOf(device), s.now()
	err := s.store.View(ctx, func(rd store.Reader) (err error) {
		if p, err = rd.PairingByDevice(hash); err == nil && p.Runner != "" {
			r, err = rd.Runner(p.Subject, p.Runner)
		}
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && subtle.ConstantTimeCompare(p.Device[:], hash[:]) != 1:
		return refuse(wire.TokenInvalid)
	case err != nil:
		return wire.TokenReply{}, fmt.Errorf("read pairing: %w", err)
	}
	switch {
	case p.State == store.PairingUsed || !r.Used.IsZero() || r.Generation > 0 || !r.Revoked.IsZero():
		return refuse(wire.TokenInvalid)
	case !now.Before(p.Expires):
		return refuse(wire.TokenExpired)
	case p.State == store.PairingDenied:
		return refuse(wire.TokenDenied)
	case p.State == store.PairingApproved:
		return s.reply(r, 1, p.Issued, now), nil
	case s.polls.tooSoon(hash, now):
		return refuse(wire.TokenSlowDown)
	}
	return refuse(wire.TokenPending)
}

// polls remembers when each device code was last asked for. It is per gateway: with several, a runner may ask each at the
// full rate, which harms nobody.
type polls struct {
	mu   sync.Mutex
	last map[store.Hash]poll
}

type poll struct {
	at    time.Time
	every time.Duration
}

// tooSoon says whether a device code is asked for faster than its interval, which then grows by 5 s for good
// (RFC 8628 section 3.5). A fifth of the interval is forgiven: networks bunch.
func (p *polls) tooSoon(device store.Hash, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.last[device]
	if !ok {
		if p.last == nil || len(p.last) >= 1<<14 {
			p.last = make(map[store.Hash]poll)
		}
		for h, one := range p.last {
			if now.Sub(one.at) > wire.PairingLife {
				delete(p.last, h)
			}
		}
		p.last[device] = poll{now, wire.PairingInterval}
		return false
	}
	soon := now.Sub(last.at) < last.every*4/5
	if soon {
		last.every += 5 * time.Second
	}
	p.last[device] = poll{now, last.every}
	return soon
}
