package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runnerd/internal/wire"
	"runnerd/runner/provider"
	"runnerd/runner/step"
)

// raw hands out bytes as a frame.
func (w *world) raw(step string, change func(m map[string]any)) *gstep {
	w.Helper()
	w.gateway.mu.Lock()
	defer w.gateway.mu.Unlock()
	w.gateway.cursor++
	ref := wire.StepRef{RunID: "run_1", StepID: step, Seq: w.gateway.cursor}
	m := map[string]any{"runId": "run_1", "stepId": step, "seq": ref.Seq, "kind": "model", "provider": "fake", "model": "m",
		"inputs": map[string]any{"messages": []any{map[string]any{"role": "user", "content": "hello"}}}}
	change(m)
	b, err := json.Marshal(m)
	if err != nil {
		w.Fatal(err)
	}
	return w.gateway.put(ref, b)
}

func TestH05BrokenFramesAreRefusedAndNotRun(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m map[string]any)
		code   wire.Code
		says   string
	}{
		"unknown kind":           {func(m map[string]any) { m["kind"] = "shell" }, wire.CodeInvalidInput, "kind"},
		"extra field":            {func(m map[string]any) { m["credential"] = "x" }, wire.CodeInvalidInput, "credential"},
		"missing provider":       {func(m map[string]any) { delete(m, "provider") }, wire.CodeInvalidInput, "provider"},
		"missing inputs":         {func(m map[string]any) { delete(m, "inputs") }, wire.CodeInvalidInput, "inputs"},
		"inputs is a list":       {func(m map[string]any) { m["inputs"] = []any{} }, wire.CodeInvalidInput, "inputs"},
		"tool not allowed":       {func(m map[string]any) { m["kind"], m["tool"] = "tool", "shell.run" }, wire.CodePolicyDenied, "shell.run"},
		"provider not here":      {func(m map[string]any) { m["provider"] = "openai" }, wire.CodeInvalidInput, "openai"},
		"inputs of another kind": {func(m map[string]any) { m["inputs"] = map[string]any{"command": "ls"} }, wire.CodeInvalidInput, "command"},
		"oversized":              {func(m map[string]any) { m["inputs"] = map[string]any{"x": strings.Repeat("x", wire.MaxFrame)} }, wire.CodeFrameTooLarge, "frame"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.start()
				w.raw("bad", c.change)
				s := w.becomes("bad", "refused")
				if s.refusal.Code != c.code || !strings.Contains(s.refusal.Message, c.says) {
					t.Errorf("refused with %s %q, want %s with %q", s.refusal.Code, s.refusal.Message, c.code, c.says)
				}
				w.gateway.offer("good")
				w.becomes("good", "done")
				w.pipe.reset() // the cursor went past the refused frame
				time.Sleep(5 * time.Second)
				if last := w.gateway.lastID(); last != "2" || w.backend.ran("bad") != 0 {
					t.Errorf("cursor %v, %d turns", last, w.backend.ran("bad"))
				}
			})
		})
	}
}

func TestH05CursorThatJumpsOrGoesBackIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		for i := range 5 {
			w.gateway.offer(fmt.Sprint("s", i))
			w.becomes(fmt.Sprint("s", i), "done")
		}
		frame := func(step string, seq int64) {
			w.gateway.with(func() {
				ref := wire.StepRef{RunID: "run_1", StepID: step, Seq: seq}
				b, err := json.Marshal(wire.Dispatch{RunID: "run_1", StepID: step, Seq: seq, Kind: "model", Provider: "fake", Model: "m",
					Inputs: json.RawMessage(`{"messages":[{"role":"user","content":"x"}]}`)})
				if err != nil {
					t.Error(err)
				}
				w.gateway.put(ref, b)
			})
		}
		w.streamOf(func(rw http.ResponseWriter, r *http.Request, flush func()) { // sends whatever is offered, cursor or not
			for r.Context().Err() == nil {
				w.gateway.mu.Lock()
				for _, s := range w.gateway.steps {
					if s.state == "offered" {
						fmt.Fprintf(rw, "id: %d\nevent: dispatch\ndata: %s\n\n", s.ref.Seq, s.frame)
					}
				}
				w.gateway.mu.Unlock()
				flush()
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
				}
			}
		})
		w.pipe.reset()
		time.Sleep(3 * time.Second)
		frame("back", 3)
		if s := w.becomes("back", "refused"); s.refusal.Code != wire.CodeBusy {
			t.Errorf("going back: %+v", s.refusal)
		}
		frame("jump", 1_000_000_000_000)
		if s := w.becomes("jump", "refused"); s.refusal.Code != wire.CodeInvalidInput || !strings.Contains(s.refusal.Message, "seq") {
			t.Errorf("jump: %+v", s.refusal)
		}
		frame("next", 6) // the jump was not followed
		w.becomes("next", "done")
		if w.backend.ran("back")+w.backend.ran("jump") != 0 {
			t.Error("a refused frame was run")
		}
		if r := w.lastReport(); r.Cursor > 6 {
			t.Errorf("cursor %d", r.Cursor)
		}
	})
}

