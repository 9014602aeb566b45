package channel_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

func TestQuestionsAndAnswers(t *testing.T) {
	w := newWorld(t)
	r, st := w.online(w.subject("acme", "ann"))
	row := w.ask(r.subject, "")
	d := st.frame()
	r.accept(d)
	ask := func(rep *wire.Report) {
		rep.Asks = []wire.Ask{{StepRef: d.Ref(), ID: "ask-1", Tool: "shell.run", Title: "Run ls?", ExpiresMs: 600_000}}
	}
	if got := r.report(ask).Answers; got != nil {
		t.Errorf("answers %+v", got)
	}
	w.update(func(tx store.Tx) error {
		tx.Publish(store.RunnerTopic(store.RunnerID(r.id)))
		return tx.AnswerAsk(r.subject, "ask-1", "allow", at())
	})
	if got := st.control(); got != wire.ControlReport {
		t.Errorf("control %s", got)
	}
	for range 2 { // until the question is gone
		if diff := cmp.Diff([]wire.Answer{{ID: "ask-1", Answer: "allow"}}, r.report(ask).Answers); diff != "" {
			t.Error(diff)
		}
	}
	if v := r.post(output(d, "")); v != wire.VerdictAccepted {
		t.Fatal(v)
	}
	w.view(func(rd store.Reader) error {
		for a, err := range rd.Asks(row.Tenant, row.ID) {
			t.Errorf("the question outlived its step: %+v, %v", a, err)
		}
		return nil
	})
}

func TestAnEmptyInventoryIsAskedFor(t *testing.T) {
	w := newWorld(t)
	r, _ := w.online(w.subject("acme", "ann"))
	if got := r.report().Want; got != wire.WantInventory {
		t.Errorf("want %q", got)
	}
	r.has = &wire.Inventory{Providers: map[string]wire.Provider{"echo": {Models: []string{"echo-1"}}}}
	if got := r.report().Want; got != "" {
		t.Errorf("want %q", got)
	}
}
