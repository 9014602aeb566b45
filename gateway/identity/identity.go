package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"runnerd/gateway/bus"
	"runnerd/gateway/store"
)

// The lives of what is not in internal/wire.
const (
	SignInLife  = time.Hour
	SessionLife = 30 * 24 * time.Hour
	PageLife    = 15 * time.Minute

	sessionSlide = 24 * time.Hour // a session's expiry is moved at most so often
)

// DefaultTenant is whose users are where nobody named a tenant.
const DefaultTenant store.Tenant = "default"

// Errors that callers act on. The three are told apart only once the credential was recognised (wire 3.1).
var (
	ErrUnauthenticated = errors.New("the credential is missing, malformed or unknown")
	ErrExpired         = errors.New("the credential has expired")
	ErrRevoked         = errors.New("the credential was revoked")
)

// A LimitError says that somebody asks too often.
type LimitError struct {
	RetryAfter time.Duration
	Scope      string // of wire 3.1: "key" for one person, "route" for one sender, "global" for everybody
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("too many attempts; try again in %v", e.RetryAfter.Round(time.Second))
}

// A Service judges credentials and makes them. Its methods may be called concurrently. Run follows revocations; without it
// everything works, but each runner's request reads the store.
type Service struct {
	store   store.Store
	log     *slog.Logger
	now     func() time.Time // wall time
	bearer  sealer
	refresh sealer
	page    sealer

	families families
	polls    polls
	guesses  limiter // of user codes, per subject
	allCodes limiter // of user codes, all together
	pairs    limiter // new pairings, per sender
	allPairs limiter // new pairings, all together
}

const metaKey = "identity.mac"

// New gives a service over s. The key for its MACs is made at the first start of the store and read from then on.
func New(ctx context.Context, s store.Store, now func() time.Time, log *slog.Logger) (*Service, error) {
	root, err := rootKey(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("open the token key: %w", err)
	}
	v := &Service{
		store:    s,
		log:      log,
		now:      now,
		guesses:  newLimiter(time.Minute/4, 5),
		allCodes: newLimiter(time.Second, 60),
		pairs:    newLimiter(6*time.Second, 10),
		allPairs: newLimiter(time.Second/5, 300),
	}
	var errs [3]error
	v.bearer, errs[0] = newSealer(root, prefixBearer)
	v.refresh, errs[1] = newSealer(root, prefixRefresh)
	v.page, errs[2] = newSealer(root, prefixPage)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("derive the token keys: %w", err)
	}
	return v, nil
}

// rootKey reads or makes the key in one transaction, so that gateways starting together agree.
func rootKey(ctx context.Context, s store.Store) ([]byte, error) {
	var root []byte
	err := s.View(ctx, func(r store.Reader) (err error) {
		root, err = r.Meta(metaKey)
		return err
	})
	if !errors.Is(err, store.ErrNotFound) {
		return root, err
	}
	fresh := make([]byte, 32)
	rand.Read(fresh)
	err = s.Update(ctx, func(tx store.Tx) (err error) {
		if root, err = tx.Meta(metaKey); errors.Is(err, store.ErrNotFound) {
			root = fresh
			err = tx.PutMeta(metaKey, fresh)
		}
		return err
	})
	return root, err
}

// Run follows the cursor of revocations until ctx ends: at every ring of the bus, and every few seconds in case one was
// lost (design, section 4).
func (s *Service) Run(ctx context.Context, b bus.Bus) error {
	return s.families.follow(ctx, s.store, b, s.log)
}
