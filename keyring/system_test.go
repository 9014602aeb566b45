package keyring_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/internal/redact"
	"runnerd/keyring"
	"runnerd/keyring/keyringtest"
)

const service = "runnerd/0123456789abcdef0123456789abcdef"

func on(t *testing.T, k *keychain) *keyring.System {
	s := keyring.NewSystemOn(keyring.SystemConfig{Service: service}, k, keyring.LinuxLimits())
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// The keychains of all three systems, as far as they differ in what they hold.
func TestSystemKeepsThePromises(t *testing.T) {
	for name, open := range map[string]func() *keyring.System{
		"linux": func() *keyring.System {
			return keyring.NewSystemOn(keyring.SystemConfig{Service: service}, &keychain{}, keyring.LinuxLimits())
		},
		"darwin": func() *keyring.System {
			return keyring.NewSystemOn(keyring.SystemConfig{Service: service},
				&keychain{service: service, line: 4096}, keyring.DarwinLimits())
		},
		"windows": func() *keyring.System {
			return keyring.NewSystemOn(keyring.SystemConfig{Service: service},
				&keychain{secret: 2560, foldCase: true}, keyring.WindowsLimits())
		},
	} {
		t.Run(name, func(t *testing.T) {
			keyringtest.Run(t, func(t *testing.T) keyring.Keyring {
				s := open()
				t.Cleanup(func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
				return s
			})
		})
	}
}

func TestNewSystemRefusesNonsense(t *testing.T) {
	for _, cfg := range []keyring.SystemConfig{
		{}, {Service: "two words"}, {Service: "s", Timeout: -1}, {Service: "s", Parked: -1},
	} {
		if s, err := keyring.NewSystem(cfg); err == nil {
			t.Errorf("%+v was accepted as %v", cfg, s)
		}
	}
}

// What does not fit is refused before the keychain is asked.
func TestSystemChecksSizesFirst(t *testing.T) {
	for name, s := range map[string]*keyring.System{
		"darwin":  keyring.NewSystemOn(keyring.SystemConfig{Service: service}, &keychain{service: service, line: 4096}, keyring.DarwinLimits()),
		"windows": keyring.NewSystemOn(keyring.SystemConfig{Service: service}, &keychain{secret: 2560}, keyring.WindowsLimits()),
	} {
		largest := 0
		for n := 2000; n < 4096; n++ {
			err := s.Set(t.Context(), "a", redact.New(strings.Repeat("v", n)))
			switch {
			case err == nil:
				largest = n
			case !errors.Is(err, keyring.ErrTooLarge):
				t.Fatalf("%s: %d bytes: %v", name, n, err)
			}
		}
		if want := map[string]int{"darwin": 2994, "windows": 2560}[name]; largest != want {
			t.Errorf("%s takes %d bytes, want %d", name, largest, want)
		}
	}
}

func TestSystemReportsAKeychainThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keychain{values: map[string]string{"a": "1"}}
		s := on(t, k)
		h := hold("get", "a", "", 1)
		k.misbehave(h.before)
		begin := time.Now()
		_, err := s.Get(t.Context(), "a")
		if !errors.Is(err, keyring.ErrLocked) || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("got %v, want ErrLocked: does not answer", err)
		}
		if waited := time.Since(begin); waited != 5*time.Second {
			t.Errorf("after %v, want 5s", waited)
		}
		begin = time.Now()
		if got, err := s.Get(t.Context(), "a"); err != nil || got.Reveal() != "1" {
			t.Errorf("the next call: %q, %v; want 1", got.Reveal(), err)
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("the next call waited %v for the stuck one", waited)
		}
		close(h.letGo)
		synctest.Wait()
		if n := s.Parked(); n != 0 {
			t.Errorf("%d calls are still parked", n)
		}
	})
}

func TestSystemAsksNoMoreWhileTooManyCallsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keychain{values: map[string]string{"a": "1"}}
		s := on(t, k)
		h := hold("", "", "", 0)
		k.misbehave(h.before)
		for range 3 {
			if _, err := s.Get(t.Context(), "a"); !errors.Is(err, keyring.ErrLocked) {
				t.Fatalf("got %v, want ErrLocked", err)
			}
		}
		begin := time.Now()
		for _, err := range []error{
			func() error { _, err := s.Get(t.Context(), "a"); return err }(),
			func() error { _, err := s.List(t.Context()); return err }(),
			s.Set(t.Context(), "a", redact.New("2")),
			s.Delete(t.Context(), "a"),
		} {
			if !errors.Is(err, keyring.ErrLocked) {
				t.Errorf("got %v, want ErrLocked", err)
			}
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("waited %v", waited)
		}
		if _, asked := k.content(); asked != 3 {
			t.Errorf("the keychain was asked %d times, want 3", asked)
		}
		close(h.letGo)
		synctest.Wait()
		if got, err := s.Get(t.Context(), "a"); err != nil || got.Reveal() != "1" {
			t.Errorf("after it answered: %q, %v; want 1", got.Reveal(), err)
		}
	})
}

func TestSystemAnswersThoseInTheQueueToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keychain{values: map[string]string{"a": "1"}}
		s := on(t, k)
		h := hold("", "", "", 0)
		k.misbehave(h.before)
		begin := time.Now()
		errs := make(chan error)
		for range 10 {
			go func() { _, err := s.Get(t.Context(), "a"); errs <- err }()
		}
		for range 10 {
			if err := <-errs; !errors.Is(err, keyring.ErrLocked) {
				t.Errorf("got %v, want ErrLocked", err)
			}
		}
		if waited := time.Since(begin); waited > 10*time.Second {
			t.Errorf("the last was answered after %v, want 10s at most", waited)
		}
		close(h.letGo)
	})
}

func TestSystemEndsACallWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keychain{}
		s := on(t, k)
		h := hold("get", "", "", 0)
		k.misbehave(h.before)
		over := errors.New("over")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(over) })
		begin := time.Now()
		if _, err := s.Get(ctx, "a"); !errors.Is(err, over) || errors.Is(err, keyring.ErrLocked) {
			t.Errorf("cancelled: got %v, want its cause alone", err)
		}
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, err := s.Get(short, "a")
		if !errors.Is(err, keyring.ErrLocked) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("out of patience: got %v, want ErrLocked and DeadlineExceeded", err)
		}
		if waited := time.Since(begin); waited != 2*time.Second {
			t.Errorf("both took %v, want 2s", waited)
		}
		close(h.letGo)
	})
}

// A dismissed prompt looks like success to go-keyring.
func TestSystemNoticesADismissedPrompt(t *testing.T) {
	k := &keychain{}
	s := on(t, k)
	if err := s.Set(t.Context(), "a", redact.New("old")); err != nil {
		t.Fatal(err)
	}
	k.misbehave(func(op, account, _ string) (bool, error) { return op != "get" && !strings.HasPrefix(account, "."), nil })
	if err := s.Set(t.Context(), "a", redact.New("new")); !errors.Is(err, keyring.ErrLocked) {
		t.Errorf("replace: got %v, want ErrLocked", err)
	}
	if err := s.Set(t.Context(), "b", redact.New("new")); !errors.Is(err, keyring.ErrLocked) {
		t.Errorf("set: got %v, want ErrLocked", err)
	}
	if err := s.Delete(t.Context(), "a"); !errors.Is(err, keyring.ErrLocked) {
		t.Errorf("delete: got %v, want ErrLocked", err)
	}
	k.misbehave(nil)
	if got, err := s.Get(t.Context(), "a"); err != nil || got.Reveal() != "old" {
		t.Errorf("got %q, %v; want old", got.Reveal(), err)
	}
}

// A refresh token that was replaced must not come back, however late the
// keychain does what it was asked first.
func TestSystemKeepsTheNewestOfOverlappingWrites(t *testing.T) {
	type write func(*testing.T, *keyring.System) error
	type writes []write
	set := func(value string) write {
		return func(t *testing.T, s *keyring.System) error {
			return s.Set(t.Context(), "token", redact.New(value))
		}
	}
	heldSet := func() *holder { return hold("set", "token", "2", 1) }
	heldDelete := func() *holder { return hold("delete", "token", "", 1) }
	remove := func(t *testing.T, s *keyring.System) error { return s.Delete(t.Context(), "token") }
	for name, c := range map[string]struct {
		hold  func() *holder // made in the bubble
		stuck write
		later writes
		fail  string // the value that the keychain refuses
		want  string // "" is none
		fresh bool   // there was no value before
	}{
		"set after set":                      {hold: heldSet, stuck: set("2"), later: writes{set("3")}, want: "3"},
		"two sets after set":                 {hold: heldSet, stuck: set("2"), later: writes{set("3"), set("4")}, want: "4"},
		"delete after set":                   {hold: heldSet, stuck: set("2"), later: writes{remove}, want: ""},
		"delete of nothing after set":        {hold: heldSet, stuck: set("2"), later: writes{remove}, want: "", fresh: true},
		"set after delete":                   {hold: heldDelete, stuck: remove, later: writes{set("3")}, want: "3"},
		"a failed set after a set after set": {hold: heldSet, stuck: set("2"), later: writes{set("3"), set("4")}, fail: "4", want: "3"},
		"a failed set after set":             {hold: heldSet, stuck: set("2"), later: writes{set("4")}, fail: "4", want: "2"},
		"nothing after set":                  {hold: heldSet, stuck: set("2"), want: "2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &keychain{}
				s := on(t, k)
				if !c.fresh {
					if err := set("1")(t, s); err != nil {
						t.Fatal(err)
					}
				}
				h, refused := c.hold(), errors.New("refused")
				k.misbehave(func(op, account, value string) (bool, error) {
					if value != "" && value == c.fail {
						return true, refused
					}
					return h.before(op, account, value)
				})
				if err := c.stuck(t, s); !errors.Is(err, keyring.ErrLocked) {
					t.Fatalf("got %v, want ErrLocked", err)
				}
				for i, f := range c.later {
					if err := f(t, s); err != nil && !errors.Is(err, refused) && !(c.fresh && errors.Is(err, keyring.ErrNotFound)) {
						t.Fatalf("later write %d: %v", i, err)
					}
				}
				close(h.letGo)
				synctest.Wait()
				if values, _ := k.content(); values["token"] != c.want {
					t.Errorf("the keychain holds %q, want %q", values["token"], c.want)
				}
			})
		})
	}
}

