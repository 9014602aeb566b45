package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"runnerd/internal/cli"
	"runnerd/internal/redact"
	"runnerd/keyring"
)

// The credential stores that --credential-store names.
const (
	storeSystem = "system"
	storeFile   = "file"
	storeMemory = "memory"
)

// openKeyring opens the credential store of an installation. close must be called.
func openKeyring(ctx context.Context, dir, kind string, w *world) (ring keyring.Keyring, closeRing func() error, err error) {
	nothing := func() error { return nil }
	switch kind {
	case storeMemory:
		return keyring.NewMemory(), nothing, nil
	case storeFile:
		secret, err := passphrase(w)
		if err != nil {
			return nil, nil, err
		}
		f, err := keyring.OpenFile(ctx, keyring.FileConfig{Folder: filepath.Join(dir, "credentials"), Passphrase: secret})
		if err != nil {
			return nil, nil, err
		}
		return f, nothing, nil
	case storeSystem:
		id, err := installation(dir)
		if err != nil {
			return nil, nil, err
		}
		s, err := keyring.NewSystem(keyring.SystemConfig{Service: "runnerd-" + id, LockFile: filepath.Join(dir, "keyring.lock")})
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}
	return nil, nil, cli.Usagef("credential-store: must be one of %s, %s, %s", storeSystem, storeFile, storeMemory)
}

// passphrase comes from the file that RUNNERD_PASSPHRASE_FILE names, or from a prompt where there is a person.
func passphrase(w *world) (redact.Secret, error) {
	if file := w.getenv("RUNNERD_PASSPHRASE_FILE"); file != "" {
		return keyring.ReadPassphraseFile(file)
	}
	secret, err := prompt(w, "Passphrase of the credential file: ")
	if errors.Is(err, errNoTerminal) {
		return redact.Secret{}, errors.New("the encrypted credential file needs a passphrase: put it into a file of mode 0600 and name that in RUNNERD_PASSPHRASE_FILE")
	}
	return secret, err
}

var errNoTerminal = errors.New("there is no terminal to ask on")

// prompt asks without showing what is typed.
func prompt(w *world, text string) (redact.Secret, error) {
	in, ok := w.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return redact.Secret{}, errNoTerminal
	}
	fmt.Fprint(w.stderr, text)
	b, err := term.ReadPassword(int(in.Fd()))
	fmt.Fprintln(w.stderr)
	if err != nil {
		return redact.Secret{}, fmt.Errorf("read from the terminal: %w", err)
	}
	return redact.New(string(b)), nil
}

// confirm asks a yes-or-no question where there is a person.
func confirm(w *world, question string) (bool, error) {
	in, ok := w.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return false, errNoTerminal
	}
	fmt.Fprint(w.stderr, question+" [y/N] ")
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read from the terminal: %w", err)
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}

// installation is a random name, made once in the data folder, that keeps two installations of one person apart (UD-18).
func installation(dir string) (string, error) {
	file := filepath.Join(dir, "installation")
	b, err := os.ReadFile(file)
	if err == nil && len(strings.TrimSpace(string(b))) > 0 {
		return strings.TrimSpace(string(b)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the installation's name: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the data folder: %w", err)
	}
	id := strings.ToLower(rand.Text()[:16])
	if err := os.WriteFile(file, []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write the installation's name: %w", err)
	}
	return id, nil
}

// providerKey names a provider's key in the credential store.
func providerKey(name string) string { return "provider." + name }

// keyOf reads a provider's key; that there is none is no error.
func keyOf(ring credentials) func(context.Context, string) (redact.Secret, error) {
	return func(ctx context.Context, name string) (redact.Secret, error) {
		secret, err := ring.Get(ctx, providerKey(name))
		if errors.Is(err, keyring.ErrNotFound) {
			return redact.Secret{}, nil
		}
		return secret, err
	}
}

type credentialCommands struct {
	Set    credentialSet    `cmd:"" help:"Store a provider's key, read from standard input or a prompt."`
	List   credentialList   `cmd:"" help:"List the names of stored keys."`
	Remove credentialRemove `cmd:"" help:"Remove a provider's key."`
}

type credentialSet struct {
	installed
	Name string `arg:"" help:"Name of the provider."`
}

func (c *credentialSet) Run(ctx context.Context, out *cli.Out, w *world) error {
	return c.withKeyring(ctx, w, func(ring keyring.Keyring) error {
		secret, err := prompt(w, "Key of "+c.Name+": ")
		if errors.Is(err, errNoTerminal) {
			var b []byte
			if b, err = io.ReadAll(io.LimitReader(w.stdin, 64<<10)); err == nil {
				secret = redact.New(strings.TrimRight(string(b), "\r\n"))
			}
		}
		if err != nil {
			return err
		}
		if secret.IsZero() {
			return cli.Usagef("the key is empty: give it on standard input")
		}
		if len(secret.Reveal()) < redact.MinLength {
			return cli.Usagef("the key is shorter than %d bytes, too short to be kept out of answers", redact.MinLength)
		}
		if err := ring.Set(ctx, providerKey(c.Name), secret); err != nil {
			return err
		}
		if err := c.changed(ctx, w); err != nil {
			return err
		}
		return out.Print(map[string]any{"name": c.Name, "stored": true}, func(w io.Writer) { fmt.Fprintln(w, "stored the key of", c.Name) })
	})
}

type credentialList struct{ installed }

func (c *credentialList) Run(ctx context.Context, out *cli.Out, w *world) error {
	return c.withKeyring(ctx, w, func(ring keyring.Keyring) error {
		names, err := ring.List(ctx)
		if err != nil {
			return err
		}
		providers := []string{}
		for _, n := range names {
			if p, ok := strings.CutPrefix(n, providerKey("")); ok {
				providers = append(providers, p)
			}
		}
		return out.Print(map[string]any{"credentials": providers}, func(w io.Writer) {
			for _, p := range providers {
				fmt.Fprintln(w, p)
			}
		})
	})
}

type credentialRemove struct {
	installed
	Name string `arg:"" help:"Name of the provider."`
}

func (c *credentialRemove) Run(ctx context.Context, out *cli.Out, w *world) error {
	return c.withKeyring(ctx, w, func(ring keyring.Keyring) error {
		if err := ring.Delete(ctx, providerKey(c.Name)); errors.Is(err, keyring.ErrNotFound) {
			return fmt.Errorf("there is no key of %s", c.Name)
		} else if err != nil {
			return err
		}
		return out.Print(map[string]any{"name": c.Name, "removed": true}, func(w io.Writer) { fmt.Fprintln(w, "removed the key of", c.Name) })
	})
}

// credentials is the part of a store that keys are read from.
type credentials interface {
	Get(ctx context.Context, name string) (redact.Secret, error)
}
