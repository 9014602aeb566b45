package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"runnerd/internal/redact"
	"runnerd/internal/wire"
)

// The names under which the runner's own credentials are stored.
const (
	RefreshName = "runner.refresh"
	BearerName  = "runner.bearer"
)

// Credentials is where the runner's own tokens are kept. Package keyring has the stores.
type Credentials interface {
	Get(ctx context.Context, name string) (redact.Secret, error)
	Set(ctx context.Context, name string, secret redact.Secret) error
	Delete(ctx context.Context, name string) error
	List(ctx context.Context) ([]string, error)
}

// longestLife is how many seconds of a token's or a code's life are believed: a month.
const longestLife = 30 * 24 * 3600

// renewEarly is how long before its end a bearer is renewed.
const renewEarly = time.Minute

// Tokens hold the bearer in use and renew it.
type Tokens struct {
	credentials Credentials
	trade       func(context.Context, wire.TokenRequest) (wire.TokenReply, error)
	busy        chan struct{} // held while the store or the gateway is asked

	mu      sync.Mutex
	bearer  redact.Secret
	expires time.Time     // zero when not known
	refresh redact.Secret // as stored
	refused redact.Secret // the refresh token in use when the gateway took none any more
	unsaved error         // why the last refresh token could not be stored
}

// Bearer gives the bearer to use now, renewed when it is about to expire.
func (t *Tokens) Bearer(ctx context.Context) (redact.Secret, error) {
	if b, ok := t.current(redact.Secret{}); ok {
		return b, nil
	}
	return t.Renew(ctx, redact.Secret{})
}

// Renew gives another bearer than the refused one. Those who ask at the same time share one renewal.
func (t *Tokens) Renew(ctx context.Context, refused redact.Secret) (redact.Secret, error) {
	select {
	case t.busy <- struct{}{}:
		defer func() { <-t.busy }()
	case <-ctx.Done():
		return redact.Secret{}, context.Cause(ctx)
	}
	if b, ok := t.current(refused); ok {
		return b, nil
	}
	if refused.IsZero() {
		if b, ok := t.load(ctx); ok {
			return b, nil
		}
	}
	refresh, err := t.stored(ctx)
	if err != nil {
		return redact.Secret{}, err
	}
	r, err := t.trade(ctx, wire.TokenRequest{RefreshToken: refresh.Reveal()})
	if err == nil {
		return t.keep(ctx, r), nil
	}
	if status, ok := errors.AsType[*StatusError](err); ok && status.final() {
		t.mu.Lock()
		t.refused, t.refresh = refresh, redact.Secret{}
		t.mu.Unlock()
		return redact.Secret{}, fmt.Errorf("%w: %s", ErrUnpaired, status.Code)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if good := t.expires.IsZero() || time.Now().Before(t.expires); good && !t.bearer.IsZero() && !t.bearer.Equal(refused) {
		return t.bearer, nil // renewing early failed: no harm yet (UD-08)
	}
	return redact.Secret{}, fmt.Errorf("renew bearer: %w", err)
}

// current is the bearer in memory, if it is good and not the refused one.
func (t *Tokens) current(refused redact.Secret) (redact.Secret, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bearer.IsZero() || t.bearer.Equal(refused) {
		return redact.Secret{}, false
	}
	return t.bearer, t.expires.IsZero() || time.Until(t.expires) > renewEarly
}

// load takes the stored bearer when there is none in memory: it is from an earlier process, or from a pairing.
func (t *Tokens) load(ctx context.Context) (redact.Secret, bool) {
	b, err := t.credentials.Get(ctx, BearerName)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil || b.IsZero() || !t.bearer.IsZero() {
		return redact.Secret{}, false
	}
	t.bearer, t.expires = b, time.Time{}
	return b, true
}

// stored is the refresh token to present: always what is in the store, never what could not be put there.
func (t *Tokens) stored(ctx context.Context) (redact.Secret, error) {
	refresh, err := t.credentials.Get(ctx, RefreshName)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		if !t.refresh.IsZero() {
			return t.refresh, nil // the store is locked; this is what it holds
		}
		return redact.Secret{}, fmt.Errorf("read the runner's refresh token: %w", err)
	}
	if refresh.Equal(t.refused) {
		return redact.Secret{}, ErrUnpaired
	}
	t.refresh = refresh
	return refresh, nil
}

// keep stores what the gateway gave, and only then lets it be used.
func (t *Tokens) keep(ctx context.Context, r wire.TokenReply) redact.Secret {
	refresh, bearer := redact.New(r.RefreshToken), redact.New(r.AccessToken)
	unsaved := t.credentials.Set(ctx, RefreshName, refresh)
	if unsaved == nil {
		_ = t.credentials.Set(ctx, BearerName, bearer) // a lost one costs a renewal at the next start
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if unsaved == nil {
		t.refresh = refresh
	}
	t.unsaved = unsaved
	t.bearer, t.expires = bearer, time.Now().Add(time.Duration(min(r.ExpiresIn, longestLife))*time.Second)
	return bearer
}

// refuse notes that what the store holds is of no use.
func (t *Tokens) refuse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused = t.refresh
}

// Changed says whether the store holds another refresh token than the one that was refused: somebody has paired anew. Then
// what was in memory is forgotten.
func (t *Tokens) Changed(ctx context.Context) bool {
	refresh, err := t.credentials.Get(ctx, RefreshName)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil || refresh.Equal(t.refused) {
		return false
	}
	t.bearer, t.expires, t.refresh, t.refused = redact.Secret{}, time.Time{}, redact.Secret{}, redact.Secret{}
	return true
}

// Unsaved is why the newest refresh token is not in the store, or nil.
func (t *Tokens) Unsaved() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unsaved
}

// trade asks for tokens. It is the one request that carries no bearer, pairing aside.
func (c *Client) trade(ctx context.Context, in wire.TokenRequest) (wire.TokenReply, error) {
	var out wire.TokenReply
	answer, err := c.anonymous(ctx, "tokens", in)
	if err != nil {
		return out, err
	}
	t, err := reply[tokens](answer)
	return t.TokenReply, err
}

// tokens is wire.TokenReply as a validated message.
type tokens struct{ wire.TokenReply }

func (t tokens) Validate() error {
	if t.AccessToken == "" || t.RefreshToken == "" || t.RunnerID == "" || t.Subject == "" || t.ExpiresIn <= 0 {
		return &wire.FieldError{Field: "access_token", Reason: "or another member of a token reply is missing"}
	}
	return nil
}

func (c *Client) anonymous(ctx context.Context, path string, in any) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, errSlow)
	defer cancel()
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	res, err := c.send(ctx, http.MethodPost, c.base.JoinPath(path), body, redact.Secret{}, "")
	if err != nil {
		return nil, caused(ctx, err)
	}
	answer, err := read(res)
	return answer, caused(ctx, err)
}
