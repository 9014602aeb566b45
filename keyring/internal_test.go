package keyring

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gokeyring "github.com/zalando/go-keyring"
)

func TestBackendNamesWhatGoKeyringReports(t *testing.T) {
	unknown := errors.New("unknown")
	k := goKeyring{reach: func() error { return nil }, classify: func(err error) error { return err }}
	for name, c := range map[string]struct {
		call func() error
		want error
	}{
		"nothing":     {func() error { return nil }, nil},
		"not found":   {func() error { return gokeyring.ErrNotFound }, ErrNotFound},
		"too big":     {func() error { return gokeyring.ErrSetDataTooBig }, ErrTooLarge},
		"unsupported": {func() error { return gokeyring.ErrUnsupportedPlatform }, ErrUnavailable},
		"other":       {func() error { return unknown }, unknown},
		"panic":       {func() error { var p *int; *p = 1; return nil }, ErrUnavailable},
	} {
		if err := k.call(c.call); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	k.reach = func() error { return ErrLocked }
	if err := k.call(func() error { t.Error("called though out of reach"); return nil }); !errors.Is(err, ErrLocked) {
		t.Errorf("out of reach: got %v, want ErrLocked", err)
	}
}

// Two locks of one path are as those of two processes: flock and LockFileEx
// go by open file.
func TestFileLockGivesUpAtItsDeadline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	mine, theirs := newFileLock(path, 50*time.Millisecond), newFileLock(path, time.Minute)
	release, err := theirs.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mine.acquire(t.Context()); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want ErrLocked naming the file", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := theirs.acquire(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled", err)
	}
	release()
	release, err = mine.acquire(t.Context())
	if err != nil {
		t.Fatalf("after it was released: %v", err)
	}
	release()
}

// A write that fails leaves the file as it was, and nothing beside it.
func TestReplaceFileLeavesTheOldOneWhenItFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := replaceFile(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	blocked := filepath.Join(dir, "d") // a folder with something in it cannot be replaced by a file
	if err := os.MkdirAll(filepath.Join(blocked, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(blocked, []byte("new")); err == nil {
		t.Error("a folder was replaced")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("the folder holds %v, %v; want f and d", entries, err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("got %q, %v; want old", got, err)
	}
}

func FuzzDecodePage(f *testing.F) {
	for _, seed := range []string{
		`{"v":1,"names":["a","b/c"],"more":false}`, `{"v":1,"names":[],"more":true}`, `{"v":2,"names":[]}`,
		`{"v":1,"names":["a","a"]}`, `{"v":1,"names":[".index/0"]}`, `{"v":1,"extra":0}`, `{"v":1}{"v":1}`, `null`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := decodePage(data)
		if err != nil {
			return
		}
		again, err := p.encode()
		if err != nil {
			t.Fatal(err)
		}
		q, err := decodePage(again)
		if err != nil {
			t.Fatalf("what we wrote does not read back: %v\n%s", err, again)
		}
		third, err := q.encode()
		if err != nil || !bytes.Equal(again, third) {
			t.Errorf("not stable: %s, then %s (%v)", again, third, err)
		}
		for _, name := range p.Names {
			if CheckName(name) != nil {
				t.Errorf("bad name %q was let in", name)
			}
		}
	})
}

func FuzzDecodeValues(f *testing.F) {
	for _, seed := range []string{
		`{"v":1,"values":{"a":"Y2FuYXJ5","b/c":"/w=="}}`, `{"v":1,"values":{}}`, `{"v":1}`, `{"v":2,"values":{}}`,
		`{"v":1,"values":{"a":""}}`, `{"v":1,"values":{"a b":"AA=="}}`, `{"v":1,"values":{"a":"canary"}}`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := decodeValues(data)
		if err != nil {
			if len(err.Error()) > 60 || bytes.Contains(data, []byte("canary")) && strings.Contains(err.Error(), "canary") {
				t.Errorf("the error shows content: %v", err)
			}
			return
		}
		again, err := v.encode()
		if err != nil {
			t.Fatal(err)
		}
		w, err := decodeValues(again)
		if err != nil || len(w) != len(v) {
			t.Fatalf("%d values read back as %d: %v", len(v), len(w), err)
		}
		for name := range v {
			if !bytes.Equal(v[name], w[name]) {
				t.Errorf("%s changed", name)
			}
		}
	})
}

func FuzzTrimPassphrase(f *testing.F) {
	for _, seed := range []string{"pass\n", "pass\r\n", "pass", "\n", "\r\n", "", "a\n\n", "a\r", " a "} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		word, err := trimPassphrase(data)
		if err != nil {
			if len(bytes.TrimRight(data, "\r\n")) > 0 {
				t.Errorf("%q was refused: %v", data, err)
			}
			return
		}
		if len(word) == 0 {
			t.Errorf("%q gave an empty passphrase", data)
		}
		rest, ok := bytes.CutPrefix(data, word)
		if end := string(rest); !ok || end != "" && end != "\n" && end != "\r\n" {
			t.Errorf("%q gave %q", data, word)
		}
	})
}
