package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runnerd/internal/wire"
	"runnerd/runner/local"
	"runnerd/runner/provider"
)

func text(t testing.TB, result json.RawMessage) string {
	t.Helper()
	var out wire.Output
	if err := json.Unmarshal(result, &out); err != nil {
		t.Fatalf("%s: %v", result, err)
	}
	return out.Text
}

func TestStepGoesFromOfferToResult(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		begun := time.Now()
		w.gateway.offer("s")
		s := w.becomes("s", "done")
		if got := text(w, s.result); got != "done s" || w.backend.ran("s") != 1 {
			t.Errorf("result %q after %d turns", got, w.backend.ran("s"))
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("took %v: something waited for a timer", took)
		}
		if st := w.runner.Status(); len(st.Steps) != 0 || st.Link.State != local.Online {
			t.Errorf("status afterwards %+v", st)
		}
	})
}

func TestProgressArrivesInOrderFourTimesASecondAtMost(t *testing.T) {
	inWorld(t, func(w *world) {
		w.backend.run = func(_ context.Context, _ provider.Step, progress func(string)) wire.Output {
			for range 50 {
				progress("word ")
				time.Sleep(40 * time.Millisecond)
			}
			return wire.Output{Text: "all"}
		}
		w.start()
		w.gateway.offer("s")
		time.Sleep(10 * time.Millisecond) // P8
		synctest.Wait()
		if s := w.gateway.view("s"); s.text == "" {
			t.Error("the first piece waits, though nothing was sent before it")
		}
		s := w.becomes("s", "done")
		if want := strings.Repeat("word ", 50); !strings.HasPrefix(want, s.text) || len(s.text) < 180 { // the rest is in the result
			t.Errorf("%d bytes of 250 arrived: %q", len(s.text), s.text)
		}
		if s.pieces < 6 || s.pieces > 10 {
			t.Errorf("2 s of output came in %d pieces, want about 8", s.pieces)
		}
	})
}
