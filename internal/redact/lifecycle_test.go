package redact_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runnerd/internal/redact"
	"runnerd/internal/wire"
)

// The cases with steps: what happens while a text is written.
func TestEveryLifecycleCaseIsMasked(t *testing.T) {
	suite := load(t)
	for _, c := range suite.Cases {
		if !c.is("lifecycle") || c.Input != nil {
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // a case sleeps: no timer may let go of what is held
				set := suite.set(t, c)
				var out bytes.Buffer
				w := set.Writer(&out)
				cutOff := false
				for _, s := range c.Steps {
					register(t, set, s)
					for _, text := range []*string{s.Write, s.Stdout, s.Stderr, s.Delta} {
						if text != nil {
							if _, err := w.Write([]byte(*text)); err != nil {
								t.Fatal(err)
							}
						}
					}
					time.Sleep(time.Duration(s.SleepMillis) * time.Millisecond)
					cutOff = cutOff || s.Close
				}
				end := w.Finish
				if cutOff {
					end = w.Close
				}
				if err := end(); err != nil {
					t.Fatal(err)
				}
				c.check(t, "in steps", "", out.String())
			})
		})
	}
}

func TestSecretRegisteredInAStreamHidesLaterCopies(t *testing.T) {
	const late = "tk-FAKE-late-7777777"
	for i := range len(late) { // a part of the first copy is held when the secret is registered
		set := &redact.Set{}
		s := set.Stream()
		got := s.Push("before " + late + " between " + late[:i])
		if err := set.Add("late", redact.New(late)); err != nil {
			t.Fatal(err)
		}
		got += s.Push(late[i:]+" after "+late) + s.Finish()
		if want := "before " + late + " between "; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, " after [REDACTED:late]") {
			t.Errorf("after %d bytes: got %q", i, got)
		}
	}
}

func TestSecretStaysMaskedUntilItIsRemovedAsOftenAsItWasAdded(t *testing.T) {
	set := &redact.Set{}
	s := redact.New(canary)
	for range 2 {
		if err := set.Add("key", s); err != nil {
			t.Fatal(err)
		}
	}
	set.Remove("key", s)
	if got := set.String(canary); got != "[REDACTED:key]" {
		t.Errorf("after one removal: got %q", got)
	}
	set.Remove("key", s)
	set.Remove("key", s)
	if got := set.String(canary); got != canary {
		t.Errorf("after both: got %q", got)
	}
	if err := set.Add("key", s); err != nil || set.String(canary) != "[REDACTED:key]" {
		t.Errorf("added again: got %q, %v", set.String(canary), err)
	}
}

// The cases with frames: what a border does with a credential in a message.
func TestEveryFrameCaseIsRefusedOrMasked(t *testing.T) {
	suite := load(t)
	for _, c := range suite.Cases {
		if !c.is("frame") {
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			set := suite.set(t, c)
			for _, s := range c.Steps {
				body := s.Post
				if s.PostRaw != nil {
					body = json.RawMessage(*s.PostRaw)
				}
				switch {
				case s.PostPath != nil: // the status is for the gateway's tests, what its log holds is for us
					var out bytes.Buffer
					log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: set.Attr}))
					log.Info("request", "path", *s.PostPath)
					c.Expect.Outcome = "redacted"
					c.check(t, "log", "", out.String())
				case s.Register != nil: // an outbound filter refuses what it would have to mask
					if !set.Contains(s.Register) {
						t.Errorf("nothing is found in %s", s.Register)
					}
				case c.Expect.Outcome == "rejected":
					_, err := wire.Decode[wire.Result](body)
					if err == nil {
						t.Fatalf("the frame is taken: %s", body)
					}
					c.check(t, "error", "", err.Error())
				default:
					got, err := set.JSON(body)
					if err != nil {
						t.Fatal(err)
					}
					if !json.Valid(got) {
						t.Errorf("what is masked is no document: %s", got)
					}
					c.check(t, "document", "", string(got))
				}
			}
		})
	}
}