func TestH05SameStepWithOtherInputsIsNotRun(t *testing.T) {
	inWorld(t, func(w *world) {
		release := make(chan struct{})
		w.backend.run = blockUntil(release)
		w.start()
		w.gateway.offer("s")
		w.becomes("s", "accepted")
		other := func(d *wire.Dispatch) { d.Inputs = json.RawMessage(`{"messages":[{"role":"user","content":"rm"}]}`) }
		w.gateway.offer("s", other)
		if s := w.becomes("s", "refused"); s.refusal.Code != wire.CodeInvalidInput {
			t.Errorf("while it runs: %+v", s.refusal)
		}
		close(release)
		w.until("finished", func() bool { return len(w.runner.Status().Steps) == 0 })
		w.gateway.offer("s", other)
		if s := w.becomes("s", "refused"); s.refusal.Code != wire.CodeInvalidInput {
			t.Errorf("after it ran: %+v", s.refusal)
		}
		if n := w.backend.ran("s"); n != 1 {
			t.Errorf("%d turns", n)
		}
	})
}

func TestH06FloodOfFramesIsHeldBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.backend.run = blockUntil(nil)
		w.start()
		begun := time.Now()
		w.gateway.with(func() {
			for i := range 5000 {
				w.gateway.cursor++
				ref := wire.StepRef{RunID: "run_1", StepID: fmt.Sprint("s", i), Seq: w.gateway.cursor}
				b, err := json.Marshal(wire.Dispatch{RunID: ref.RunID, StepID: ref.StepID, Seq: ref.Seq, Kind: "model", Provider: "fake", Model: "m",
					Inputs: json.RawMessage(`{"messages":[{"role":"user","content":"x"}]}`)})
				if err != nil {
					t.Error(err)
				}
				w.gateway.put(ref, b)
			}
		})
		count := func(state string) (n int) {
			w.gateway.mu.Lock()
			defer w.gateway.mu.Unlock()
			for _, s := range w.gateway.steps {
				if s.state == state {
					n++
				}
			}
			return n
		}
		w.within(time.Hour, "all were answered", func() bool {
			return count("refused")+count("accepted") == 5000
		}, func() string {
			return fmt.Sprint("offered ", count("offered"), " accepted ", count("accepted"), " refused ", count("refused"))
		})
		if n := count("accepted"); n != wire.DefaultMaxStep {
			t.Errorf("%d steps were taken, want %d", n, wire.DefaultMaxStep)
		}
		if took := time.Since(begun); took > 5*time.Minute {
			t.Errorf("took %v", took)
		}
		w.gateway.with(func() {
			for _, s := range w.gateway.steps {
				if s.state == "accepted" {
					s.state = "cancelled"
				}
			}
		})
	})
}

func TestH07FinishedStepIsAnsweredAndNotRunAgain(t *testing.T) {
	t.Run("from the outbox", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.answer(http.MethodPost, "/results", portal)
			w.start()
			w.gateway.offer("s")
			w.until("finished", func() bool { return w.runner.Status().Outbox.Pending == 1 })
			w.gateway.offer("s") // under seq 2
			w.becomes("s", "accepted")
			w.answer("", "", nil)
			if s := w.becomes("s", "done"); s.ref.Seq != 2 || text(t, s.result) != "done s" || w.backend.ran("s") != 1 {
				t.Errorf("%v: %s after %d turns", s.ref, s.result, w.backend.ran("s"))
			}
		})
	})
	t.Run("from the journal", func(t *testing.T) {
		inWorld(t, func(w *world) {
			w.start()
			w.gateway.offer("s")
			w.becomes("s", "done")
			w.until("settled", func() bool { return len(w.runner.Status().Steps) == 0 })
			for range 2 {
				w.gateway.offer("s")
				if s := w.becomes("s", "done"); code(t, s.result) != wire.CodeOutcomeUnknown || w.backend.ran("s") != 1 {
					t.Errorf("%v: %s after %d turns", s.ref, s.result, w.backend.ran("s"))
				}
				w.until("settled", func() bool { return len(w.runner.Status().Steps) == 0 })
				w.halt() // the memory is on the disk
				w.start()
			}
		})
	})
	t.Run("while it runs", func(t *testing.T) {
		inWorld(t, func(w *world) {
			release := make(chan struct{})
			w.backend.run = blockUntil(release)
			w.start()
			first := w.gateway.offer("s").ref
			w.becomes("s", "accepted")
			w.gateway.offer("s")
			time.Sleep(time.Minute)
			if s := w.gateway.view("s"); s.state != "offered" || w.backend.ran("s") != 1 {
				t.Errorf("the second offer is %s after %d turns", s.state, w.backend.ran("s"))
			}
			close(release)
			w.until("finished", func() bool { return get(w.gateway, func() bool { return len(w.gateway.posted) > 0 }) })
			if got := get(w.gateway, func() wire.StepRef { return w.gateway.posted[0].Ref() }); got != first {
				t.Errorf("posted for %v, want %v", got, first)
			}
		})
	})
}

