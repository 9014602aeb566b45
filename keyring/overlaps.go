package keyring

import (
	"errors"
	"sync"
)

// overlaps keeps a parked write from undoing a newer one.
//
// A write whose caller has given up can still reach the keychain, seconds or
// hours later, after a newer write of the same account has returned: the old
// refresh token would be back. The order in which the keychain did the two is
// not known. So, while a write is out there, the newest one that began after it
// is remembered, and made again when the older one returns.
type overlaps struct {
	mu       sync.Mutex
	accounts map[string]*account
}

type account struct {
	out    int // writes that have not returned
	count  int
	newest *write
}

// A write is one attempt to change an account.
type write struct {
	seq    int
	try    func() error
	failed bool   // its caller knows, so it must not be made after all
	before *write // what counts if this one fails
}

// do makes a write and, if newer ones overlapped it, the newest of them again.
func (o *overlaps) do(name string, try func() error) error {
	w := o.begin(name, try)
	err := w.try()
	for again := o.end(name, w, err); again != nil; {
		again = o.end(name, again, again.try())
	}
	return err
}

// begin notes a write.
func (o *overlaps) begin(name string, try func() error) *write {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.accounts == nil {
		o.accounts = map[string]*account{}
	}
	a := o.accounts[name]
	if a == nil {
		a = &account{}
		o.accounts[name] = a
	}
	a.out++
	a.count++
	a.newest = &write{seq: a.count, try: try, before: a.newest}
	return a.newest
}

// end notes that w has returned. When a newer write has overlapped it, end
// gives that one, to be made again in w's place.
func (o *overlaps) end(name string, w *write, err error) (again *write) {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := o.accounts[name]
	w.failed = err != nil && !errors.Is(err, ErrNotFound) // what is not there is as deleted
	if !w.failed {
		w.before = nil // older values are history
	}
	for a.newest != nil && a.newest.failed {
		a.newest = a.newest.before
	}
	if a.newest != nil && a.newest.seq > w.seq {
		return a.newest
	}
	if a.out--; a.out == 0 {
		delete(o.accounts, name)
	}
	return nil
}
