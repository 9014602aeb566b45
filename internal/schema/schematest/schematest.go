// Package schematest holds tests to the protocol's schemas: every document and event that a test produces is one that the
// protocol allows.
package schematest

import (
	"encoding/json"
	"sync"
	"testing"

	"runnerd/internal/schema"
)

var load = sync.OnceValues(schema.Load) // once for all tests of a process

// Set returns the compiled schemas.
func Set(t testing.TB) *schema.Set {
	t.Helper()
	s, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Event fails the test unless doc is an event document that the protocol allows. doc is JSON as []byte,
// json.RawMessage or string, or a value to be encoded.
func Event(t testing.TB, doc any) {
	t.Helper()
	b := encoded(t, doc)
	if err := Set(t).Event(b); err != nil {
		t.Errorf("event %s\n%v", b, err)
	}
}

// Document fails the test unless doc is one that the named schema allows, like "run-snapshot" or "error-envelope".
func Document(t testing.TB, name string, doc any) {
	t.Helper()
	b := encoded(t, doc)
	if err := Set(t).Document(name, b); err != nil {
		t.Errorf("%s %s\n%v", name, b, err)
	}
}

// Payload fails the test unless doc is what the protocol allows as payload of eventType.
func Payload(t testing.TB, eventType string, doc any) {
	t.Helper()
	b := encoded(t, doc)
	if err := Set(t).Payload(eventType, b); err != nil {
		t.Errorf("%s\n%v", b, err)
	}
}

func encoded(t testing.TB, doc any) []byte {
	t.Helper()
	switch doc := doc.(type) {
	case []byte:
		return doc
	case json.RawMessage:
		return doc
	case string:
		return []byte(doc)
	}
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
