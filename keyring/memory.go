package keyring

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"runnerd/internal/redact"
)

// Memory is a store that ends with the process: for tests, and for a daemon
// that should leave nothing behind.
type Memory struct {
	mu     sync.Mutex
	values map[string]redact.Secret
}

var _ Keyring = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{values: map[string]redact.Secret{}}
}

// Get returns the credential called name.
func (m *Memory) Get(ctx context.Context, name string) (redact.Secret, error) {
	if err := ready(ctx, name); err != nil {
		return redact.Secret{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	secret, ok := m.values[name]
	if !ok {
		return redact.Secret{}, fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	return secret, nil
}

// Set stores a credential under name.
func (m *Memory) Set(ctx context.Context, name string, secret redact.Secret) error {
	if err := check(name, secret, MaxSize); err != nil {
		return err
	}
	if err := ready(ctx, name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[name] = secret
	return nil
}

// Delete removes the credential called name.
func (m *Memory) Delete(ctx context.Context, name string) error {
	if err := ready(ctx, name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.values[name]; !ok {
		return fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	delete(m.values, name)
	return nil
}

// List returns the names of all credentials in byte order.
func (m *Memory) List(ctx context.Context) ([]string, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.values)), nil
}

// ready reports a bad name, or why ctx has ended.
func ready(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
