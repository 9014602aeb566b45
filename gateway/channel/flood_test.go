package channel_test

import (
	"net/http"
	"strconv"
	"testing"

	"runnerd/internal/wire"
)

// H01: a runner that registers without end is told to wait, and nobody else is.
func TestAFloodOfRegistrationsIsTheFloodersAlone_H01(t *testing.T) {
	w := newWorld(t)
	w.quiet = true
	flooder, other := w.runner(w.subject("acme", "ann")), w.runner(w.subject("acme", "bob"))
	record := wire.Registration{RunnerID: string(flooder.id), Subject: string(flooder.subject)}
	good, limited := 0, 0
	for range 300 {
		switch status, _ := flooder.call("PUT", "/runner", record); status {
		case http.StatusOK:
			good++
		case http.StatusTooManyRequests:
			limited++
		default:
			t.Fatalf("status %d", status)
		}
	}
	if good < 30 || limited < 100 {
		t.Errorf("%d registrations, %d refused", good, limited)
	}
	if got := flooder.refused("GET", "/dispatches?epoch="+strconv.Itoa(good), nil); got != "429 rate_limited" {
		t.Errorf("its streams: %s", got)
	}
	for range 30 {
		other.register()
	}
}
