package redact_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"runnerd/internal/redact"
)

func logged(replace func([]string, slog.Attr) slog.Attr, args ...any) string {
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: replace}))
	log.Info("message", args...)
	return out.String()
}

func TestAttrMasksByName(t *testing.T) {
	for _, name := range []string{"password", "Password", "db_passwords", "token", "refreshToken", "tokens", "access-token", "apiKey", "api_keys",
		"X-API-Key", "authorization", "Authorization", "proxy-authorization", "cookie", "Set-Cookie", "client_secret", "secrets", "private.key",
		"credential", "bearer", "passphrase", "key", "keys", "deviceCode", "user_code", "otp", "pass", "sign-in-link"} {
		for _, value := range []any{"opensesame", []string{"opensesame"}, []byte("opensesame"), errors.New("opensesame"), struct{ A string }{"opensesame"}} {
			if got := logged(redact.Attr, name, value); strings.Contains(got, "opensesame") || strings.Contains(got, "b3BlbnNlc2FtZQ") {
				t.Errorf("%s is logged as %s", name, got)
			}
		}
	}
	for _, name := range []string{"tenant", "run", "step", "runner", "err", "code", "provider", "monkey", "keynote", "author", "status", "pinned"} {
		if got := logged(redact.Attr, name, "opensesame"); !strings.Contains(got, "opensesame") {
			t.Errorf("%s is masked: %s", name, got)
		}
	}
}

func TestAttrLeavesNumbersTimesAndGroupsAlone(t *testing.T) {
	got := logged(redact.Attr, "maxTokens", 512, "token", true, "expires", time.Unix(0, 0).UTC(), slog.Group("usage", "inputTokens", 7, "token", "opensesame"))
	for _, want := range []string{`"maxTokens":512`, `"token":true`, `"expires":"1970-01-01T00:00:00Z"`, `"usage":{"inputTokens":7,"token":"[redacted]"}`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
}

func TestAttrMasksTokensAndSecretsInAnyValue(t *testing.T) {
	set := known(t)
	token := tokens["Anthropic"]
	for name, value := range map[string]any{
		"a string":         "called with hunter22 and " + token,
		"an error":         &url.Error{Op: "Get", URL: "https://h/?k=hunter22&t=" + token, Err: errors.New("timeout")},
		"a header":         http.Header{"X-Debug": {"hunter22", token}},
		"a struct":         struct{ A, B string }{"hunter22", token},
		"a pointer":        &struct{ A, B string }{"hunter22", token},
		"a pointer inside": struct{ P *string }{&token},
		"bytes":            []byte("hunter22 " + token),
		"a Secret":         redact.New("hunter22" + token),
		"a slice":          []any{"hunter22", token},
	} {
		t.Run(name, func(t *testing.T) {
			if got := logged(redact.Attr, "v", value); strings.Contains(got, token) {
				t.Errorf("Attr logs %s", got)
			}
			if got := logged(set.Attr, "v", value); strings.Contains(got, token) || strings.Contains(got, "hunter22") || strings.Contains(got, "aHVudGVyMjI") {
				t.Errorf("the set's Attr logs %s", got)
			}
		})
	}
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: set.Attr})).Info("panic: hunter22", "err", nil)
	if strings.Contains(out.String(), "hunter22") {
		t.Errorf("the message is logged as %s", out.String())
	}
}
