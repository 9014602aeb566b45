package postgres

import (
	"context"
	"testing"

	"runnerd/gateway/store"
	"runnerd/gateway/store/storetest"
)

// dropping is a store whose database goes when it is closed: the suite opens many, one after the other.
type dropping struct {
	*Store
	t testing.TB
	d database
}

func (s dropping) Close() error {
	if err := s.Store.Close(); err != nil {
		return err
	}
	s.d.drop(s.t)
	return nil
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, ring func(...store.Topic)) store.Store {
		d := newDatabase(t)
		s := dropping{d.open(t, Options{Ring: ring}), t, d}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	})
}

// through writes through one gateway and reads through another.
type through struct {
	dropping
	other *Store
}

func (s through) View(ctx context.Context, fn func(store.Reader) error) error {
	return s.other.View(ctx, fn)
}

func (s through) Close() error {
	if err := s.other.Close(); err != nil {
		return err
	}
	return s.dropping.Close()
}

func TestStoreReadThroughAnotherGateway(t *testing.T) {
	storetest.Run(t, func(t *testing.T, ring func(...store.Topic)) store.Store {
		d := newDatabase(t)
		s := through{dropping{d.open(t, Options{Ring: ring}), t, d}, d.open(t, Options{})}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	})
}
