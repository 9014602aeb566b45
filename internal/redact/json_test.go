package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"runnerd/internal/redact"
)

// known has the secrets that the tests below use.
func known(t testing.TB) *redact.Set {
	t.Helper()
	set := &redact.Set{}
	for ref, value := range map[string]string{"eight": "hunter22", "pin": "1234567890", "quoted": `pass "word" \ 99`, "uni": "пароль-ÿ"} {
		if err := set.Add(ref, redact.New(value)); err != nil {
			t.Fatal(err)
		}
	}
	return set
}

func TestJSONMasksStringsKeysAndNumbers(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"nothing to mask, as it is":      {` { "a" : [ 1.50, -0, 1e3, true, null, "\u0041\/<>" ] } `, ` { "a" : [ 1.50, -0, 1e3, true, null, "\u0041\/<>" ] } `},
		"a value":                        {`{"a":"x hunter22 y"}`, `{"a":"x [REDACTED:eight] y"}`},
		"a value with escapes":           {`{"a":"\u0068unter22\n"}`, `{"a":"[REDACTED:eight]\n"}`},
		"a value with quotes":            {`["pass \"word\" \\ 99"]`, `["[REDACTED:quoted]"]`},
		"a value inside JSON in a value": {`["{\"a\":\"pass \\\"word\\\" \\\\ 99\"}"]`, `["{\"a\":\"[REDACTED:quoted]\"}"]`},
		"a value that is all":            {`"hunter22"`, `"[REDACTED:eight]"`},
		"a number":                       {`{"pin":1234567890}`, `{"pin":"[REDACTED:pin]"}`},
		"a key":                          {`{"hunter22":1}`, `{"[REDACTED:eight]":1}`},
		"keys that become the same":      {`{"hunter22":1,"hunt er22":2,"a":{"hunter22":3}}`, `{"[REDACTED:eight]":1,"[REDACTED:eight]#2":2,"a":{"[REDACTED:eight]":3}}`},
		"a key that is a marker already": {`{"hunter22":1,"[REDACTED:eight]":2}`, `{"[REDACTED:eight]":1,"[REDACTED:eight]#2":2}`},
		"a token":                        {`["ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"]`, `["[REDACTED:pattern]"]`},
		"text beyond ASCII":              {`["äö пароль-ÿ 日本"]`, `["äö [REDACTED:uni] 日本"]`},
		"empty":                          {`{"a":{},"b":[],"":""}`, `{"a":{},"b":[],"":""}`},
	} {
		t.Run(name, func(t *testing.T) {
			set := known(t)
			got, err := set.JSON(json.RawMessage(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Errorf("document (-want +got):\n%s", diff)
			}
			again, err := set.JSON(got)
			if err != nil || string(again) != string(got) {
				t.Errorf("masked again it is %s, %v", again, err)
			}
		})
	}
}

func TestJSONRefusesWhatIsNoDocumentWithoutRepeatingIt(t *testing.T) {
	for _, in := range []string{``, `{`, `{"hunter22":}`, `hunter22`, `"hunter22" "x"`, strings.Repeat("[", 20000)} {
		got, err := known(t).JSON(json.RawMessage(in))
		if err == nil || got != nil {
			t.Errorf("%.40q gives %.40q, %v, want an error", in, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter22") {
			t.Errorf("the error repeats the secret: %v", err)
		}
	}
}
