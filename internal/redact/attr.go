package redact

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// Attr is a slog ReplaceAttr for every logger: it masks what has the name of a credential, whatever the value, and what has
// the form of a token, whatever the name.
func Attr(_ []string, a slog.Attr) slog.Attr { return replace(a, maskShapes) }

// Attr is the function Attr, and masks the secrets of the set too.
func (s *Set) Attr(_ []string, a slog.Attr) slog.Attr { return replace(a, s.String) }

func replace(a slog.Attr, mask func(string) string) slog.Attr {
	a.Value = a.Value.Resolve()
	switch a.Value.Kind() {
	case slog.KindGroup: // its members come by themselves
		return a
	case slog.KindString, slog.KindAny:
		if credentialName(a.Key) {
			return slog.String(a.Key, Mask)
		}
	default: // a count of tokens is no token
		return a
	}
	for _, text := range printed(a.Value.Any()) {
		if masked := mask(text); masked != text {
			return slog.String(a.Key, masked)
		}
	}
	return a
}

// printed gives the forms in which handlers write a value.
func printed(value any) []string {
	switch v := value.(type) {
	case nil:
		return nil
	case string:
		return []string{v}
	case []byte:
		return []string{string(v)}
	case error:
		return []string{v.Error()}
	}
	forms := []string{fmt.Sprintf("%+v", value)}
	if document, err := json.Marshal(value); err == nil {
		forms = append(forms, string(document))
	}
	return forms
}

// credentialName reports whether a name is one that credentials have. Case and separators make no difference, nor does a
// plural. Short names count only as a whole: "key" is one, "monkey" is none.
func credentialName(name string) bool {
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_. ", r) {
			return -1
		}
		return r
	}, strings.ToLower(name))
	whole := []string{"key", "pass", "pwd", "pin", "otp", "auth", "jwt", "devicecode", "usercode"}
	if slices.Contains(whole, name) || slices.Contains(whole, strings.TrimSuffix(name, "s")) {
		return true
	}
	return slices.ContainsFunc([]string{"password", "passwd", "passphrase", "secret", "token", "authorization", "credential",
		"bearer", "apikey", "accesskey", "privatekey", "signingkey", "encryptionkey", "masterkey", "cookie", "signinlink"},
		func(word string) bool { return strings.Contains(name, word) })
}
