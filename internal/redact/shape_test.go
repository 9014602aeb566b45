package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"runnerd/internal/redact"
)

// tokens has one of each kind, in pieces so that no scanner of repositories takes them for real.
var tokens = map[string]string{
	"Anthropic":            "sk-" + "ant-api03-" + fake(40),
	"OpenAI project":       "sk-" + "proj-" + fake(48),
	"OpenAI service":       "sk-" + "svcacct-" + fake(48),
	"OpenAI":               "sk-" + fake(48),
	"OpenRouter":           "sk-" + "or-v1-" + strings.Repeat("0123456789abcdef", 4),
	"Google":               "AI" + "za" + fake(35),
	"Google access":        "ya" + "29." + fake(60),
	"Google client":        "GOC" + "SPX-" + fake(28),
	"Google refresh":       "1/" + "/0" + fake(50),
	"GitHub":               "gh" + "o_" + fake(36),
	"GitHub fine-grained":  "github" + "_pat_" + fake(60),
	"GitLab":               "glp" + "at-" + fake(20),
	"AWS":                  "ASI" + "AFAKEFAKEFAKE2345",
	"Slack":                "xox" + "p-1234567890-" + fake(24),
	"Slack app":            "xap" + "p-1-" + fake(30),
	"Stripe":               "sk" + "_live_" + fake(24),
	"Hugging Face":         "h" + "f_" + fake(34),
	"Groq":                 "gs" + "k_" + fake(52),
	"xAI":                  "xa" + "i-" + fake(80),
	"Perplexity":           "ppl" + "x-" + fake(48),
	"Replicate":            "r" + "8_" + fake(37),
	"NVIDIA":               "nva" + "pi-" + fake(64),
	"npm":                  "np" + "m_" + fake(36),
	"PyPI":                 "pypi" + "-AgEIcHlwaS5vcmc" + fake(60),
	"SendGrid":             "S" + "G." + fake(22) + "." + fake(43),
	"DigitalOcean":         "dop" + "_v1_" + strings.Repeat("0123456789abcdef", 4),
	"Linear":               "lin" + "_api_" + fake(40),
	"Notion":               "nt" + "n_" + fake(46),
	"Vault":                "hv" + "s." + fake(90),
	"Tailscale":            "tsk" + "ey-auth-" + fake(40),
	"age":                  "AGE-" + "SECRET-KEY-1" + strings.ToUpper(fake(58)),
	"JWT":                  "ey" + "JhbGciOiJIUzI1NiJ9" + ".ey" + "JzdWIiOiJmYWtlIn0." + fake(43),
	"ours, of a runner":    "ow" + "r_" + fake(43) + "-_" + fake(40),
	"ours, of a client":    "ow" + "k_" + fake(49),
	"ours, as in the case": "rn" + "r_" + fake(36),
	"a private key":        "-----BEGIN " + "EC PRIVATE KEY-----\nMHcCAQEEIFAKEfake\nFAKEfakeFAKE==\n-----END " + "EC PRIVATE KEY-----",
	"an encrypted key":     "-----BEGIN " + "RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,FAKE\n\nFAKEfakeFAKE==\n-----END " + "RSA PRIVATE KEY-----",
	"a PGP key":            "-----BEGIN " + "PGP PRIVATE KEY BLOCK-----\n\nlQOYBFAKEfakeFAKE\n=abcd\n-----END " + "PGP PRIVATE KEY BLOCK-----",
}

// fake gives n letters and digits that no vendor would give out.
func fake(n int) string { return strings.Repeat("FAKEfake0123456789", n/18+1)[:n] }

