package keyring

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"filippo.io/age"

	"runnerd/internal/redact"
)

// openKey reads the identity; the error is fs.ErrNotExist when there is none.
func (f *File) openKey(passphrase redact.Secret) (*age.X25519Identity, error) {
	data, err := readPrivate(f.path(keyFile), 1<<16)
	if err != nil {
		return nil, err
	}
	word, err := age.NewScryptIdentity(passphrase.Reveal())
	if err != nil {
		return nil, err
	}
	word.SetMaxWorkFactor(maxWorkFactor)
	plain, err := decrypt(data, word)
	if e, ok := errors.AsType[*age.NoIdentityMatchError](err); ok && slices.Equal(e.StanzaTypes, []string{"scrypt"}) {
		return nil, fmt.Errorf("%w: it does not open %s", ErrPassphrase, f.path(keyFile))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, f.path(keyFile), err)
	}
	defer clear(plain)
	identity, err := age.ParseX25519Identity(strings.TrimSpace(string(plain)))
	if err != nil { // which quotes what it read
		return nil, fmt.Errorf("%w: %s holds no key", ErrCorrupt, f.path(keyFile))
	}
	return identity, nil
}

// makeKey begins a new store.
func (f *File) makeKey(passphrase redact.Secret, workFactor int) (*age.X25519Identity, error) {
	if _, err := os.Lstat(f.path(valuesFile)); err == nil {
		return nil, fmt.Errorf("%w: %s is missing, which opens %s; put it back, or move both away to begin anew",
			ErrCorrupt, f.path(keyFile), f.path(valuesFile))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, err
	}
	word, err := age.NewScryptRecipient(passphrase.Reveal())
	if err != nil {
		return nil, err
	}
	word.SetWorkFactor(workFactor)
	data, err := encrypt([]byte(identity.String()+"\n"), word)
	if err != nil {
		return nil, err
	}
	return identity, replaceFile(f.path(keyFile), data)
}

func encrypt(plain []byte, to age.Recipient) ([]byte, error) {
	var out bytes.Buffer
	w, err := age.Encrypt(&out, to)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// decrypt gives the whole plaintext or none of it.
func decrypt(data []byte, with age.Identity) ([]byte, error) {
	r, err := age.Decrypt(bytes.NewReader(data), with)
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return plain, nil
}
