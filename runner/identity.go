package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// ErrNotPaired says that a data folder belongs to no runner yet.
var ErrNotPaired = errors.New("not paired with a gateway yet; run `runnerd pair URL`")

// An Identity is what a runner is to its gateway. None of it is secret; it lies in runner.json, for the owner alone.
type Identity struct {
	Gateway  string    `json:"gateway"`
	RunnerID string    `json:"runnerId"`
	Subject  string    `json:"subject"`
	Name     string    `json:"name"`
	Store    string    `json:"credentialStore"` // the kind of store that was chosen at pairing
	Paired   time.Time `json:"paired"`
	Paused   bool      `json:"paused,omitempty"` // by the owner; outlives a restart
}

const identityFile = "runner.json"

// owner names whose journal it is: results of one pairing are never delivered under another. A gateway makes runner ids at
// random, so that one may move to another address.
func (i Identity) owner() string { return i.RunnerID }

// Readdress notes that the gateway of a data folder is now reached at another address.
func Readdress(dir, gateway string) error {
	i, err := LoadIdentity(dir)
	if err != nil || i.Gateway == gateway {
		return err
	}
	i.Gateway = gateway
	return i.save(dir)
}

// LoadIdentity reads the identity of a data folder.
func LoadIdentity(dir string) (Identity, error) {
	var i Identity
	b, err := os.ReadFile(filepath.Join(dir, identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return i, ErrNotPaired
	}
	if err != nil {
		return i, fmt.Errorf("read identity: %w", err)
	}
	if err := json.Unmarshal(b, &i); err != nil {
		return i, fmt.Errorf("read identity: %s: %w", identityFile, err)
	}
	if i.Gateway == "" || i.RunnerID == "" || i.Subject == "" {
		return i, fmt.Errorf("read identity: %s has no gateway, runnerId or subject", identityFile)
	}
	return i, nil
}

// save writes the identity so that a crash leaves the old file or the new one (faults S08).
func (i Identity) save(dir string) error {
	b, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	f, err := os.CreateTemp(dir, identityFile+".*") // 0600
	if err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, identityFile))
	}
	if err != nil {
		return fmt.Errorf("write identity: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

func forgetIdentity(dir string) error {
	if err := os.Remove(filepath.Join(dir, identityFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget identity: %w", err)
	}
	return nil
}
