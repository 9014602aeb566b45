package runner_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runnerd/internal/redact"
	"runnerd/internal/wire"
	"runnerd/runner"
	"runnerd/runner/provider"
)

func TestWhateverIsReadIsMaskedFromThenOn(t *testing.T) {
	mask := &redact.Set{}
	s := newStore()
	v := runner.NewVault(s, mask)
	if _, err := v.Get(t.Context(), "runner.bearer"); err != nil {
		t.Fatal(err)
	}
	if err := v.Set(t.Context(), "openai", redact.New("a-key-of-openai-123")); err != nil {
		t.Fatal(err)
	}
	if got := mask.String("x bearer-0-of-the-runner a-key-of-openai-123 y"); strings.Contains(got, "of-the") || strings.Contains(got, "123") {
		t.Errorf("text: %s", got)
	}
	if got := mask.String("refresh-0-of-the-runner"); got != "refresh-0-of-the-runner" {
		t.Errorf("masked before anything knew it: %s", got)
	}
	if err := v.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := mask.String("refresh-0-of-the-runner"); strings.Contains(got, "of-the") {
		t.Errorf("after a look at the whole store: %s", got)
	}
	for i := range 20 { // rotation forgets the oldest, so that nothing grows
		if err := v.Set(t.Context(), "runner.bearer", redact.New("bearer-number-"+string(rune('a'+i))+"-xyz")); err != nil {
			t.Fatal(err)
		}
	}
	if got := mask.String("bearer-number-t-xyz bearer-number-s-xyz"); strings.Contains(got, "number") {
		t.Errorf("newest: %s", got)
	}
	if got := mask.String("bearer-number-b-xyz"); !strings.Contains(got, "number") {
		t.Errorf("oldest: %s", got)
	}
}

// A keychain that waits for a person holds up no step that needs nothing of it, and says so once.
func TestLockedStoreHoldsUpNoStep(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.store.lock(errors.New("credential store is locked"))
		time.Sleep(2 * time.Minute)
		begun := time.Now()
		w.gateway.offer("s")
		w.becomes("s", "done")
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// What an endpoint echoes is masked in the progress and in the result, also when the key was stored after the start.
func TestEchoedKeyLeavesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		const key = "sk-live-0123456789-abcdefghij"
		w.backend.run = func(_ context.Context, _ provider.Step, progress func(string)) wire.Output {
			for i := range len(key) {
				progress(key[i : i+1])
			}
			time.Sleep(time.Second)
			return wire.Output{Text: "your key is " + key, Error: &wire.StepError{Code: wire.CodeProviderError, Message: "bad key " + key}}
		}
		w.start()
		if err := w.store.Set(w.Context(), "openai", redact.New(key)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		w.gateway.offer("s")
		s := w.becomes("s", "done")
		synctest.Wait()
		if strings.Contains(string(s.result), "0123456789") || strings.Contains(s.text, "0123456789") {
			t.Errorf("result %s, progress %q", s.result, s.text)
		}
	})
}
