// Package keyringtest holds the twins of [keyring.Keyring] to the same answers.
// A change to one of them starts with a case here.
package keyringtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"runnerd/internal/redact"
	"runnerd/keyring"
)

// Run runs every case on a fresh store from open, which closes it in t.Cleanup.
func Run(t *testing.T, open func(*testing.T) keyring.Keyring) {
	for name, run := range cases() {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, open(t)) })
	}
	for m := range reflect.TypeFor[keyring.Keyring]().Methods() {
		if !covered(m.Name) {
			t.Errorf("no case for Keyring.%s", m.Name)
		}
	}
}

func covered(method string) bool {
	for name := range cases() {
		if strings.HasPrefix(name, method+"/") {
			return true
		}
	}
	return false
}

// badNames are refused by every method that takes a name.
var badNames = []string{"", ".index/0", "-flag", "a b", "a\nb", "a'b", "a\\b", "ä", "a\x00", strings.Repeat("a", keyring.MaxName+1)}

// cases is a function so that nothing is shared between two runs.
func cases() map[string]func(*testing.T, keyring.Keyring) {
	return map[string]func(*testing.T, keyring.Keyring){
		"Get/of a name never set is not found": func(t *testing.T, k keyring.Keyring) {
			_, err := k.Get(t.Context(), "provider/openai")
			wantErr(t, err, keyring.ErrNotFound)
		},
		"Get/gives what was set, byte for byte": func(t *testing.T, k keyring.Keyring) {
			for name, value := range map[string]string{
				"word":     "sk-0123456789",
				"spaces":   "  two words \t",
				"newlines": "one\ntwo\r\n",
				"quotes":   `'"\$(x)` + "`",
				"unicode":  "pässwörd 🔑",
				"bytes":    "\x01\xff\xfe\x80",
				"json":     `{"access_token":"a","refresh_token":"b"}`,
			} {
				set(t, k, name, value)
				want(t, k, name, value)
			}
		},
		"Get/of a bad name is invalid": func(t *testing.T, k keyring.Keyring) {
			for _, name := range badNames {
				_, err := k.Get(t.Context(), name)
				wantErr(t, err, keyring.ErrInvalid)
			}
		},
		"Get/after its context says why that ended": func(t *testing.T, k keyring.Keyring) {
			set(t, k, "a", "1")
			_, err := k.Get(ended(t), "a")
			wantErr(t, err, errEnded)
		},
		"Set/replaces what is there": func(t *testing.T, k keyring.Keyring) {
			set(t, k, "a", "old")
			set(t, k, "a", "new")
			want(t, k, "a", "new")
			wantList(t, k, "a")
		},
		"Set/takes SafeSize bytes and MaxName names": func(t *testing.T, k keyring.Keyring) {
			name, value := strings.Repeat("N", keyring.MaxName), strings.Repeat("v", keyring.SafeSize)
			set(t, k, name, value)
			want(t, k, name, value)
			wantList(t, k, name)
		},
		"Set/of too much is too large and leaves the old value": func(t *testing.T, k keyring.Keyring) {
			set(t, k, "a", "old")
			wantErr(t, k.Set(t.Context(), "a", redact.New(strings.Repeat("v", keyring.MaxSize+1))), keyring.ErrTooLarge)
			wantErr(t, k.Set(t.Context(), "b", redact.New(strings.Repeat("v", keyring.MaxSize+1))), keyring.ErrTooLarge)
			want(t, k, "a", "old")
			wantList(t, k, "a")
		},
		"Set/of nothing is invalid and leaves the old value": func(t *testing.T, k keyring.Keyring) {
			set(t, k, "a", "old")
			wantErr(t, k.Set(t.Context(), "a", redact.New("")), keyring.ErrInvalid)
			wantErr(t, k.Set(t.Context(), "a", redact.Secret{}), keyring.ErrInvalid)
			want(t, k, "a", "old")
		},
		"Set/of a bad name is invalid and names no value": func(t *testing.T, k keyring.Keyring) {
			for _, name := range badNames {
				err := k.Set(t.Context(), name, redact.New("canary-4711"))
				wantErr(t, err, keyring.ErrInvalid)
				if err != nil && strings.Contains(err.Error(), "canary") {
					t.Errorf("the error shows the value: %v", err)
				}
			}
			wantList(t, k)
		},
		"Set/tells names apart that differ in case or a mark": func(t *testing.T, k keyring.Keyring) {
			names := []string{"MCP/git/TOKEN", "mcp/git/TOKEN", "mcp/git/token", "mcp.git.token", "mcp:git:token"}
			for i, name := range names {
				set(t, k, name, fmt.Sprint("value ", i))
			}
			for i, name := range names {
				want(t, k, name, fmt.Sprint("value ", i))
			}
			wantList(t, k, names...)
		},
		"Set/from many goroutines loses none": func(t *testing.T, k keyring.Keyring) {
			var wg sync.WaitGroup
			var names []string
			for i := range 12 {
				name := fmt.Sprintf("key-%02d", i)
				names = append(names, name)
				wg.Go(func() {
					if err := k.Set(t.Context(), name, redact.New(name)); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			for _, name := range names {
				want(t, k, name, name)
			}
			wantList(t, k, names...)
		},
		"Set/after its context changes nothing": func(t *testing.T, k keyring.Keyring) {
			set(t, k, "a", "old")
			wantErr(t, k.Set(ended(t), "a", redact.New("new")), errEnded)
			want(t, k, "a", "old")
		},
		"Delete/removes that name alone": func(t *testing.T, k keyring.Keyring) {
			set(t, k, "a", "1")
			set(t, k, "b", "2")
			if err := k.Delete(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			_, err := k.Get(t.Context(), "a")
			wantErr(t, err, keyring.ErrNotFound)
			want(t, k, "b", "2")
			wantList(t, k, "b")
		},
		"Delete/of what is not there is not found": func(t *testing.T, k keyring.Keyring) {
			wantErr(t, k.Delete(t.Context(), "a"), keyring.ErrNotFound)
			set(t, k, "a", "1")
			if err := k.Delete(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			wantErr(t, k.Delete(t.Context(), "a"), keyring.ErrNotFound)
		},
		"Delete/lets the name be set again": func(t *testing.T, k keyring.Keyring) {
			set(t, k, "a", "1")
			if err := k.Delete(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			set(t, k, "a", "2")
			want(t, k, "a", "2")
			wantList(t, k, "a")
		},
		"Delete/of a bad name is invalid": func(t *testing.T, k keyring.Keyring) {
			for _, name := range badNames {
				wantErr(t, k.Delete(t.Context(), name), keyring.ErrInvalid)
			}
		},
		"Delete/after its context removes nothing": func(t *testing.T, k keyring.Keyring) {
			set(t, k, "a", "1")
			wantErr(t, k.Delete(ended(t), "a"), errEnded)
			want(t, k, "a", "1")
		},
		"List/is empty at first": func(t *testing.T, k keyring.Keyring) {
			wantList(t, k)
		},
		"List/is in byte order and names no value": func(t *testing.T, k keyring.Keyring) {
			for _, name := range []string{"b", "B", "a/2", "a/10", "0"} {
				set(t, k, name, "value")
			}
			wantList(t, k, "0", "B", "a/10", "a/2", "b")
		},
		"List/gives more names than fit one item": func(t *testing.T, k keyring.Keyring) {
			var names []string
			for i := range 40 { // 120 bytes each
				name := fmt.Sprintf("connector/%s/%02d", strings.Repeat("long", 26), i)
				names = append(names, name)
				set(t, k, name, "value")
			}
			wantList(t, k, names...)
			for _, name := range names[:20] {
				if err := k.Delete(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
			set(t, k, "new", "value")
			wantList(t, k, append(names[20:], "new")...)
		},
		"List/after its context says why that ended": func(t *testing.T, k keyring.Keyring) {
			_, err := k.List(ended(t))
			wantErr(t, err, errEnded)
		},
	}
}

var errEnded = errors.New("the test ended it")

// ended returns a context that has ended with errEnded.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnded)
	return ctx
}

func set(t *testing.T, k keyring.Keyring, name, value string) {
	t.Helper()
	if err := k.Set(t.Context(), name, redact.New(value)); err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, k keyring.Keyring, name, value string) {
	t.Helper()
	got, err := k.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if got.Reveal() != value {
		t.Errorf("%s = %q, want %q", name, got.Reveal(), value)
	}
}

func wantList(t *testing.T, k keyring.Keyring, names ...string) {
	t.Helper()
	got, err := k.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) == 0 && len(names) == 0 {
		return
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(names)), got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v, want %v", got, want)
	}
}
