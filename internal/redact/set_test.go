package redact_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"runnerd/internal/redact"
)

func TestAddRefusesWhatCannotBeMasked(t *testing.T) {
	for name, c := range map[string]struct {
		ref, value string
		want       error
	}{
		"empty":                        {"r", "", redact.ErrTooShort},
		"blank":                        {"r", " \t\n       ", redact.ErrTooShort},
		"seven bytes":                  {"r", "hunter2", redact.ErrTooShort},
		"seven bytes and white space":  {"r", " hunter2 ", redact.ErrTooShort},
		"little but quotes":            {"r", `ab"'"'\\\\'`, redact.ErrTooShort},
		"eight bytes":                  {"r", "hunter22", nil},
		"no reference":                 {"", "hunter22", redact.ErrBadReference},
		"a reference with a bracket":   {"a]b", "hunter22", redact.ErrBadReference},
		"a reference with a line feed": {"a\nb", "hunter22", redact.ErrBadReference},
		"a long reference":             {strings.Repeat("r", 65), "hunter22", redact.ErrBadReference},
		"a reference with the secret":  {"user-hunter22", "hunter22", redact.ErrBadReference},
		"a word of every marker":       {"r", "REDACTED", redact.ErrBadReference},
		"a reference as they are":      {"keychain:anthropic/api_key@2.a-b", "hunter22", nil},
	} {
		t.Run(name, func(t *testing.T) {
			set := &redact.Set{}
			err := set.Add(c.ref, redact.New(c.value))
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if err != nil && c.value != "" && strings.Contains(err.Error(), c.value) && !strings.Contains(c.ref, c.value) {
				t.Errorf("the error repeats the secret: %v", err)
			}
		})
	}
}

func TestContainsTellsWhetherThereIsAnythingToMask(t *testing.T) {
	set := known(t)
	for text, want := range map[string]bool{
		"": false, "plain": false, "a hunter22 b": true, "aHVudGVyMjI=": true, "sk-ant-" + strings.Repeat("A", 40): true,
	} {
		if got := set.Contains([]byte(text)); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestZeroSetMasksTokensOnly(t *testing.T) {
	var set redact.Set
	if got, want := set.String("hunter22 AKIAFAKEFAKEFAKE2345."), "hunter22 [REDACTED:pattern]."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStreamShowsWhatCannotBeASecretAtOnce(t *testing.T) {
	set := &redact.Set{}
	if err := set.Add("key", redact.New("tk-FAKE-9f3c1d7ab2e84c60a1d5Zq")); err != nil {
		t.Fatal(err)
	}
	s := set.Stream()
	for _, c := range []struct{ push, want string }{
		{"Hello, wor", "Hello, wo"},    // a letter may be the first of an encoded secret
		{"ld. ", "rld. "},              // a full stop may not
		{"Is it 12? ", "Is it 12? "},   //
		{"tk-FA", ""},                  //
		{"KE no!", "tk-FAKE no!"},      //
		{" tk-FAKE-9f3c1d7ab2e8", " "}, //
		{"4c60a1d5Zq. ", "[REDACTED:key]. "},
		{"caf\xc3", "c"}, // whole characters only
		{"\xa9. ", "afé. "},
		{"a longer word and then some more wor", "a longer word and then some more wo"},
	} {
		if got := s.Push(c.push); got != c.want {
			t.Errorf("after %q: got %q, want %q", c.push, got, c.want)
		}
	}
	if got := s.Finish(); got != "r" {
		t.Errorf("at the end: got %q", got)
	}
}

func TestCutMasksTheStartOfASecretAndFinishDoesNot(t *testing.T) {
	for name, c := range map[string]struct{ text, finish, cut string }{
		"eight bytes":          {"x tk-FAKE-", "x tk-FAKE-", "x [REDACTED:tok]"},
		"seven":                {"x tk-FAKE", "x tk-FAKE", "x tk-FAKE"},
		"in base64":            {"x dGstRkFLRS05ZjNjMWQ3", "x dGstRkFLRS05ZjNjMWQ3", "x [REDACTED:tok]"},
		"escaped":              {`x \u0074\u006b\u002d\u0046\u0041\u004b\u0045\u002d\u0039`, `x \u0074\u006b\u002d\u0046\u0041\u004b\u0045\u002d\u0039`, "x [REDACTED:tok]"},
		"a token":              {"x ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7", "x ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7", "x [REDACTED:pattern]"},
		"whole":                {"x tk-FAKE-9f3c1d7ab2e84c60a1d5Zq", "x [REDACTED:tok]", "x [REDACTED:tok]"},
		"in a terminal's text": {"x \x1b]0;tk-FAKE-9f", "x \x1b]0;tk-FAKE-9f", "x \x1b]0;[REDACTED:tok]"},
	} {
		t.Run(name, func(t *testing.T) {
			set := &redact.Set{}
			if err := set.Add("tok", redact.New("tk-FAKE-9f3c1d7ab2e84c60a1d5Zq")); err != nil {
				t.Fatal(err)
			}
			s := set.Stream()
			if got := s.Push(c.text) + s.Finish(); got != c.finish {
				t.Errorf("finished: got %q, want %q", got, c.finish)
			}
			s = set.Stream()
			if got := s.Push(c.text) + s.Cut(); got != c.cut {
				t.Errorf("cut: got %q, want %q", got, c.cut)
			}
		})
	}
}

func TestWriterKeepsTheErrorOfTheWriterBehindIt(t *testing.T) {
	broken := errors.New("disk full")
	w := known(t).Writer(writerFunc(func([]byte) (int, error) { return 0, broken }))
	if _, err := w.Write([]byte("some text. ")); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if _, err := w.Write([]byte("more")); !errors.Is(err, broken) {
		t.Errorf("second write: got %v, want %v", err, broken)
	}
	if err := w.Close(); !errors.Is(err, broken) {
		t.Errorf("close: got %v, want %v", err, broken)
	}
}

func TestWriterTakesNothingAfterItsEnd(t *testing.T) {
	var out bytes.Buffer
	w := known(t).Writer(&out)
	if _, err := w.Write([]byte("hunter2")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Finish(), w.Close(), w.Finish()); err != nil || out.String() != "hunter2" {
		t.Errorf("got %q, %v", out.String(), err)
	}
	if _, err := w.Write([]byte("2")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write after the end: got %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestSetServesManyGoroutines(t *testing.T) {
	set := known(t)
	shared := set.Writer(io.Discard)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			secret, ref := redact.New(fmt.Sprintf("tk-FAKE-%d-0123456789", i)), fmt.Sprintf("r%d", i)
			s := set.Stream()
			for range 50 {
				if err := set.Add(ref, secret); err != nil {
					t.Error(err)
				}
				text := "a " + secret.Reveal() + " b "
				if got, want := set.String(text), "a [REDACTED:"+ref+"] b "; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				if got := s.Push(text); strings.Contains(got, secret.Reveal()) {
					t.Errorf("stream gives %q", got)
				}
				if _, err := shared.Write([]byte(text)); err != nil {
					t.Error(err)
				}
				set.Remove(ref, secret)
			}
		})
	}
	wg.Wait()
}
