package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"runnerd/internal/redact"
	"runnerd/runner/link"
)

// A Vault is the credential store, with a look-out: whatever is read from it or written to it in this process is masked from
// then on, before anybody can use it. Sync adds the rest of what the store holds.
type Vault struct {
	store link.Credentials
	mask  *redact.Set

	mu     sync.Mutex
	known  map[string][]redact.Secret // by name, newest last
	synced time.Time
	syncs  chan struct{}
}

// syncEvery is how old the last look at the whole store may be when a step starts.
const syncEvery = time.Minute

// syncWithin bounds it: a keychain that waits for a person must not hold up steps that need nothing of it.
const syncWithin = 2 * time.Second

// keptValues are how many values of one name stay masked: an old token may still be in a step's output.
const keptValues = 4

// NewVault makes a vault. Everything in this process that needs a credential is given the vault, not the store.
func NewVault(store link.Credentials, mask *redact.Set) *Vault {
	return &Vault{store: store, mask: mask, known: map[string][]redact.Secret{}, syncs: make(chan struct{}, 1)}
}

var _ link.Credentials = (*Vault)(nil)

// Get reads a credential.
func (v *Vault) Get(ctx context.Context, name string) (redact.Secret, error) {
	s, err := v.store.Get(ctx, name)
	if err == nil {
		v.learn(name, s)
	}
	return s, err
}

// Set stores a credential.
func (v *Vault) Set(ctx context.Context, name string, secret redact.Secret) error {
	v.learn(name, secret)
	return v.store.Set(ctx, name, secret)
}

// Delete removes a credential. Its value stays masked.
func (v *Vault) Delete(ctx context.Context, name string) error { return v.store.Delete(ctx, name) }

// List gives the names of all credentials.
func (v *Vault) List(ctx context.Context) ([]string, error) { return v.store.List(ctx) }

// Sync looks at all that the store holds, unless that was done within the last minute. A store that does not open now is
// an error, and what it holds cannot be used by this process either.
func (v *Vault) Sync(ctx context.Context) error {
	v.syncs <- struct{}{}
	defer func() { <-v.syncs }()
	v.mu.Lock()
	fresh := !v.synced.IsZero() && time.Since(v.synced) < syncEvery
	v.synced = time.Now()
	v.mu.Unlock()
	if fresh {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, syncWithin)
	defer cancel()
	names, err := v.store.List(ctx)
	for _, name := range names {
		_, failed := v.Get(ctx, name)
		err = errors.Join(err, failed)
	}
	if err != nil {
		return fmt.Errorf("learn what to mask: %w", err)
	}
	return nil
}

func (v *Vault) learn(name string, secret redact.Secret) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, old := range v.known[name] {
		if old.Equal(secret) {
			return
		}
	}
	if v.mask.Add(name, secret) != nil {
		return // too short to be told from text; `credential set` refuses such
	}
	values := append(v.known[name], secret)
	if len(values) > keptValues {
		v.mask.Remove(name, values[0])
		values = values[1:]
	}
	v.known[name] = values
}
