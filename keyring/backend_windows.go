package keyring

import (
	"errors"
	"fmt"

	"golang.org/x/sys/windows"
)

// osLimits: CRED_MAX_CREDENTIAL_BLOB_SIZE is 5*512 bytes (wincred.h), and
// target names are compared without case.
func osLimits() limits { return limits{secret: 2560, foldCase: true} }

// osBackend speaks to Credential Manager.
func osBackend(service string) backend {
	return goKeyring{service: service, reach: func() error { return nil }, classify: classifyCred}
}

// classifyCred names the errors that CredRead and CredWrite document.
func classifyCred(err error) error {
	switch {
	case errors.Is(err, windows.ERROR_NOT_FOUND):
		return ErrNotFound
	case errors.Is(err, windows.ERROR_ACCESS_DENIED):
		return fmt.Errorf("%w: Credential Manager denies access: %w", ErrLocked, err)
	}
	// ERROR_NO_SUCH_LOGON_SESSION: a network logon (ssh, WinRM) or a service
	// account has no credential set.
	return fmt.Errorf("%w: Credential Manager has no store for this logon; log on at the machine and run as that user, or %s: %w",
		ErrUnavailable, chooseFile, err)
}
