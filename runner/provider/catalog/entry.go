package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"runnerd/internal/wire"
	"runnerd/runner/provider/claudecli"
	"runnerd/runner/provider/codexcli"
	"runnerd/runner/provider/openaiapi"
)

// An Entry is one provider as the owner configured it. Its key, if any, is in the credential store and not here.
type Entry struct {
	Name          string   `json:"name"`
	Backend       string   `json:"backend"`
	BaseURL       string   `json:"baseUrl,omitempty"`
	Path          string   `json:"path,omitempty"`   // of the program, where it is not found by itself
	Models        []string `json:"models,omitempty"` // empty: what the backend lists
	Lanes         int      `json:"lanes,omitempty"`  // steps at once; 0: one per subscription login, else no own limit
	TermsAccepted bool     `json:"termsAccepted,omitempty"`
	Disabled      bool     `json:"disabled,omitempty"`
}

// ErrTerms says that a subscription program needs the owner's confirmation.
var ErrTerms = errors.New("the terms of the vendor were not confirmed")

// Terms is what an owner confirms for a backend, empty when nothing.
func Terms(backend string) string {
	vendor := map[string]string{claudecli.Name: "Anthropic", codexcli.Name: "OpenAI"}[backend]
	if vendor == "" {
		return ""
	}
	return fmt.Sprintf("This uses your own %s login on this computer. Whether your plan allows such use is between you and "+
		"%s: read its terms before you confirm. An API key from `runnerd credential set` is used instead when there is one.", vendor, vendor)
}

// Validate names what is wrong.
func (e Entry) Validate() error {
	var errs []error
	if e.Name == "" || len(e.Name) > wire.MaxID || strings.ContainsFunc(e.Name, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '/' }) {
		errs = append(errs, errors.New("name: must be 1 to 128 characters without spaces or slashes"))
	}
	if !slices.Contains(Backends(), e.Backend) {
		errs = append(errs, fmt.Errorf("backend: must be one of %s", strings.Join(Backends(), ", ")))
	}
	if e.BaseURL != "" {
		u, err := url.Parse(e.BaseURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			errs = append(errs, errors.New("base-url: must be an http or https URL without a user"))
		}
	} else if e.Backend == openaiapi.Name {
		errs = append(errs, errors.New("base-url: is needed for this backend, for example http://127.0.0.1:1234/v1"))
	}
	if e.Path != "" && !filepath.IsAbs(e.Path) {
		errs = append(errs, errors.New("path: must be absolute"))
	}
	if e.Lanes < 0 || e.Lanes > wire.MaxHeld {
		errs = append(errs, fmt.Errorf("lanes: must be 0 to %d", wire.MaxHeld))
	}
	if Terms(e.Backend) != "" && !e.TermsAccepted {
		errs = append(errs, ErrTerms)
	}
	return errors.Join(errs...)
}

// StepsAtOnce is the number of lanes: one for a login that several programs would fight over (UD-61), 0 for no own limit.
func (e Entry) StepsAtOnce() int {
	if e.Lanes == 0 && Terms(e.Backend) != "" {
		return 1
	}
	return e.Lanes
}

// local tells an endpoint on this machine or network from a vendor's.
func (e Entry) local() bool {
	u, err := url.Parse(e.BaseURL)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsPrivate())
}

type file struct {
	Version   int     `json:"version"`
	Providers []Entry `json:"providers"`
}

func load(path string) (map[string]Entry, error) {
	entries := map[string]Entry{}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return entries, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the providers: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	var f file
	if err := dec.Decode(&f); err != nil {
		return nil, fmt.Errorf("read the providers: %s: %w", path, err)
	}
	if f.Version != 1 {
		return nil, fmt.Errorf("read the providers: %s has version %d, this program knows 1", path, f.Version)
	}
	for _, e := range f.Providers {
		if err := e.Validate(); err != nil {
			return nil, fmt.Errorf("read the providers: %s: %s: %w", path, e.Name, err)
		}
		entries[e.Name] = e
	}
	return entries, nil
}

// save replaces the file whole: it is the old one or the new one.
func save(path string, entries map[string]Entry) error {
	f := file{Version: 1, Providers: []Entry{}}
	for _, e := range entries {
		f.Providers = append(f.Providers, e)
	}
	slices.SortFunc(f.Providers, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("write the providers: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write the providers: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".providers-*") // 0600
	if err != nil {
		return fmt.Errorf("write the providers: %w", err)
	}
	_, err = tmp.Write(append(b, '\n'))
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // the first error counts
		return fmt.Errorf("write the providers: %w", err)
	}
	return nil
}

func byName[T interface{ name() string }](all iter.Seq[T]) []T {
	return slices.SortedFunc(all, func(a, b T) int { return cmp.Compare(a.name(), b.name()) })
}

func (e Entry) name() string { return e.Name }
