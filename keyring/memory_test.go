package keyring_test

import (
	"testing"

	"runnerd/keyring"
	"runnerd/keyring/keyringtest"
)

func TestMemoryKeepsThePromises(t *testing.T) {
	keyringtest.Run(t, func(*testing.T) keyring.Keyring { return keyring.NewMemory() })
}
