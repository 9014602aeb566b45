package keyring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"filippo.io/age"

	"runnerd/internal/redact"
)

// File is an encrypted store in a folder of its own, for machines without a
// keychain. The owner chooses it and gives a passphrase.
//
//	keyring.key.age   an X25519 identity, encrypted with the passphrase (scrypt)
//	keyring.age       the values, encrypted to that identity
//	keyring.lock      empty; held by the process that reads or writes
//
// The costly scrypt is paid once, by OpenFile, and not by each call. The
// recipient is written down nowhere in the clear, so nobody without the
// passphrase can make a keyring.age that opens. Every call reads the file
// anew, so processes see each other's changes. Files are 0600, the folder 0700;
// wider ones are refused. A file is replaced as a whole, and synced with its
// folder before Set or Delete returns.
type File struct {
	folder   string
	lock     *fileLock
	identity *age.X25519Identity
}

var _ Keyring = (*File)(nil)

// FileConfig says where an encrypted store lies and what opens it.
type FileConfig struct {
	// Folder belongs to the store alone. It is made if it is not there.
	Folder string
	// Passphrase opens the store, and is set by the first to open it.
	Passphrase redact.Secret
	// WorkFactor is the base-2 logarithm of scrypt's N for a new store. Zero
	// means 17: 128 MiB and about half a second, the first choice of OWASP's
	// Password Storage Cheat Sheet. (age's own 18 wants 256 MiB, which the
	// small machines that need this store may not have.)
	WorkFactor int
	// Timeout is how long to wait for another process; zero means 5 s.
	Timeout time.Duration
}

const (
	keyFile    = "keyring.key.age"
	valuesFile = "keyring.age"

	// maxWorkFactor is 1 GiB: a planted key file must not eat the machine.
	maxWorkFactor = 20
	// maxFile is the largest file we read, maxValues the largest we write.
	maxFile   = 8 << 20
	maxValues = maxFile / 2
)

// OpenFile opens the store in cfg.Folder, or makes it when there is none. It
// takes as long as the work factor says. Its errors are ErrPassphrase,
// ErrCorrupt, ErrLocked when another process holds the store for too long, and
// those of the file system.
func OpenFile(ctx context.Context, cfg FileConfig) (*File, error) {
	f, err := openFile(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open credential store %s: %w", cfg.Folder, err)
	}
	return f, nil
}

func openFile(ctx context.Context, cfg FileConfig) (*File, error) {
	if cfg.WorkFactor == 0 {
		cfg.WorkFactor = 17
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	switch {
	case cfg.Folder == "":
		return nil, errors.New("no folder given")
	case cfg.Passphrase.Reveal() == "":
		return nil, fmt.Errorf("%w: it is empty", ErrPassphrase)
	case cfg.WorkFactor < 1 || cfg.WorkFactor > maxWorkFactor:
		return nil, fmt.Errorf("work factor %d is not within 1 and %d", cfg.WorkFactor, maxWorkFactor)
	}
	if err := os.MkdirAll(cfg.Folder, 0o700); err != nil {
		return nil, err
	}
	fi, err := os.Stat(cfg.Folder)
	if err != nil {
		return nil, err
	}
	if err := checkPrivate(cfg.Folder, fi); err != nil {
		return nil, err
	}
	f := &File{folder: cfg.Folder, lock: newFileLock(filepath.Join(cfg.Folder, "keyring.lock"), cfg.Timeout)}
	unlock, err := f.lock.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	for _, name := range []string{keyFile, valuesFile} {
		if err := dropTemps(f.path(name)); err != nil {
			return nil, err
		}
	}
	f.identity, err = f.openKey(cfg.Passphrase)
	if errors.Is(err, fs.ErrNotExist) {
		f.identity, err = f.makeKey(cfg.Passphrase, cfg.WorkFactor)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) path(name string) string { return filepath.Join(f.folder, name) }

// Get returns the credential called name.
func (f *File) Get(ctx context.Context, name string) (redact.Secret, error) {
	if err := CheckName(name); err != nil {
		return redact.Secret{}, err
	}
	values, err := f.snapshot(ctx)
	if err != nil {
		return redact.Secret{}, fmt.Errorf("read %s: %w", name, err)
	}
	value, ok := values[name]
	if !ok {
		return redact.Secret{}, fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	return redact.New(string(value)), nil
}

// Set stores a credential under name.
func (f *File) Set(ctx context.Context, name string, secret redact.Secret) error {
	if err := check(name, secret, MaxSize); err != nil {
		return err
	}
	err := f.change(ctx, func(v values) error {
		v[name] = []byte(secret.Reveal())
		return nil
	})
	if err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	return nil
}

// Delete removes the credential called name.
func (f *File) Delete(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	err := f.change(ctx, func(v values) error {
		if _, ok := v[name]; !ok {
			return ErrNotFound
		}
		delete(v, name)
		return nil
	})
	if err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// List returns the names of all credentials in byte order.
func (f *File) List(ctx context.Context) ([]string, error) {
	values, err := f.snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("list credentials: %w", err)
	}
	return slices.Sorted(maps.Keys(values)), nil
}

// snapshot reads all values.
func (f *File) snapshot(ctx context.Context) (values, error) {
	unlock, err := f.lock.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return f.load()
}

// change reads all values, lets edit change them, and writes them back, while
// no other process can.
func (f *File) change(ctx context.Context, edit func(values) error) error {
	unlock, err := f.lock.acquire(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	v, err := f.load()
	if err != nil {
		return err
	}
	if err := edit(v); err != nil {
		return err
	}
	plain, err := v.encode()
	if err != nil {
		return err
	}
	defer clear(plain)
	if len(plain) > maxValues {
		return fmt.Errorf("%w: all together would have %d bytes, at most %d fit", ErrTooLarge, len(plain), maxValues)
	}
	data, err := encrypt(plain, f.identity.Recipient())
	if err != nil {
		return err
	}
	return replaceFile(f.path(valuesFile), data)
}

func (f *File) load() (values, error) {
	data, err := readPrivate(f.path(valuesFile), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return values{}, nil // nothing was set yet
	}
	if err != nil {
		return nil, err
	}
	plain, err := decrypt(data, f.identity)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, f.path(valuesFile), err)
	}
	defer clear(plain)
	v, err := decodeValues(plain)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, f.path(valuesFile), err)
	}
	return v, nil
}
