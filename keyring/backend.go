package keyring

import (
	"errors"
	"fmt"

	gokeyring "github.com/zalando/go-keyring"
)

// goKeyring is the backend of a real keychain. What differs between systems is
// in reach, which reports a keychain that cannot be there before go-keyring
// looks for it, and in classify, which gives its errors our names.
type goKeyring struct {
	service  string
	reach    func() error
	classify func(error) error
}

func (k goKeyring) Get(account string) (value string, err error) {
	err = k.call(func() (err error) {
		value, err = gokeyring.Get(k.service, account)
		return err
	})
	return value, err
}

func (k goKeyring) Set(account, value string) error {
	return k.call(func() error { return gokeyring.Set(k.service, account, value) })
}

func (k goKeyring) Delete(account string) error {
	return k.call(func() error { return gokeyring.Delete(k.service, account) })
}

// call makes one call and names its error.
func (k goKeyring) call(f func() error) (err error) {
	// When the session bus goes away during a prompt, go-keyring v0.2.8 reads
	// the name of a nil signal (secret_service.handlePrompt) and panics. The
	// end of a desktop session must not take the daemon down (UD-58).
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: the connection to the keychain broke: %v", ErrUnavailable, p)
		}
	}()
	if err := k.reach(); err != nil {
		return err
	}
	switch err := f(); {
	case err == nil:
		return nil
	case errors.Is(err, gokeyring.ErrNotFound):
		return ErrNotFound
	case errors.Is(err, gokeyring.ErrSetDataTooBig):
		return ErrTooLarge
	case errors.Is(err, gokeyring.ErrUnsupportedPlatform):
		return fmt.Errorf("%w: no keychain is supported on this system; %s", ErrUnavailable, chooseFile)
	default:
		return k.classify(err)
	}
}

// chooseFile is the remedy that works everywhere.
const chooseFile = "choose `--credential-store file`"
