package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/bus/membus"
	"runnerd/gateway/dispatch"
	"runnerd/gateway/engine"
	"runnerd/gateway/run"
	"runnerd/gateway/store"
	"runnerd/gateway/store/sqlite"
	"runnerd/internal/wire"
)

const ann store.Subject = "acme/ann"

func open(t *testing.T) (store.Store, *membus.Bus) {
	t.Helper()
	b := membus.New()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "g.db"), sqlite.Options{Ring: b.Ring})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, b
}

// gateway makes runs on a store that others may write to as well.
func gateway(t *testing.T, s store.Store, b *membus.Bus) (*run.Service, *dispatch.Service) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	d := dispatch.New(dispatch.Config{Store: s, Bus: b, Log: log})
	return run.New(run.Config{Store: s, Dispatch: d, Log: log}), d
}

func chat(t *testing.T, runs *run.Service) store.Run {
	t.Helper()
	row, err := runs.Create(t.Context(), run.CreateRequest{Subject: ann, Workflow: "chat", Inputs: []byte(`{"prompt":"hi"}`)})
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func docs(t *testing.T, s store.Store, row store.Run) []store.Event {
	t.Helper()
	var all []store.Event
	err := s.View(t.Context(), func(r store.Reader) error {
		for ev, err := range r.Events(row.Tenant, row.ID, -1, 1000) {
			if err != nil {
				return err
			}
			all = append(all, ev)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestCreateSaysWhatIsWrong(t *testing.T) {
	s, b := open(t)
	runs, _ := gateway(t, s, b)
	prompt := json.RawMessage(`{"prompt":"hi"}`)
	for field, q := range map[string]run.CreateRequest{
		"inputs.prompt":             {Workflow: "chat"},
		"inputs":                    {Workflow: "chat", Inputs: []byte(`[]`)},
		"metadata":                  {Workflow: "chat", Inputs: prompt, Metadata: []byte(`"x"`)},
		"metadata.runnerd.subject":  {Workflow: "chat", Inputs: prompt, Metadata: []byte(`{"runnerd.subject":"acme/bob"}`)},
		"configurable.runTimeoutMs": {Workflow: "chat", Inputs: prompt, Configurable: []byte(`{"runTimeoutMs":0}`)},
	} {
		q.Subject = ann
		_, err := runs.Create(t.Context(), q)
		if f, ok := errors.AsType[*wire.FieldError](err); !ok || f.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
	if _, err := runs.Create(t.Context(), run.CreateRequest{Subject: ann, Workflow: "none"}); !errors.Is(err, run.ErrNoWorkflow) {
		t.Errorf("got %v", err)
	}
	err := s.View(t.Context(), func(r store.Reader) error {
		for row := range r.Runs("acme", ann, time.Now().Add(time.Hour), 10) {
			t.Errorf("a refused request left run %s", row.ID)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestARunIsThereOnceOrNotAtAll(t *testing.T) {
	s, b := open(t)
	runs, _ := gateway(t, s, b)
	q := run.CreateRequest{Subject: ann, Workflow: "chat", Inputs: []byte(`{"prompt":"hi"}`), ID: "run_1"}
	undo := errors.New("the idempotency record could not be written")
	err := s.Update(t.Context(), func(tx store.Tx) error {
		if _, err := runs.CreateTx(tx, q); err != nil {
			return err
		}
		return undo
	})
	if !errors.Is(err, undo) {
		t.Fatal(err)
	}
	if _, err := runs.View(t.Context(), "acme", "run_1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	var row store.Run
	if err := s.Update(t.Context(), func(tx store.Tx) (err error) { row, err = runs.CreateTx(tx, q); return err }); err != nil {
		t.Fatal(err)
	}
	v, err := runs.View(t.Context(), "acme", "run_1")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(v.Row, row); d != "" {
		t.Errorf("what was returned is not what is there: %s", d)
	}
	if _, err := runs.Create(t.Context(), q); !errors.Is(err, store.ErrConflict) {
		t.Errorf("created twice: %v", err)
	}
}

func TestTheOwnerIsTheSubject(t *testing.T) {
	s, b := open(t)
	runs, _ := gateway(t, s, b)
	subject, err := store.NewSubject("acme", "lab", "ann")
	if err != nil {
		t.Fatal(err)
	}
	row, err := runs.Create(t.Context(), run.CreateRequest{Subject: subject, Workflow: "chat", Inputs: []byte(`{"prompt":"hi"}`)})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := runs.Snapshot(t.Context(), row.Tenant, row.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&engine.Owner{Tenant: "acme", Workspace: "lab", Principal: "ann"}, doc.Owner); d != "" {
		t.Error(d)
	}
}

// Two gateways on one store: what one remembers never stands in the way of what the other wrote.
func TestMemoryNeverOutlivesTheRow(t *testing.T) {
	s, b := open(t)
	first, _ := gateway(t, s, b)
	second, _ := gateway(t, s, b)
	row := chat(t, first)
	step := "chat:1:1"
	for i, by := range []*run.Service{second, first, second} {
		if i == 0 {
			if err := by.Apply(t.Context(), row.Tenant, row.ID, engine.StepPhase{StepID: step, Accepted: true}); err != nil {
				t.Fatal(err)
			}
		}
		if err := by.Apply(t.Context(), row.Tenant, row.ID, engine.Progress{StepID: step, N: int64(i + 1), Delta: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Apply(t.Context(), row.Tenant, row.ID, engine.Progress{StepID: step, N: 3, Delta: "again"}); err != nil {
		t.Fatal(err)
	}
	chunks := 0
	for i, ev := range docs(t, s, row) {
		if ev.Seq != int64(i) {
			t.Errorf("event %d has sequence %d", i, ev.Seq)
		}
		if ev.Type == engine.TypeOutputChunk {
			chunks++
		}
	}
	if chunks != 3 {
		t.Errorf("%d chunks", chunks)
	}
	third, _ := gateway(t, s, b) // knows nothing
	one, err := first.Snapshot(t.Context(), row.Tenant, row.ID)
	if err != nil {
		t.Fatal(err)
	}
	other, err := third.Snapshot(t.Context(), row.Tenant, row.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(one, other); d != "" {
		t.Error(d)
	}
}

// A transaction that fails leaves no memory of what it would have done.
func TestALostCommitIsForgotten(t *testing.T) {
	s, b := open(t)
	runs, d := gateway(t, s, b)
	row := chat(t, runs)
	undo := errors.New("undone")
	err := d.Update(t.Context(), func(tx *dispatch.Tx) error {
		if err := runs.Progress(tx, row.Tenant, row.ID, []wire.Progress{{StepRef: wire.StepRef{StepID: "chat:1:1"}, N: 1, Delta: "lost"}}); err != nil {
			return err
		}
		return undo
	})
	if !errors.Is(err, undo) {
		t.Fatal(err)
	}
	if err := runs.Apply(t.Context(), row.Tenant, row.ID, engine.Progress{StepID: "chat:1:1", N: 1, Delta: "kept"}); err != nil {
		t.Fatal(err)
	}
	all := docs(t, s, row)
	if last := string(all[len(all)-1].Doc); !strings.Contains(last, "kept") {
		t.Errorf("the log ends with %s", last)
	}
}

func TestWhatIsOverIsPassedOver(t *testing.T) {
	s, b := open(t)
	runs, _ := gateway(t, s, b)
	row := chat(t, runs)
	before := len(docs(t, s, row))
	stale := []engine.Input{engine.TimerFired{ID: "delay:none:1"}, engine.StepEnded{StepID: "other:1:1", Output: []byte(`{}`)}}
	if err := runs.Apply(t.Context(), row.Tenant, row.ID, stale...); err != nil || len(docs(t, s, row)) != before {
		t.Errorf("%v; %d events", err, len(docs(t, s, row)))
	}
	if got, err := runs.Cancel(t.Context(), row.Tenant, row.ID, "", "ann"); err != nil || got != "cancelled" {
		t.Errorf("%s, %v", got, err)
	}
	before = len(docs(t, s, row))
	if err := runs.Apply(t.Context(), row.Tenant, row.ID, engine.StepEnded{StepID: "chat:1:1", Output: []byte(`{}`)}); err != nil {
		t.Error(err)
	}
	if got := len(docs(t, s, row)); got != before {
		t.Errorf("%d events after the end", got-before)
	}
	if _, err := runs.Cancel(t.Context(), "rival", row.ID, "", "eve"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another tenant's cancel: %v", err)
	}
}

// A log that cannot be gone on from fails its run, and the input counts as taken: the runner's channel goes on.
func TestABrokenLogEndsItsRunOnly(t *testing.T) {
	s, b := open(t)
	runs, _ := gateway(t, s, b)
	row := chat(t, runs)
	v, err := runs.View(t.Context(), row.Tenant, row.ID)
	if err != nil {
		t.Fatal(err)
	}
	next := v.Row.LastSeq + 1
	doc, err := json.Marshal(engine.Event{EventID: "x", RunID: string(row.ID), Type: engine.TypeNodeCompleted, Sequence: next, NodeID: "nobody", Payload: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(t.Context(), func(tx store.Tx) error {
		return tx.Append(row.Tenant, row.ID, "running", time.Now().UTC(), []store.Event{{Seq: next, Type: engine.TypeNodeCompleted, Doc: doc}})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := runs.Apply(t.Context(), row.Tenant, row.ID, engine.StepEnded{StepID: "chat:1:1", Output: []byte(`{"text":"x"}`)}); err != nil {
		t.Errorf("the input was not taken: %v", err)
	}
	err = s.View(t.Context(), func(r store.Reader) error {
		now, err := r.Run(row.Tenant, row.ID)
		if err != nil {
			return err
		}
		step, err := r.Step(row.Tenant, row.ID, "chat:1:1")
		if now.Status != "failed" || step.State != store.StepCancelled {
			t.Errorf("run %s, step %s", now.Status, step.State)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	all := docs(t, s, row)
	if last := all[len(all)-1]; last.Type != engine.TypeRunFailed || !strings.Contains(string(last.Doc), "internal_error") || strings.Contains(string(last.Doc), "nobody") {
		t.Errorf("the log ends with %s", last.Doc)
	}
}

func TestABuiltinCannotBeShadowed(t *testing.T) {
	s, b := open(t)
	runs, _ := gateway(t, s, b)
	err := s.Update(context.Background(), func(tx store.Tx) error {
		return tx.PutWorkflow(store.Workflow{Tenant: "acme", ID: "chat", Doc: []byte(`{}`), Updated: time.Now().UTC()})
	})
	if err != nil {
		t.Fatal(err)
	}
	chat(t, runs)
	if !runs.IsBuiltin("chat") || runs.IsBuiltin("other") {
		t.Error("built-in workflows are not told apart")
	}
}