// A call that was given up makes no further step when it is answered at last.
func TestSystemTakesNoStepForACallerWhoIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keychain{}
		s := on(t, k)
		h := hold("set", ".index", "", 1)
		k.misbehave(h.before)
		if err := s.Set(t.Context(), "a", redact.New("1")); !errors.Is(err, keyring.ErrLocked) {
			t.Fatalf("got %v, want ErrLocked", err)
		}
		close(h.letGo)
		synctest.Wait()
		got, _ := k.content()
		if diff := cmp.Diff(map[string]string{".index/0": `{"v":1,"names":["a"],"more":false}`}, got); diff != "" {
			t.Errorf("the keychain (-want +got):\n%s", diff)
		}
	})
}

func TestSystemCloseWaitsAndThenSaysWhatIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keychain{}
		s := keyring.NewSystemOn(keyring.SystemConfig{Service: service}, k, keyring.LinuxLimits())
		h := hold("", "", "", 0)
		k.misbehave(h.before)
		if _, err := s.Get(t.Context(), "a"); !errors.Is(err, keyring.ErrLocked) {
			t.Fatalf("got %v, want ErrLocked", err)
		}
		begin := time.Now()
		if err := s.Close(); err == nil || !strings.Contains(err.Error(), "1 calls were never answered") {
			t.Errorf("got %v, want to hear of one call", err)
		}
		if waited := time.Since(begin); waited != 5*time.Second {
			t.Errorf("Close took %v, want 5s", waited)
		}
		if _, err := s.Get(t.Context(), "a"); !errors.Is(err, keyring.ErrUnavailable) {
			t.Errorf("after Close: got %v, want ErrUnavailable", err)
		}
		close(h.letGo)
	})
}

// A process that dies between the two steps leaves a name, never a value that
// nothing lists.
func TestSystemClearsANameWithoutValue(t *testing.T) {
	k := &keychain{}
	s := on(t, k)
	dies := errors.New("power is lost")
	k.misbehave(func(op, account, _ string) (bool, error) {
		if op == "set" && account == "a" {
			return true, dies
		}
		return false, nil
	})
	if err := s.Set(t.Context(), "a", redact.New("1")); !errors.Is(err, dies) {
		t.Fatalf("got %v, want %v", err, dies)
	}
	k.misbehave(nil)
	if names, err := s.List(t.Context()); err != nil || len(names) != 1 {
		t.Errorf("names %v, %v; want a", names, err)
	}
	if _, err := s.Get(t.Context(), "a"); !errors.Is(err, keyring.ErrNotFound) {
		t.Errorf("get: got %v, want ErrNotFound", err)
	}
	if err := s.Delete(t.Context(), "a"); !errors.Is(err, keyring.ErrNotFound) {
		t.Errorf("delete: got %v, want ErrNotFound", err)
	}
	if names, err := s.List(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("names %v, %v; want none", names, err)
	}
}

func TestSystemReportsADamagedIndexAndOverwritesNothing(t *testing.T) {
	k := &keychain{values: map[string]string{".index/0": `{"v":1,"names":["a","a"]}`, "a": "1"}}
	s := on(t, k)
	before, _ := k.content()
	_, list := s.List(t.Context())
	for _, err := range []error{list, s.Set(t.Context(), "b", redact.New("2"))} {
		if !errors.Is(err, keyring.ErrCorrupt) || !strings.Contains(err.Error(), ".index/0 of "+service) {
			t.Errorf("got %v, want ErrCorrupt naming the item", err)
		}
	}
	if after, _ := k.content(); !cmp.Equal(before, after) {
		t.Errorf("the keychain changed (-want +got):\n%s", cmp.Diff(before, after))
	}
	if got, err := s.Get(t.Context(), "a"); err != nil || got.Reveal() != "1" {
		t.Errorf("get: %q, %v; want 1", got.Reveal(), err)
	}
}
