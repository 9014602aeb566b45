package runner

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"

	"runnerd/internal/redact"
	"runnerd/internal/sse"
	"runnerd/internal/wire"
	"runnerd/runner/journal"
	"runnerd/runner/provider"
	"runnerd/runner/step"
)

type noStore struct{}

func (noStore) Get(context.Context, string) (redact.Secret, error) {
	return redact.New("bearer-of-nobody"), nil
}
func (noStore) Set(context.Context, string, redact.Secret) error { return nil }
func (noStore) Delete(context.Context, string) error             { return nil }
func (noStore) List(context.Context) ([]string, error)           { return nil, nil }

// one is a single provider that must never be called here.
type one struct{ t testing.TB }

func (o one) Probe(context.Context) []step.Provider { return nil }

type never struct{ t testing.TB }

func (n never) Run(context.Context, provider.Step, func(string)) wire.Output {
	n.t.Error("something was run without a permit")
	return wire.Output{}
}
func (never) Probe(context.Context) provider.Status { return provider.Status{} }

// Whatever a stream carries: nothing panics, nothing runs, the cursor never goes back, and no more is held than there are
// lanes.
func FuzzTake(f *testing.F) {
	frame := `{"runId":"r","stepId":"s","seq":1,"kind":"model","provider":"fake","model":"m","inputs":{"messages":[{"role":"user","content":"x"}]}}`
	f.Add("1", "dispatch", []byte(frame), "2", []byte(frame))
	f.Add("1", "dispatch", []byte(`{"runId":"r","stepId":"s","seq":1,"kind":"tool","tool":"shell.run","inputs":{}}`), "9223372036854775807", []byte(`{"runId":"r","stepId":"t","seq":9223372036854775807}`))
	f.Add("", "control", []byte(`{"reason":"report"}`), "0", []byte("null"))
	f.Add("", "control", []byte(`{"reason":"superseded"}`), "x", []byte("{"))
	dir := filepath.Join(f.TempDir(), "data")
	if err := (Identity{Gateway: "https://gateway.example", RunnerID: "r", Subject: "s"}).save(dir); err != nil {
		f.Fatal(err)
	}
	r, err := New(Config{
		Dir: dir, Credentials: noStore{}, Client: &http.Client{}, Providers: one{f}, Log: slog.New(slog.DiscardHandler),
		Journal: journal.Options{MaxResult: 1 << 10, Compact: 64 << 10},
	})
	if err != nil {
		f.Fatal(err)
	}
	if r.journal, err = journal.Open(dir, r.cfg.Journal); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { r.journal.Close() })
	r.shelve(shelf{"fake": {ID: "fake", Backend: never{f}, State: provider.Ready}})
	f.Fuzz(func(t *testing.T, id, kind string, data []byte, id2 string, data2 []byte) {
		before := r.desk.cursor()
		for _, ev := range []sse.Event{{ID: id, Type: kind, Data: data}, {ID: id2, Type: "dispatch", Data: data2}} {
			_ = r.take(t.Context(), ev, false)
		}
		if after := r.desk.cursor(); after < before {
			t.Errorf("cursor went from %d to %d", before, after)
		}
		if all, _ := r.desk.working(); all > r.cfg.MaxSteps {
			t.Errorf("%d steps are held, at most %d may be", all, r.cfg.MaxSteps)
		}
		report := r.draft(1, 1)
		if err := report.Validate(); err != nil {
			t.Errorf("the next report is not valid: %v", err)
		}
		if err := r.apply(t.Context(), report, wire.ReportReply{Time: "x"}); err != nil {
			t.Error(err)
		}
		for _, h := range report.Held { // make room for the next input
			r.desk.mu.Lock()
			r.stop(wire.Stop{StepRef: h.StepRef, Reason: wire.StopGone})
			r.desk.mu.Unlock()
		}
	})
}
