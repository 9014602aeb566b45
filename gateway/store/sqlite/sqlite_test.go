package sqlite_test

import (
	"path/filepath"
	"testing"

	"runnerd/gateway/store"
	"runnerd/gateway/store/sqlite"
	"runnerd/gateway/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, ring func(...store.Topic)) store.Store {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "gateway.db"), sqlite.Options{Ring: ring})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	})
}
