package keyring_test

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"sync"

	"runnerd/keyring"
)

// A keychain is a system keychain in memory, with that system's limits, which
// can be made to misbehave.
type keychain struct {
	service  string
	secret   int // most bytes of a value; 0: any
	line     int // most bytes of macOS's command line; 0: any
	foldCase bool

	mu     sync.Mutex
	values map[string]string
	asked  int
	// before, if set, is called without the lock at the beginning of every
	// call and may block; when it returns an error, or skip, nothing is done.
	before func(op, account, value string) (skip bool, err error)
}

func (k *keychain) begin(op, account, value string) (skip bool, err error) {
	k.mu.Lock()
	k.asked++
	before := k.before
	k.mu.Unlock()
	if before != nil {
		return before(op, account, value)
	}
	return false, nil
}

// misbehave sets what happens before each call; nil ends it.
func (k *keychain) misbehave(before func(op, account, value string) (bool, error)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.before = before
}

func (k *keychain) key(account string) string {
	if k.foldCase {
		return strings.ToLower(account)
	}
	return account
}

func (k *keychain) Get(account string) (string, error) {
	if skip, err := k.begin("get", account, ""); skip || err != nil {
		return "", err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	value, ok := k.values[k.key(account)]
	if !ok {
		return "", keyring.ErrNotFound
	}
	return value, nil
}

func (k *keychain) Set(account, value string) error {
	if skip, err := k.begin("set", account, value); skip || err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	line := "add-generic-password -U -s " + k.service + " -a " + account +
		" -w go-keyring-base64:" + base64.StdEncoding.EncodeToString([]byte(value)) + "\n"
	if k.secret > 0 && len(value) > k.secret || k.line > 0 && len(line) > k.line {
		panic("the keychain was asked to hold too much")
	}
	if k.values == nil {
		k.values = map[string]string{}
	}
	k.values[k.key(account)] = value
	return nil
}

func (k *keychain) Delete(account string) error {
	if skip, err := k.begin("delete", account, ""); skip || err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.values[k.key(account)]; !ok {
		return keyring.ErrNotFound
	}
	delete(k.values, k.key(account))
	return nil
}

// content returns what it holds, and how often it was asked.
func (k *keychain) content() (values map[string]string, asked int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.values), k.asked
}

// holder is a misbehaviour: it blocks each call of op whose account and value
// contain what is asked for, until it is told to let go.
type holder struct {
	op, account, value string
	letGo              chan struct{}
	mu                 sync.Mutex
	limit, held        int // how many to hold; 0: all
}

func hold(op, account, value string, limit int) *holder {
	return &holder{op: op, account: account, value: value, limit: limit, letGo: make(chan struct{})}
}

func (h *holder) before(op, account, value string) (bool, error) {
	if !slices.Contains([]string{"", op}, h.op) || !strings.Contains(account, h.account) || !strings.Contains(value, h.value) {
		return false, nil
	}
	h.mu.Lock()
	mine := h.limit == 0 || h.held < h.limit
	if mine {
		h.held++
	}
	h.mu.Unlock()
	if mine {
		<-h.letGo
	}
	return false, nil
}
