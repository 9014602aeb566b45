package journal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/internal/wire"
	"runnerd/runner/journal"
)

func frame(step string, seq int64) (wire.Dispatch, []byte) {
	d := wire.Dispatch{RunID: "run_1", StepID: step, Seq: seq, Kind: wire.KindModel, Provider: "echo", Model: "echo",
		Inputs: json.RawMessage(fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]}`, step))}
	b, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	return d, b
}

// opener opens journals one after the other in a folder of their own.
type opener struct {
	t   testing.TB
	dir string
}

func newOpener(t testing.TB) opener { return opener{t, filepath.Join(t.TempDir(), "data")} }

func (o opener) open(opts journal.Options) *journal.Journal {
	o.t.Helper()
	j, err := journal.Open(o.dir, opts)
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { j.Close() })
	return j
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func accept(t testing.TB, j *journal.Journal, step string, seq int64) wire.StepRef {
	t.Helper()
	d, b := frame(step, seq)
	must(t, j.Accept(d, b, seq))
	return d.Ref()
}

func phases(j *journal.Journal) map[string]string {
	m := map[string]string{}
	for _, s := range j.Held() {
		m[s.StepID] = s.Phase.String()
	}
	return m
}

func TestStepLivesThroughAReopenAtEveryPhase(t *testing.T) {
	o := newOpener(t)
	j := o.open(journal.Options{})
	id := j.ID()
	must(t, j.SetCursor(0)) // the gateway's was adopted
	accept(t, j, "accepted", 1)
	started := accept(t, j, "started", 2)
	must(t, j.Start(started))
	finished := accept(t, j, "finished", 3)
	must(t, j.Start(finished))
	must(t, j.Finish(finished, journal.Hash{}, []byte(`{"text":"done"}`)))
	settled := accept(t, j, "settled", 4)
	must(t, j.Start(settled))
	must(t, j.Finish(settled, journal.Hash{}, []byte(`{}`)))
	must(t, j.Ack(settled, wire.VerdictAccepted))
	must(t, j.Drop(accept(t, j, "dropped", 5)))
	must(t, j.Close())

	j = o.open(journal.Options{})
	if j.ID() != id {
		t.Errorf("id changed from %s to %s", id, j.ID())
	}
	want := map[string]string{"accepted": "accepted", "started": "finished", "finished": "finished"}
	if diff := cmp.Diff(want, phases(j)); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	if out, err := j.Output(finished); err != nil || string(out) != `{"text":"done"}` {
		t.Errorf("output = %s, %v", out, err)
	}
	out, err := j.Output(started)
	if err != nil || wire.Failure(out).Code != wire.CodeOutcomeUnknown {
		t.Errorf("the started step's output = %s, %v, want outcome_unknown", out, err)
	}
	d, b := frame("accepted", 1)
	if got, err := j.Frame(d.Ref()); err != nil || string(got) != string(b) {
		t.Errorf("frame = %s, %v", got, err)
	}
	if s := j.Find("run_1", "settled"); s.Phase != journal.Settled || s.Seq != 4 {
		t.Errorf("settled step is %v under %d", s.Phase, s.Seq)
	}
	if s := j.Find("run_1", "dropped"); s.Phase != journal.None {
		t.Errorf("dropped step is %v", s.Phase)
	}
	if cursor, unsure := j.Cursor(); cursor != 5 || unsure {
		t.Errorf("cursor = %d, unsure %v, want 5 and sure", cursor, unsure)
	}
}

func TestNothingLeadsToASecondStart(t *testing.T) {
	j := newOpener(t).open(journal.Options{})
	ref := accept(t, j, "s", 1)
	d, b := frame("s", 2)
	must(t, j.Start(ref))
	for name, err := range map[string]error{
		"start again":          j.Start(ref),
		"start under seq 2":    j.Start(d.Ref()),
		"accept under seq 2":   j.Accept(d, b, 2),
		"drop":                 j.Drop(ref),
		"ack before a result":  j.Ack(ref, wire.VerdictAccepted),
		"finish under seq 2":   j.Finish(d.Ref(), journal.Hash{}, []byte(`{}`)),
		"start what is not it": j.Start(wire.StepRef{RunID: "run_1", StepID: "other", Seq: 1}),
	} {
		if !errors.Is(err, journal.ErrWrongPhase) {
			t.Errorf("%s: %v, want ErrWrongPhase", name, err)
		}
	}
	must(t, j.Finish(ref, journal.Hash{}, []byte(`{}`)))
	must(t, j.Ack(ref, wire.VerdictAccepted))
	if err := j.Accept(d, b, 2); !errors.Is(err, journal.ErrWrongPhase) {
		t.Errorf("accept of a settled step: %v, want ErrWrongPhase", err)
	}
	must(t, j.Finish(d.Ref(), journal.HashOf(d), []byte(`{"error":{"code":"outcome_unknown"}}`))) // the answer to a repeat
}

func TestS12SecondProcessRefusesToStart(t *testing.T) {
	o := newOpener(t)
	j := o.open(journal.Options{})
	if _, err := journal.Open(o.dir, journal.Options{}); !errors.Is(err, journal.ErrInUse) {
		t.Fatalf("second Open: %v, want ErrInUse", err)
	}
	must(t, j.Close())
	o.open(journal.Options{})
}

func TestR18DeletedJournalHasANewIDAndIsUnsure(t *testing.T) {
	o := newOpener(t)
	j := o.open(journal.Options{})
	id := j.ID()
	accept(t, j, "s", 7)
	must(t, j.Close())
	must(t, os.Remove(filepath.Join(o.dir, "journal")))
	j = o.open(journal.Options{})
	if j.ID() == id {
		t.Error("a deleted journal came back under its old id")
	}
	if cursor, unsure := j.Cursor(); cursor != 0 || !unsure {
		t.Errorf("cursor = %d, unsure %v, want 0 and unsure", cursor, unsure)
	}
	must(t, j.Close()) // before the gateway's was adopted
	j = o.open(journal.Options{})
	if _, unsure := j.Cursor(); !unsure {
		t.Error("a journal that was never sure became so by a restart")
	}
	must(t, j.SetCursor(18))
	if cursor, unsure := j.Cursor(); cursor != 18 || unsure {
		t.Errorf("after adoption cursor = %d, unsure %v", cursor, unsure)
	}
	must(t, j.Close())
	j = o.open(journal.Options{})
	if cursor, unsure := j.Cursor(); cursor != 18 || unsure {
		t.Errorf("after adoption and a restart cursor = %d, unsure %v", cursor, unsure)
	}
}

func TestJournalOfAnotherOwnerIsSetAside(t *testing.T) {
	o := newOpener(t)
	j := o.open(journal.Options{Owner: "https://a rnr_1"})
	ref := accept(t, j, "s", 1)
	must(t, j.Finish(ref, journal.Hash{}, []byte(`{"text":"for a only"}`)))
	must(t, j.Close())
	j = o.open(journal.Options{Owner: "https://b rnr_2"})
	if held := j.Held(); len(held) != 0 {
		t.Errorf("b's journal holds a's %v", held)
	}
	kept, err := os.ReadFile(filepath.Join(o.dir, "journal.other"))
	if err != nil || !strings.Contains(string(kept), "for a only") {
		t.Errorf("a's journal was not kept: %v", err)
	}
}

func TestLogStaysShortAndForgetsOnlyWhatIsOver(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	o := newOpener(t)
	opts := journal.Options{Compact: 256 << 10, Now: func() time.Time { return now }}
	j := o.open(opts)
	old := accept(t, j, "old", 1)
	must(t, j.Finish(old, journal.Hash{}, []byte(`{}`)))
	must(t, j.Ack(old, wire.VerdictAccepted))
	now = now.Add(wire.JournalKept + time.Hour)
	kept := accept(t, j, "kept", 2)
	must(t, j.Finish(kept, journal.Hash{}, []byte(`{"text":"kept"}`)))
	for seq := int64(3); seq < 200; seq++ {
		ref := accept(t, j, fmt.Sprint("s", seq), seq)
		must(t, j.Start(ref))
		must(t, j.Finish(ref, journal.Hash{}, []byte(`{"text":"`+strings.Repeat("x", 50<<10)+`"}`)))
		must(t, j.Ack(ref, wire.VerdictAccepted))
	}
	info, err := os.Stat(filepath.Join(o.dir, "journal"))
	if err != nil || info.Size() > 4<<20 {
		t.Errorf("journal has %d bytes, %v", info.Size(), err)
	}
	if out, err := j.Output(kept); err != nil || string(out) != `{"text":"kept"}` {
		t.Errorf("result that waits = %s, %v", out, err)
	}
	must(t, j.Close())
	j = o.open(opts)
	if out, err := j.Output(kept); err != nil || string(out) != `{"text":"kept"}` {
		t.Errorf("after a reopen, result that waits = %s, %v", out, err)
	}
	if s := j.Find("run_1", "old"); s.Phase != journal.None {
		t.Errorf("a step past its 90 days is still %v", s.Phase)
	}
	if s := j.Find("run_1", "s100"); s.Phase != journal.Settled {
		t.Errorf("a settled step is %v", s.Phase)
	}
}

func TestConcurrentStepsShareSyncs(t *testing.T) {
	d := newDisk()
	j := newOpener(t).open(journal.Options{Disk: d})
	var refs []wire.StepRef
	for seq := int64(1); seq <= 32; seq++ {
		refs = append(refs, accept(t, j, fmt.Sprint("s", seq), seq))
	}
	before := d.syncs
	first, rest := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.duringSync = func() { once.Do(func() { close(first); <-rest }) }
	var wg sync.WaitGroup
	for _, ref := range refs[:1] {
		wg.Go(func() { must(t, j.Start(ref)) })
	}
	<-first
	for _, ref := range refs[1:] {
		wg.Go(func() { must(t, j.Start(ref)) })
	}
	for started := 0; started < len(refs); { // until all have written and wait
		started = 0
		for _, s := range j.Held() {
			if s.Phase == journal.Started {
				started++
			}
		}
	}
	close(rest)
	wg.Wait()
	if n := d.syncs - before; n != 2 {
		t.Errorf("32 starts took %d syncs, want 2: one, and one for all that came meanwhile", n)
	}
}
