package redact_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"runnerd/internal/redact"
)

const canary = "tk-FAKE-canary-4471-Zq"

func TestSecretPrintsAsAMaskHoweverItIsPrinted(t *testing.T) {
	type holder struct {
		Name   string
		Key    redact.Secret
		hidden redact.Secret
	}
	s := redact.New(canary)
	h := holder{"n", s, s}
	values := map[string]any{
		"value": s, "pointer": &s, "struct": h, "struct pointer": &h, "slice": []redact.Secret{s},
		"map": map[string]redact.Secret{"k": s}, "map key": map[redact.Secret]int{s: 1}, "interface": []any{s, h},
		"error": fmt.Errorf("with %v and %s", s, s),
	}
	for name, v := range values {
		t.Run(name, func(t *testing.T) {
			for verb := range strings.SplitSeq("v +v #v s q x X d o b c p T t e U", " ") {
				if got := fmt.Sprintf("%"+verb, v); leaks(got) {
					t.Errorf("%%%s gives %q", verb, got)
				}
			}
			if got, _ := json.Marshal(v); leaks(string(got)) {
				t.Errorf("JSON gives %s", got)
			}
			if got, _ := xml.Marshal(v); leaks(string(got)) {
				t.Errorf("XML gives %s", got)
			}
			for _, handler := range []func(*bytes.Buffer) slog.Handler{
				func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
				func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
			} {
				var out bytes.Buffer
				slog.New(handler(&out)).Info("m", "v", v)
				if leaks(out.String()) {
					t.Errorf("the log holds %s", out.String())
				}
			}
		})
	}
}

// leaks reports whether text holds the canary as text or as the hex that %x writes.
func leaks(text string) bool {
	lower := strings.ToLower(text)
	return strings.Contains(text, canary) || strings.Contains(lower, fmt.Sprintf("%x", canary))
}

func TestSecretGivesItsValueOnlyByReveal(t *testing.T) {
	if got := redact.New(canary).Reveal(); got != canary {
		t.Errorf("Reveal = %q, want the value", got)
	}
	if got := (redact.Secret{}).Reveal(); got != "" {
		t.Errorf("Reveal of the zero Secret = %q, want nothing", got)
	}
}

func TestSecretIsZeroWithoutAValue(t *testing.T) {
	for name, c := range map[string]struct {
		secret redact.Secret
		want   bool
	}{
		"the zero Secret": {redact.Secret{}, true},
		"an empty value":  {redact.New(""), true},
		"a value":         {redact.New("x"), false},
	} {
		if got := c.secret.IsZero(); got != c.want {
			t.Errorf("%s: IsZero = %v, want %v", name, got, c.want)
		}
	}
}

func TestSecretEqualComparesValues(t *testing.T) {
	if !redact.New("a").Equal(redact.New("a")) || redact.New("a").Equal(redact.New("b")) || redact.New("a").Equal(redact.Secret{}) {
		t.Error("Equal does not compare the values")
	}
}
