package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"

	"runnerd/gateway/store"
	"runnerd/gateway/store/storetest"
)

// A lent store gives its database back when it is closed: the suite opens many, one after the other.
type lent struct {
	*Store
	reads  *Store
	giveUp func()
}

func lend(t *testing.T, gateways int, opt Options) store.Store {
	d := newDatabase(t)
	s := d.open(t, opt)
	l := lent{s, s, sync.OnceFunc(func() { d.free(t) })}
	if gateways > 1 {
		l.reads = d.open(t, Options{})
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (l lent) View(ctx context.Context, fn func(store.Reader) error) error {
	return l.reads.View(ctx, fn)
}

func (l lent) Close() error {
	if err := errors.Join(l.Store.Close(), l.reads.Close()); err != nil {
		return err
	}
	l.giveUp()
	return nil
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, ring func(...store.Topic)) store.Store { return lend(t, 1, Options{Ring: ring}) })
}

func TestStoreReadThroughAnotherGateway(t *testing.T) {
	storetest.Run(t, func(t *testing.T, ring func(...store.Topic)) store.Store { return lend(t, 2, Options{Ring: ring}) })
}
