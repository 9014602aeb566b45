package keyring

import (
	"errors"
	"fmt"
	"os/exec"
)

// osLimits: go-keyring refuses a command line for security(1) above 4,096
// bytes, which the value in base64 is part of.
func osLimits() limits { return limits{line: 4096} }

// osBackend speaks to the login keychain by security(1).
func osBackend(service string) backend {
	return goKeyring{service: service, reach: func() error { return nil }, classify: classifySecurity}
}

// classifySecurity names the errors of security(1). It exits with the low byte
// of the OSStatus (Security/SecBase.h): -25308 gives 36.
func classifySecurity(err error) error {
	const unlock = "unlock the login keychain (log in at the screen, or run `security unlock-keychain`) and allow access"
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		switch e.ExitCode() {
		case 44: // errSecItemNotFound -25300
			return ErrNotFound
		case 36, // errSecInteractionNotAllowed -25308: locked, and no screen to ask on
			51,  // errSecAuthFailed -25293
			128: // errSecUserCanceled -128
			return fmt.Errorf("%w: %s: %w", ErrLocked, unlock, err)
		}
	}
	// 37 errSecNoDefaultKeychain, 50 errSecNoSuchKeychain, 53 errSecNotAvailable, no security(1)
	return fmt.Errorf("%w: no login keychain in this session; run as the logged-in user, or %s: %w", ErrUnavailable, chooseFile, err)
}
