package codexcli_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/e2e/vendor"
	"runnerd/internal/redact"
	"runnerd/internal/testdep"
	"runnerd/internal/wire"
	"runnerd/runner/provider"
	"runnerd/runner/provider/codexcli"
	"runnerd/runner/provider/failure"
	"runnerd/runner/provider/vendorcli"
)

func backend(t *testing.T, api *vendor.Server, key string) codexcli.Backend {
	t.Helper()
	table, err := failure.Load()
	if err != nil {
		t.Fatal(err)
	}
	return codexcli.Backend{Config: vendorcli.Config{
		Backend: codexcli.Name, Program: "codex", Path: testdep.CLI(t, "codex"), BaseURL: api.URL + "/v1", Failures: table,
		Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "ANTHROPIC_API_KEY=not-for-this-child"},
		Key:     func(context.Context) (redact.Secret, error) { return redact.New(key), nil },
	}}
}

func step(t *testing.T, prompt string) provider.Step {
	return provider.Step{Model: "fake-large", Dir: t.TempDir(), Inputs: wire.ModelInputs{
		System: "Be brief.", Messages: []wire.Message{{Role: "user", Content: wire.Text(prompt)}},
	}}
}

func TestTheRealProgramAnswersWithItsToolsOff(t *testing.T) {
	api := vendor.New()
	t.Cleanup(api.Close)
	var deltas []string
	out := backend(t, api, "key-1").Run(t.Context(), step(t, "say hello big world"), func(d string) { deltas = append(deltas, d) })
	if out.Usage != nil {
		out.Usage.CostUSD = 0 // the program's own estimate
	}
	want := wire.Output{
		Text: "hello big world", FinishReason: "stop", Model: "fake-large", Backend: "codex-cli", AuthClass: wire.AuthAPIKey,
		Usage: &wire.Usage{InputTokens: 11, OutputTokens: 3}, Exit: &wire.Exit{},
	}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"hello big world"}, deltas); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	requests := api.Requests()
	if len(requests) != 1 {
		t.Fatalf("%d requests for one turn", len(requests))
	}
	var body struct {
		Tools        []struct{ Name string }
		Input        json.RawMessage
		Instructions string
	}
	if err := json.Unmarshal(requests[0].Body, &body); err != nil {
		t.Fatal(err)
	}
	for _, tool := range body.Tools {
		if tool.Name != "request_user_input" { // cannot act, and is refused outside its plan mode
			t.Errorf("the program offered its own tool %s", tool.Name)
		}
	}
	if !strings.Contains(string(body.Input)+body.Instructions, "Be brief.") || requests[0].Key != "key-1" {
		t.Errorf("instructions %q, key %q", body.Instructions, requests[0].Key)
	}
}

func TestEachFailureHasItsCodeAndCostsOneTurn(t *testing.T) {
	api := vendor.New()
	t.Cleanup(api.Close)
	b := backend(t, api, "key-1")
	for prompt, want := range map[string]wire.Code{
		"fail 401":     wire.CodeAuthRequired,
		"fail 402":     wire.CodeBillingRequired,
		"fail 429":     wire.CodeRateLimited,
		"fail 529":     wire.CodeProviderError,
		"say a b\ncut": wire.CodeProviderError,
	} {
		t.Run(prompt, func(t *testing.T) {
			t.Parallel()
			out := b.Run(t.Context(), step(t, prompt), func(string) {})
			if out.Error == nil || out.Error.Code != want {
				t.Errorf("%+v, want %s", out.Error, want)
			}
			if n := api.Turns(prompt); n != 1 {
				t.Errorf("%d turns", n)
			}
		})
	}
}

func TestUD57_NotLoggedInIsToldApart(t *testing.T) {
	api := vendor.New()
	t.Cleanup(api.Close)
	b := backend(t, api, "")
	if out := b.Run(t.Context(), step(t, "say hi"), func(string) {}); out.Error == nil || out.Error.Code != wire.CodeAuthRequired {
		t.Errorf("%+v", out)
	}
	s := b.Probe(t.Context())
	if s.Ready || s.State != provider.NeedsLogin || !strings.Contains(s.Remedy, "codex login") || s.Version == "" {
		t.Errorf("%+v", s)
	}
}

func TestAStoredKeyMakesItReady(t *testing.T) {
	api := vendor.New()
	t.Cleanup(api.Close)
	if s := backend(t, api, "key-1").Probe(t.Context()); !s.Ready || s.AuthClass != wire.AuthAPIKey {
		t.Errorf("%+v", s)
	}
}

func TestCancelEndsTheProgramInTheMiddle(t *testing.T) {
	api := vendor.New()
	t.Cleanup(api.Close)
	ctx, cancel := context.WithCancelCause(t.Context())
	const prompt = "say a b c d e f g h\nslow 5000"
	go func() {
		for api.Turns(prompt) == 0 && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		cancel(provider.ErrCancelled)
	}()
	begin := time.Now()
	out := backend(t, api, "key-1").Run(ctx, step(t, prompt), func(string) {})
	if out.Error == nil || out.Error.Code != wire.CodeCancelled || time.Since(begin) > 15*time.Second {
		t.Errorf("%+v after %v", out, time.Since(begin))
	}
}

func TestUD41_AnAnswerThatStopsInTheMiddleIsAStall(t *testing.T) {
	api := vendor.New()
	t.Cleanup(api.Close)
	b := backend(t, api, "key-1")
	b.Config.Stall = 3 * time.Second
	if out := b.Run(t.Context(), step(t, "say a b\nhang"), func(string) {}); out.Error == nil || out.Error.Code != wire.CodeCLIStalled {
		t.Errorf("%+v", out)
	}
}

func TestUD47_AMissingProgramIsNotASpawnFailure(t *testing.T) {
	api := vendor.New()
	t.Cleanup(api.Close)
	b := backend(t, api, "key-1")
	b.Config.Path = "/nowhere/codex"
	if out := b.Run(t.Context(), step(t, "say hi"), func(string) {}); out.Error == nil || out.Error.Code != wire.CodeCLINotFound {
		t.Errorf("%+v", out.Error)
	}
	if s := b.Probe(t.Context()); s.Ready || s.State != provider.NotInstalled {
		t.Errorf("%+v", s)
	}
}

func TestALockedStoreStopsBeforeTheProgram(t *testing.T) {
	api := vendor.New()
	t.Cleanup(api.Close)
	b := backend(t, api, "")
	b.Config.Key = func(context.Context) (redact.Secret, error) { return redact.Secret{}, errors.New("locked") }
	if out := b.Run(t.Context(), step(t, "say hi"), func(string) {}); out.Error == nil || out.Error.Code != wire.CodeCredentialLocked || len(api.Requests()) != 0 {
		t.Errorf("%+v", out.Error)
	}
}

func TestUD46_AHugePromptGoesByStandardInput(t *testing.T) {
	api := vendor.New()
	t.Cleanup(api.Close)
	prompt := "say done\n" + strings.Repeat("filler ", 30_000)
	if out := backend(t, api, "key-1").Run(t.Context(), step(t, prompt), func(string) {}); out.Error != nil || out.Text != "done" {
		t.Errorf("%+v", out)
	}
}
