// Package keyring keeps a person's credentials on their own machine: provider
// keys, connector tokens and the runner's own bearer.
//
// There is one interface and three stores: the keychain of the operating
// system ([System]), an encrypted file for machines without one ([File]), and
// memory for tests and for a daemon that should leave nothing behind
// ([Memory]). Which one is used is the owner's explicit choice; no store ever
// falls back to another, and none writes a credential in the clear.
//
// What all of them promise, and keyringtest holds them to:
//
//   - A credential goes in and comes out as a [redact.Secret], byte for byte.
//     No error message contains one.
//   - Set has stored the value for good when it returns nil; when it returns
//     an error the former value is still there, except for [ErrLocked] from a
//     keychain that did not answer in time: see [System].
//   - A store that cannot be reached now says so by [ErrLocked] or
//     [ErrUnavailable] within its deadline, and works again without a restart
//     once the cause is gone. So a locked keychain degrades the providers that
//     need it, and nothing else.
//   - All methods may be called from many goroutines and, for System and File,
//     from many processes.
package keyring

import (
	"context"
	"errors"
	"fmt"

	"runnerd/internal/redact"
)

// A Keyring stores credentials by name. It is wide because it has twins.
type Keyring interface {
	// Get returns the credential called name, or ErrNotFound.
	Get(ctx context.Context, name string) (redact.Secret, error)
	// Set stores a credential under name and replaces one that is there.
	Set(ctx context.Context, name string, secret redact.Secret) error
	// Delete removes the credential called name, or returns ErrNotFound.
	Delete(ctx context.Context, name string) error
	// List returns the names of all credentials, in byte order. A name may be
	// listed whose value is gone, if a process died in the middle of Set or
	// Delete; the reverse never happens.
	List(ctx context.Context) ([]string, error)
}

// Errors that callers act on. Test for them with errors.Is.
var (
	// ErrNotFound says that there is no credential of that name.
	ErrNotFound = errors.New("no such credential")

	// ErrLocked says that there is a store, but it does not open now: the
	// keychain is locked, the person denied or dismissed its prompt, it did
	// not answer within the deadline, or another process holds the file.
	// Trying again later can help.
	ErrLocked = errors.New("credential store is locked")

	// ErrUnavailable says that there is no store to talk to: no session bus,
	// no keyring service, no login session, a connection that broke. The
	// message names the remedy.
	ErrUnavailable = errors.New("no credential store")

	// ErrTooLarge says that the store cannot hold a value of this size.
	// SafeSize bytes fit everywhere.
	ErrTooLarge = errors.New("credential is too large")

	// ErrInvalid says that the name is not one (see CheckName) or that the
	// value is empty.
	ErrInvalid = errors.New("not a valid credential")

	// ErrPassphrase says that the passphrase does not open the encrypted file.
	ErrPassphrase = errors.New("wrong passphrase")

	// ErrCorrupt says that what the store holds is damaged. The message names
	// the file or item. Nothing is overwritten.
	ErrCorrupt = errors.New("credential store is damaged")
)

const (
	// SafeSize is the number of bytes that every store on every system takes.
	SafeSize = 2048
	// MaxSize is the number of bytes that no store takes more of. System
	// keychains may take less: Windows 2,560 bytes, macOS about 2,900.
	MaxSize = 64 << 10
	// MaxName is the longest name, in bytes.
	MaxName = 128
)

// CheckName reports, as ErrInvalid, a name that is not 1 to MaxName letters,
// digits and "._:/@-", beginning with a letter or digit. The alphabet is what
// passes unquoted through every keychain's command line and user interface.
func CheckName(name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("%w: a name has 1 to %d bytes, not %d", ErrInvalid, MaxName, len(name))
	}
	for i := range len(name) {
		c := name[i]
		word := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		mark := c == '.' || c == '_' || c == ':' || c == '/' || c == '@' || c == '-'
		if !word && (!mark || i == 0) {
			return fmt.Errorf("%w: name %q has %q at %d; letters, digits and ._:/@- are allowed, a letter or digit first",
				ErrInvalid, name, c, i)
		}
	}
	return nil
}

// check is what every Set asks first, so that all stores refuse the same.
func check(name string, secret redact.Secret, room int) error {
	if err := CheckName(name); err != nil {
		return err
	}
	switch n := len(secret.Reveal()); {
	case n == 0:
		return fmt.Errorf("%w: %s is empty", ErrInvalid, name)
	case n > room:
		return fmt.Errorf("%w: %s has %d bytes, at most %d fit", ErrTooLarge, name, n, room)
	}
	return nil
}
