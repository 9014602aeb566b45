// Package storetest holds the stores to one behaviour: what every method does, what a transaction and a snapshot are, when
// bells ring, and that nobody sees another's data. A change of a store begins here.
package storetest

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"runnerd/gateway/store"
)

// An Open gives a fresh, empty store, which it closes in t.Cleanup. The store rings with ring.
type Open func(t *testing.T, ring func(...store.Topic)) store.Store

// cases are named by the method they are about. A case gets a store of its own.
func cases() map[string]func(*testing.T, store.Store) {
	named := map[string]func(*testing.T, store.Store){}
	for _, some := range []map[string]func(*testing.T, store.Store){
		transactionCases, peopleCases, runCases, stepCases, runnerCases, recordCases,
	} {
		maps.Copy(named, some)
	}
	return named
}

// Run runs every case on a fresh store, and the properties. It fails when a method has no case.
func Run(t *testing.T, open Open) {
	named := cases()
	for name, run := range named {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, open(t, nil))
		})
	}
	for name, run := range ringCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, open)
		})
	}
	t.Run("isolation", func(t *testing.T) {
		t.Parallel()
		testIsolation(t, open(t, nil))
	})
	t.Run("model", func(t *testing.T) {
		t.Parallel()
		testModel(t, open)
	})

	// An untested method is where twins drift apart.
	for _, of := range []reflect.Type{reflect.TypeFor[store.Store](), reflect.TypeFor[store.Reader](), reflect.TypeFor[store.Tx]()} {
		for m := range of.Methods() {
			covered := false
			for name := range named {
				covered = covered || strings.HasPrefix(name, m.Name+"/")
			}
			for name := range ringCases {
				covered = covered || strings.HasPrefix(name, m.Name+"/")
			}
			if !covered {
				t.Errorf("no case for %s.%s", of, m.Name)
			}
		}
	}
}
