package api

import (
	"fmt"
	"strings"
	"time"

	"runnerd/gateway/store"
)

// trace is all that requests could have left in the store, as text.
func (w *world) trace() string {
	w.t.Helper()
	var b strings.Builder
	err := w.store.View(w.t.Context(), func(r store.Reader) error {
		b.Reset()
		for _, who := range []store.Subject{alice, bob, carol} {
			for row, err := range r.Runs(who.Tenant(), who, time.Time{}, 10_000) {
				if err != nil {
					return err
				}
				fmt.Fprintln(&b, row.ID, row.Status, row.LastSeq)
			}
			for row, err := range r.Runners(who) {
				if err != nil {
					return err
				}
				fmt.Fprintln(&b, row.ID, row.Revoked, row.Generation, row.Used)
			}
			for e, err := range r.Audit(who, 0, 10_000) {
				if err != nil {
					return err
				}
				fmt.Fprintln(&b, e.Subject, e.Seq, e.Kind)
			}
			for k, err := range r.Keys(who.Tenant()) {
				if err != nil {
					return err
				}
				fmt.Fprintln(&b, k.ID, k.Revoked)
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return b.String()
}
