package keyring

import (
	"bytes"
	"errors"
	"fmt"

	"runnerd/internal/redact"
)

// maxPassphrase is the largest passphrase file we read.
const maxPassphrase = 4096

// ReadPassphraseFile reads the passphrase of an encrypted file store from path:
// a regular file that belongs to us, with no permission for group or others
// (0600 or 0400; a user unit's systemd credential is one). A symbolic link is
// judged by what it leads to. One newline at the end is dropped. On Windows the
// access list is the profile's and is not looked at.
func ReadPassphraseFile(path string) (redact.Secret, error) {
	data, err := readPrivate(path, maxPassphrase)
	if err == nil {
		data, err = trimPassphrase(data)
	}
	if err != nil {
		return redact.Secret{}, fmt.Errorf("passphrase file %s: %w", path, err)
	}
	return redact.New(string(data)), nil
}

// trimPassphrase takes one line ending off, as editors and echo add one.
func trimPassphrase(data []byte) ([]byte, error) {
	if line, ok := bytes.CutSuffix(data, []byte("\n")); ok {
		data = bytes.TrimSuffix(line, []byte("\r"))
	}
	if len(data) == 0 {
		return nil, errors.New("it is empty")
	}
	return data, nil
}
