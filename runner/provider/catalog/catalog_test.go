package catalog_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/e2e/vendor"
	"runnerd/internal/redact"
	"runnerd/runner/provider"
	"runnerd/runner/provider/catalog"
)

func open(t *testing.T, change func(*catalog.Config)) *catalog.Catalog {
	t.Helper()
	cfg := catalog.Config{
		File: filepath.Join(t.TempDir(), "providers.json"), Environ: []string{"PATH=/nowhere"}, Client: &http.Client{}, Ollama: "-",
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Key: func(context.Context, string) (redact.Secret, error) { return redact.Secret{}, nil },
	}
	if change != nil {
		change(&cfg)
	}
	c, err := catalog.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func states(found []catalog.Found) map[string]string {
	m := map[string]string{}
	for _, f := range found {
		m[f.Entry.Name] = f.Status.State
	}
	return m
}

func TestEchoIsThereWhenNothingElseIs(t *testing.T) {
	c := open(t, nil)
	if diff := cmp.Diff(map[string]string{"echo": "ready"}, states(c.Probe(t.Context()))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, _, ok := c.Backend("echo"); !ok {
		t.Error("echo has no backend")
	}
}

func TestWhatIsThereByItselfIsFound(t *testing.T) {
	api := vendor.New()
	t.Cleanup(api.Close)
	c := open(t, func(cfg *catalog.Config) { cfg.Ollama = api.URL + "/v1" })
	if diff := cmp.Diff(map[string]string{"ollama": "ready"}, states(c.Probe(t.Context()))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := c.Disable("ollama"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"ollama": "disabled", "echo": "ready"}, states(c.Probe(t.Context()))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := c.Disable("nobody"); !errors.Is(err, catalog.ErrUnknown) {
		t.Errorf("err = %v", err)
	}
}

func TestUD64_ASubscriptionIsOffUntilItsTermsAreConfirmed(t *testing.T) {
	c := open(t, nil)
	e := catalog.Entry{Name: "anthropic", Backend: "claude-cli"}
	if err := c.Enable(e); !errors.Is(err, catalog.ErrTerms) {
		t.Errorf("err = %v, want ErrTerms", err)
	}
	if len(c.Entries()) != 0 {
		t.Errorf("stored all the same: %+v", c.Entries())
	}
	e.TermsAccepted = true
	if err := c.Enable(e); err != nil {
		t.Fatal(err)
	}
	if got := c.Entries(); len(got) != 1 || got[0].StepsAtOnce() != 1 {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(map[string]string{"anthropic": "not_installed", "echo": "ready"}, states(c.Probe(t.Context()))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, _, ok := c.Backend("anthropic"); ok {
		t.Error("a provider that is not ready has a backend")
	}
}

func TestWrongEntriesAreRefusedNamingTheField(t *testing.T) {
	c := open(t, nil)
	for want, e := range map[string]catalog.Entry{
		"name":     {Name: "a b", Backend: "echo"},
		"backend":  {Name: "a", Backend: "magic"},
		"base-url": {Name: "a", Backend: "openai-compatible"},
		"a user":   {Name: "a", Backend: "openai-compatible", BaseURL: "http://me:pw@h/v1"},
		"path":     {Name: "a", Backend: "claude-cli", TermsAccepted: true, Path: "claude"},
		"lanes":    {Name: "a", Backend: "echo", Lanes: -1},
	} {
		if err := c.Enable(e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: err = %v, want one that names %s", e, err, want)
		}
	}
}

func TestADamagedFileIsAnErrorAndStaysAsItIs(t *testing.T) {
	for _, text := range []string{"{", `{"version":2}`, `{"version":1,"providers":[{"name":"x","backend":"magic"}]}`, `{"version":1,"key":"x"}`} {
		file := filepath.Join(t.TempDir(), "providers.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := catalog.Open(catalog.Config{File: file}); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: err = %v", text, err)
		}
		if b, err := os.ReadFile(file); err != nil || string(b) != text {
			t.Errorf("file is now %q (%v)", b, err)
		}
	}
}

func TestUD45_OneProviderThatHangsHidesNoOther(t *testing.T) {
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hang.Close)
	api := vendor.New()
	t.Cleanup(api.Close)
	c := open(t, nil)
	for name, url := range map[string]string{"slow": hang.URL, "good": api.URL + "/v1"} {
		if err := c.Enable(catalog.Entry{Name: name, Backend: "openai-compatible", BaseURL: url}); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	if diff := cmp.Diff(map[string]string{"slow": provider.Unreachable, "good": "ready"}, states(c.Probe(t.Context()))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if took := time.Since(begin); took > 12*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestAnotherProcessesChangeIsSeen(t *testing.T) {
	var file string
	a := open(t, func(cfg *catalog.Config) { file = cfg.File })
	b := open(t, func(cfg *catalog.Config) { cfg.File = file })
	if err := b.Enable(catalog.Entry{Name: "mine", Backend: "echo"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"mine": "ready"}, states(a.Probe(t.Context()))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