func TestTokensAreMaskedAndRefusedAtTheBorder(t *testing.T) {
	var set redact.Set
	for name, token := range tokens {
		t.Run(name, func(t *testing.T) {
			for _, c := range [][2]string{{"", ""}, {"key=", "\n"}, {"Bearer ", ","}, {`{"token":"`, `"}`}, {"(", ")."}} {
				if got, want := set.String(c[0]+token+c[1]), c[0]+"[REDACTED:pattern]"+c[1]; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
			frame, err := json.Marshal(map[string]any{"runId": "r", "output": map[string]string{"text": "a\n" + token + "\nb"}})
			if err != nil {
				t.Fatal(err)
			}
			if !redact.HasTokenShape(frame) {
				t.Errorf("the frame passes: %s", frame)
			}
			masked, err := set.JSON(frame)
			if err != nil || redact.HasTokenShape(masked) {
				t.Errorf("the masked frame is refused: %s, %v", masked, err)
			}
		})
	}
}

func TestOrdinaryTextIsNoToken(t *testing.T) {
	var set redact.Set
	for name, text := range map[string]string{
		"words with sk-":     "a risk-assessment-framework-for-everything-that-can-happen, task-oriented-dialogue-systems-2024",
		"a short one":        "sk-ant-xyz, ghp_short, AKIA1234, xoxb-, eyJ, hf_model, npm_config_registry, sk-...",
		"the word in a word": "SKAKIAFAKEFAKEFAKE2345X, myhf_" + fake(30),
		"identifiers":        "npm_package_config_with_a_very_long_name_that_goes_on, show_" + fake(43),
		"a runner's id":      "rnr_abcdefghijklmnopqrstuvwxyz rnr_laptop_1",
		"a header of a key":  "the line -----BEGIN PRIVATE KEY----- comes first",
		"a header and prose": "-----BEGIN PRIVATE KEY-----\nThis is not a key.\n",
		"a certificate":      "-----BEGIN CERTIFICATE-----\nMIIFAKEfakeFAKEfake\n-----END CERTIFICATE-----",
		"half a JWT":         "ey" + "JhbGciOiJIUzI1NiJ9.something else",
		"a port":             "http://localhost:3000/path and https://host:443/@user",
		"an address":         "mailto:bob@example.com, https://example.com/@bob, ssh://git@github.com:22/x",
		"a hash":             "sha256:" + strings.Repeat("0123456789abcdef", 4),
		"an image":           "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
	} {
		t.Run(name, func(t *testing.T) {
			if got := set.String(text); got != text {
				t.Errorf("got %q", got)
			}
			if redact.HasTokenShape([]byte(text)) {
				t.Error("a frame with it is refused")
			}
		})
	}
}

func TestPasswordInAURLIsMaskedAndNotRefused(t *testing.T) {
	var set redact.Set
	for in, want := range map[string]string{
		"postgres://app:s3cr3t@db/x":            "postgres://app:[REDACTED:pattern]@db/x",
		"redis://:s3cr3t@cache:6379":            "redis://:[REDACTED:pattern]@cache:6379",
		"https://bob:p%40ss:w#1@h, https://h:1": "https://bob:[REDACTED:pattern]@h, https://h:1",
		`{"url":"amqp:\/\/u:s3cr3t@h"}`:         `{"url":"amqp:\/\/u:s3cr3t@h"}`, // in JSON that escapes the slash: JSON sees it
	} {
		if got := set.String(in); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if redact.HasTokenShape([]byte(in)) {
			t.Errorf("a frame with %q is refused", in)
		}
	}
}

func TestTokenThatGoesOnIsSwallowedWhole(t *testing.T) {
	var set redact.Set
	s := set.Stream()
	var got strings.Builder
	got.WriteString(s.Push("sk-" + "ant-" + fake(30)))
	for range 1000 {
		got.WriteString(s.Push(fake(100)))
		if s.Held() > 200 {
			t.Fatalf("%d bytes are held", s.Held())
		}
	}
	if got.WriteString(s.Push(" end.") + s.Finish()); got.String() != "[REDACTED:pattern] end." {
		t.Errorf("got %.60q", got.String())
	}
}

func TestTokenThatGoesOnIsSwallowedWhenTheSetChanges(t *testing.T) {
	for name, token := range tokens {
		set := &redact.Set{}
		s := set.Stream()
		got := s.Push("x " + token[:len(token)-8])
		if err := set.Add("new", redact.New(canary)); err != nil {
			t.Fatal(err)
		}
		got += s.Push(token[len(token)-8:]+" "+canary) + s.Finish()
		if got != "x [REDACTED:pattern] [REDACTED:new]" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestKnownSecretNamesItsMarkerEvenIfItIsAToken(t *testing.T) {
	set := &redact.Set{}
	key := tokens["Anthropic"]
	if err := set.Add("anthropic", redact.New(key)); err != nil {
		t.Fatal(err)
	}
	for i := range len(key) {
		s := set.Stream()
		if got := s.Push("x "+key[:i]) + s.Push(key[i:]+" y. ") + s.Finish(); got != "x [REDACTED:anthropic] y. " {
			t.Errorf("split at %d: got %q", i, got)
		}
	}
}