func TestH08InputsAreDataAllTheWay(t *testing.T) {
	texts := []string{"--config=/etc/shadow", "\x1b]52;c;aGk=\x07\x1b[2J", "../../etc/passwd", "$(reboot) `id` ; rm -rf /", "\u202egnp.exe"}
	inWorld(t, func(w *world) {
		var got []string
		w.backend.run = func(_ context.Context, s provider.Step, _ func(string)) wire.Output {
			text := s.Inputs.Messages[0].Content.String()
			got = append(got, text)
			return wire.Output{Text: "you said: " + text}
		}
		w.start()
		for i, text := range texts {
			in, err := json.Marshal(wire.ModelInputs{Messages: []wire.Message{{Role: "user", Content: wire.Text(text)}}})
			if err != nil {
				t.Fatal(err)
			}
			id := "../" + fmt.Sprint(i) + "/--help" // ids are the gateway's, and as little to be trusted
			w.gateway.offer(id, func(d *wire.Dispatch) { d.Inputs = in })
			s := w.becomes(id, "done")
			if got[i] != text {
				t.Errorf("the backend got %q, want %q", got[i], text)
			}
			if strings.ContainsAny(string(s.result), "\x1b\x07") || strings.Contains(string(s.result), `\u001b`) {
				t.Errorf("the result has control characters: %q", s.result)
			}
		}
	})
}

// A gateway asks for what policy forbids, whatever was registered (faults I13).
func TestProviderThatWentAwayIsNotUsed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.backend.mu.Lock()
		w.backend.probe = func(context.Context) []step.Provider {
			p := w.backend.ready("fake")
			p.State, p.Remedy = provider.NeedsLogin, "run `fake login`"
			return []step.Provider{p}
		}
		w.backend.mu.Unlock()
		if err := w.runner.Reload(w.Context()); err != nil {
			t.Fatal(err)
		}
		w.until("the gateway knows", func() bool {
			r := w.lastReport()
			return r.Inventory != nil && r.Inventory.Providers["fake"].State == provider.NeedsLogin
		})
		w.gateway.offer("s")
		if s := w.becomes("s", "refused"); s.refusal.Code != wire.CodeAuthRequired || !strings.Contains(s.refusal.Message, "fake login") {
			t.Errorf("refused with %+v", s.refusal)
		}
	})
}

func TestNewProviderWidensTheRecord(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.backend.mu.Lock()
		w.backend.probe = func(context.Context) []step.Provider {
			return []step.Provider{w.backend.ready("fake"), w.backend.ready("new")}
		}
		w.backend.mu.Unlock()
		if err := w.runner.Reload(w.Context()); err != nil {
			t.Fatal(err)
		}
		w.until("registered", func() bool {
			w.gateway.mu.Lock()
			defer w.gateway.mu.Unlock()
			return strings.Join(w.gateway.registered[len(w.gateway.registered)-1].Capabilities.Providers, " ") == "fake new"
		})
		synctest.Wait()
		w.gateway.offer("s", func(d *wire.Dispatch) { d.Provider = "new" })
		w.becomes("s", "done")
	})
}

func TestPlainHostIsServedWithoutPermits(t *testing.T) {
	inWorld(t, func(w *world) {
		w.gateway.with(func() { w.gateway.plain = true })
		w.start()
		if st := w.runner.Status(); st.Link.Mode != "plain" {
			t.Errorf("mode %q", st.Link.Mode)
		}
		w.gateway.offer("s")
		if s := w.becomes("s", "done"); text(t, s.result) != "done s" || w.backend.ran("s") != 1 {
			t.Errorf("%s after %d turns", s.result, w.backend.ran("s"))
		}
		w.gateway.offer("bad", func(d *wire.Dispatch) { d.Provider = "nobody" }) // a refusal comes as a result
		if s := w.becomes("bad", "done"); code(t, s.result) != wire.CodeInvalidInput {
			t.Errorf("%s", s.result)
		}
		w.gateway.offer("s") // again, under another seq
		if s := w.becomes("s", "done"); code(t, s.result) != wire.CodeOutcomeUnknown || w.backend.ran("s") != 1 {
			t.Errorf("%s after %d turns", s.result, w.backend.ran("s"))
		}
		w.pipe.reset()
		time.Sleep(3 * time.Second)
		w.gateway.offer("t")
		w.becomes("t", "done")
	})
}
