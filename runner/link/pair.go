package link

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"runnerd/internal/redact"
	"runnerd/internal/wire"
)

// ErrNotApproved says that a pairing came to nothing.
var ErrNotApproved = errors.New("the pairing was not approved")

// slowDown is what a slow_down adds to the interval (RFC 8628 section 3.5).
const slowDown = 5 * time.Second

// Pair asks the gateway for a code, shows it by onCode, and waits until somebody approves it. The tokens are stored when it
// returns nil. When ctx ends nothing is left behind but a code that expires.
func (c *Client) Pair(ctx context.Context, request wire.PairingRequest, onCode func(wire.PairingReply)) (wire.TokenReply, error) {
	var none wire.TokenReply
	if err := request.Validate(); err != nil {
		return none, fmt.Errorf("pair: %w", err)
	}
	answer, err := c.anonymous(ctx, "pairings", request)
	if err != nil {
		return none, fmt.Errorf("pair: %w", err)
	}
	code, err := reply[pairing](answer)
	if err != nil {
		return none, fmt.Errorf("pair: %w", err)
	}
	onCode(code.PairingReply)
	life := time.Duration(min(code.ExpiresIn, longestLife)) * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, life, fmt.Errorf("%w within %v", ErrNotApproved, life))
	defer cancel()
	tokens, err := c.poll(ctx, code.PairingReply)
	if err != nil {
		return none, fmt.Errorf("pair: %w", err)
	}
	store := c.tokens.credentials
	err = errors.Join(store.Set(ctx, RefreshName, redact.New(tokens.RefreshToken)), store.Set(ctx, BearerName, redact.New(tokens.AccessToken)))
	if err != nil {
		return none, fmt.Errorf("pair: store credentials: %w", err)
	}
	return tokens, nil
}

// longestShown bounds what a pairing puts on the screen, and into a QR code.
const longestShown = 1024

// pairing is wire.PairingReply as a validated message.
type pairing struct{ wire.PairingReply }

func (p pairing) Validate() error {
	if p.DeviceCode == "" || p.UserCode == "" || p.VerificationURI == "" || p.ExpiresIn <= 0 || p.Interval < 0 {
		return &wire.FieldError{Field: "device_code", Reason: "or another member of a pairing reply is missing"}
	}
	for field, shown := range map[string]string{"user_code": p.UserCode, "verification_uri": p.VerificationURI, "verification_uri_complete": p.VerificationURIComplete} {
		if len(shown) > longestShown || strings.ContainsFunc(shown, wire.Unprintable) { // a terminal would obey it
			return &wire.FieldError{Field: field, Reason: "is not fit to be shown"}
		}
	}
	for field, address := range map[string]string{"verification_uri": p.VerificationURI, "verification_uri_complete": p.VerificationURIComplete} {
		if u, err := url.Parse(address); address != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "") {
			return &wire.FieldError{Field: field, Reason: "is not a web address"}
		}
	}
	return nil
}

// poll asks for the tokens until they are there. The gateway gives the same ones again until the bearer is first used, so a
// lost answer is no harm.
func (c *Client) poll(ctx context.Context, code wire.PairingReply) (wire.TokenReply, error) {
	interval := max(time.Duration(code.Interval)*time.Second, wire.PairingInterval)
	var failures Backoff
	for wait := interval; ; {
		if err := sleep(ctx, wait); err != nil {
			return wire.TokenReply{}, err
		}
		wait = interval
		tokens, err := c.trade(ctx, wire.TokenRequest{DeviceCode: code.DeviceCode})
		if err == nil {
			return tokens, nil
		}
		status, ok := errors.AsType[*StatusError](err)
		switch {
		case ctx.Err() != nil:
			return wire.TokenReply{}, context.Cause(ctx)
		case ok && status.Code == wire.TokenPending:
			failures.Reset()
		case ok && status.Code == wire.TokenSlowDown:
			interval += slowDown
			wait = interval
		case ok && status.final():
			return wire.TokenReply{}, fmt.Errorf("%w: %s", ErrNotApproved, status.Code)
		case ok && status.Lasting() && status.Code != "":
			return wire.TokenReply{}, err
		default: // the network, or something in between
			after := time.Duration(0)
			if ok {
				after = status.RetryAfter
			}
			wait = max(interval, failures.Next(after))
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
