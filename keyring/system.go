package keyring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"runnerd/internal/redact"
)

// System is the keychain of the operating system: Credential Manager on
// Windows, the login keychain on macOS, the Secret Service on Linux.
//
// Those take no context, can wait for ever for an answer to a prompt, and cap
// sizes. So at most one call is made at a time, and each has a deadline. A call
// that passes it is left to itself ("parked") and its caller gets ErrLocked:
// the keychain does not answer. The next call gets a worker of its own. When
// SystemConfig.Parked calls are waiting for the keychain, further ones are
// answered ErrLocked without asking, until one of them returns.
//
//	         turn free            answered in time
//	waiting ───────────▶ running ─────────────────▶ done
//	   │                    │ deadline, or ctx ends
//	   │ deadline           ▼
//	   ▼                  parked ──answered late──▶ done (result dropped)
//	ErrLocked             ErrLocked
//
// After ErrLocked a Set or Delete may still happen when the person at last
// answers the prompt. It never undoes a later one of the same name: when a
// parked write returns, the newest write that overlapped it is made again.
//
// Each method waits for its turn no longer than the deadline, to change
// something as long for other processes, and as long for the keychain; all this
// ends with its context.
// A denied or dismissed prompt is ErrLocked, and so is a keychain that is
// locked where nobody can be asked. No bus, no service, no login session and a
// connection that breaks are ErrUnavailable.
type System struct {
	service string
	timeout time.Duration
	limits  limits
	lock    *fileLock // between processes, around changes of the index
	backend backend

	turn   chan struct{} // holds a token while a call runs
	parked chan struct{} // holds a token for each call that runs on past its deadline
	closed chan struct{}
	close  func() error
	writes overlaps
}

var _ Keyring = (*System)(nil)

// SystemConfig says where in the keychain a System keeps its items.
type SystemConfig struct {
	// Service is the name under which all items are filed. It includes the
	// installation's id, so that two data folders of one person stay apart.
	Service string
	// LockFile is a path in the data folder. Processes of one installation
	// lock it while they change the list of names. Empty means that there is
	// one process only.
	LockFile string
	// Timeout is how long the keychain may take to answer; zero means 5 s.
	Timeout time.Duration
	// Parked is how many unanswered calls may be left waiting; zero means 3.
	Parked int
}

// A backend is what a keychain client offers. Its errors are ours.
type backend interface {
	Get(account string) (string, error)
	Set(account, value string) error
	Delete(account string) error
}

// limits are what a system's keychain can hold.
type limits struct {
	secret   int  // most bytes of a value; 0: no limit of its own
	line     int  // most bytes of macOS's command line, value in base64 included; 0: none
	foldCase bool // accounts that differ only in case are the same
}

// NewSystem returns the store of cfg.Service in the system's keychain. It does
// not touch the keychain: whether there is one shows with the first call, and
// may change. Close ends it.
func NewSystem(cfg SystemConfig) (*System, error) {
	if err := CheckName(cfg.Service); err != nil {
		return nil, fmt.Errorf("keychain service: %w", err)
	}
	if cfg.Timeout < 0 || cfg.Parked < 0 {
		return nil, fmt.Errorf("keychain: timeout %v and parked %d must not be negative", cfg.Timeout, cfg.Parked)
	}
	return newSystem(cfg, osBackend(cfg.Service), osLimits()), nil
}

func newSystem(cfg SystemConfig, b backend, l limits) *System {
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	if cfg.Parked == 0 {
		cfg.Parked = 3
	}
	s := &System{
		service: cfg.Service,
		timeout: cfg.Timeout,
		limits:  l,
		lock:    newFileLock(cfg.LockFile, cfg.Timeout),
		backend: b,
		turn:    make(chan struct{}, 1),
		parked:  make(chan struct{}, cfg.Parked),
		closed:  make(chan struct{}),
	}
	s.close = sync.OnceValue(s.shut)
	return s
}

// Get returns the credential called name.
func (s *System) Get(ctx context.Context, name string) (redact.Secret, error) {
	if err := CheckName(name); err != nil {
		return redact.Secret{}, err
	}
	value, err := do(ctx, s, func(c *call) (string, error) {
		return c.get(s.account(name))
	})
	if err != nil {
		return redact.Secret{}, fmt.Errorf("read %s from the keychain: %w", name, err)
	}
	return redact.New(value), nil
}

// Set stores a credential under name.
func (s *System) Set(ctx context.Context, name string, secret redact.Secret) error {
	if err := check(name, secret, s.room(name)); err != nil {
		return err
	}
	err := s.change(ctx, func(c *call) error {
		if err := c.addName(name); err != nil {
			return err
		}
		if err := c.set(s.account(name), secret.Reveal()); err != nil {
			return err
		}
		// go-keyring reports a dismissed prompt as success on Linux, and the
		// exit code of `security -i` on macOS says little: look.
		if got, err := c.get(s.account(name)); errors.Is(err, ErrNotFound) || err == nil && got != secret.Reveal() {
			return fmt.Errorf("%w: the keychain did not keep it (was its prompt dismissed?)", ErrLocked)
		} else if err != nil {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store %s in the keychain: %w", name, err)
	}
	return nil
}

// Delete removes the credential called name.
func (s *System) Delete(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	err := s.change(ctx, func(c *call) error {
		gone := c.delete(s.account(name))
		switch {
		case errors.Is(gone, ErrNotFound): // then its name must go too
		case gone != nil:
			return gone
		default:
			if _, err := c.get(s.account(name)); err == nil {
				return fmt.Errorf("%w: the keychain still has it (was its prompt dismissed?)", ErrLocked)
			} else if !errors.Is(err, ErrNotFound) {
				return err
			}
		}
		if err := c.dropName(name); err != nil {
			return err
		}
		return gone
	})
	if err != nil {
		return fmt.Errorf("remove %s from the keychain: %w", name, err)
	}
	return nil
}

// List returns the names of all credentials in byte order.
func (s *System) List(ctx context.Context) ([]string, error) {
	pages, err := do(ctx, s, (*call).readPages)
	if err != nil {
		return nil, fmt.Errorf("list the keychain: %w", err)
	}
	var names []string
	for _, p := range pages {
		names = append(names, p.Names...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// account is the keychain's own name for a credential. Credential Manager does
// not tell "Key" from "key" (CREDENTIALW.TargetName is case-insensitive), so
// there a capital becomes "=" and its small letter; "=" is in no name.
func (s *System) account(name string) string {
	if !s.limits.foldCase {
		return name
	}
	var b strings.Builder
	for _, r := range name {
		if 'A' <= r && r <= 'Z' {
			b.WriteByte('=')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// room is how many bytes a credential called name may have.
func (s *System) room(name string) int {
	room := MaxSize
	if s.limits.secret > 0 {
		room = min(room, s.limits.secret)
	}
	if s.limits.line > 0 {
		// go-keyring writes: add-generic-password -U -s … -a … -w go-keyring-base64:…
		const fixed = len("add-generic-password -U -s '' -a '' -w 'go-keyring-base64:'\n")
		room = min(room, (s.limits.line-fixed-len(s.service)-len(s.account(name)))/4*3)
	}
	return room
}
