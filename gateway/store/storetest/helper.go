package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/store"
)

// The people of the cases.
const (
	acme  store.Tenant = "acme"
	rival store.Tenant = "rival"

	ann     store.Subject = "acme/ann"
	bob     store.Subject = "acme/bob"
	annWork store.Subject = "acme/work/ann"
	foreign store.Subject = "rival/ann"
)

// at is a fixed moment, n microseconds on.
func at(n int) time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Microsecond)
}

// hash is a hash of its own for each n.
func hash(n byte) store.Hash {
	var h store.Hash
	for i := range h {
		h[i] = n + byte(i)
	}
	return h
}

// write runs fn in a transaction that must succeed.
func write(t *testing.T, s store.Store, fn func(store.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatalf("Update: %v", err)
	}
}

// read runs fn on a snapshot.
func read(t *testing.T, s store.Store, fn func(store.Reader)) {
	t.Helper()
	if err := s.View(t.Context(), func(r store.Reader) error { fn(r); return nil }); err != nil {
		t.Fatalf("View: %v", err)
	}
}

// refused says that fn, which is part of a transaction of its own, gives the error.
func refused(t *testing.T, s store.Store, want error, fn func(store.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// same compares what was read with what should be there.
func same[T any](t *testing.T, want T) func(got T, err error) {
	return func(got T, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("got %v, want %v", err, want)
		} else if diff := cmp.Diff(want, got, asWhole); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// asWhole compares documents at once: byte by byte takes minutes for a large one under the race detector.
var asWhole = cmp.Comparer(func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) })

// fails says that a read gives the error.
func fails[T any](t *testing.T, want error) func(T, error) {
	return func(got T, err error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	}
}

// lists says that a list has these members, in this order.
func lists[T any](t *testing.T, seq iter.Seq2[T, error], want ...T) {
	t.Helper()
	got, err := collect(seq)
	if err != nil {
		t.Errorf("list: %v", err)
	} else if diff := cmp.Diff(want, got, asWhole); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func collect[T any](seq iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for v, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

// full gives a record none of whose members is zero, so that a column which was forgotten shows.
func full[T any](salt int) T {
	var v T
	fill(reflect.ValueOf(&v).Elem(), &salt)
	return v
}

func fill(v reflect.Value, salt *int) {
	*salt++
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		*p = at(*salt)
		return
	case *time.Duration:
		*p = time.Duration(*salt) * time.Microsecond
		return
	case *store.Hash:
		*p = hash(byte(*salt))
		return
	case *json.RawMessage:
		*p = fmt.Appendf(nil, `{"n":%d}`, *salt)
		return
	case *[]byte:
		*p = fmt.Appendf(nil, "b%d", *salt)
		return
	case *[]string:
		*p = []string{fmt.Sprint("s", *salt), "and"}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, salt)
		}
	case reflect.String:
		v.SetString(fmt.Sprint(v.Type().Name(), *salt))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*salt))
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic("storetest: no filling for " + v.Type().String())
	}
}

// aRun is a run that has not begun.
func aRun(s store.Subject, id store.RunID) store.Run {
	r := full[store.Run](int(id[len(id)-1]))
	r.Tenant, r.Subject, r.ID, r.Status, r.LastSeq = s.Tenant(), s, id, "running", -1
	return r
}

// aStep is a step that waits, due at n.
func aStep(s store.Subject, run store.RunID, id store.StepID, due int) store.Step {
	return store.Step{
		Tenant: s.Tenant(), Run: run, ID: id, Subject: s, Kind: "model", Inputs: json.RawMessage(`{}`), Created: at(due),
		State: store.StepQueued, Since: at(due), Due: at(due),
	}
}

// moved is a step as an offer, an acceptance and so on leave it.
func moved(s store.Step, state store.StepState, r store.RunnerID, seq int64) store.Step {
	s.State, s.Runner, s.Seq = state, r, seq
	return s
}

// aRunner is a runner that was just paired.
func aRunner(s store.Subject, id store.RunnerID, n int) store.Runner {
	return store.Runner{ID: id, Subject: s, Name: string(id), Created: at(n)}
}

// events are documents from first on.
func events(first int64, n int) []store.Event {
	var es []store.Event
	for i := range int64(n) {
		seq := first + i
		es = append(es, store.Event{Seq: seq, Type: "node.started", Doc: fmt.Appendf(nil, `{"seq":%d}`, seq)})
	}
	return es
}

// all joins the first error of several writes.
func all(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
