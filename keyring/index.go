package keyring

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// A system keychain cannot be asked which items are ours, so the names are kept
// in items of their own: a chain of pages, each small enough for every system.
//
// Set writes the name before the value and Delete removes the value before the
// name, so a process that dies in between leaves a name without a value, which
// List shows and Delete clears, and never a value that nothing lists.
const (
	pageSize = SafeSize
	maxPages = 64 // about 900 names of full length, far past any real use
)

// A page is one item of the index.
type page struct {
	Version int      `json:"v"`
	Names   []string `json:"names"`
	More    bool     `json:"more"` // another page follows
}

// pageAccount names the item of page i. A credential's name cannot begin with
// a dot, so the two never meet.
func pageAccount(i int) string { return ".index/" + strconv.Itoa(i) }

// encode returns the stored form of p.
func (p page) encode() ([]byte, error) {
	p.Version = 1
	if p.Names == nil {
		p.Names = []string{}
	}
	return json.Marshal(p)
}

// fits reports whether p fits into an item whatever becomes of More.
func (p page) fits() bool {
	p.More = false // the longer word
	data, err := p.encode()
	return err == nil && len(data) <= pageSize
}

// decodePage reads the stored form of a page, strictly: what we did not write
// is damage, and damage is reported rather than overwritten.
func decodePage(data []byte) (page, error) {
	var p page
	if err := decodeStrict(data, &p); err != nil {
		return page{}, err
	}
	if p.Version != 1 {
		return page{}, fmt.Errorf("version %d, want 1", p.Version)
	}
	for i, name := range p.Names {
		if err := CheckName(name); err != nil {
			return page{}, err
		}
		if slices.Contains(p.Names[:i], name) {
			return page{}, fmt.Errorf("name %s twice", name)
		}
	}
	return p, nil
}

// decodeStrict decodes exactly one JSON value without unknown members.
func decodeStrict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}

// readPages gives every page of the index, in order.
func (c *call) readPages() ([]page, error) {
	var pages []page
	for i := range maxPages {
		text, err := c.get(pageAccount(i))
		if errors.Is(err, ErrNotFound) {
			return pages, nil
		}
		if err != nil {
			return nil, err
		}
		p, err := decodePage([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("%w: item %s of %s: %w", ErrCorrupt, pageAccount(i), c.s.service, err)
		}
		pages = append(pages, p)
		if !p.More {
			return pages, nil
		}
	}
	return nil, fmt.Errorf("%w: more than %d index items of %s", ErrCorrupt, maxPages, c.s.service)
}

func (c *call) writePage(i int, p page) error {
	data, err := p.encode()
	if err != nil {
		return err
	}
	return c.set(pageAccount(i), string(data))
}

// addName puts name into the index unless it is there.
func (c *call) addName(name string) error {
	pages, err := c.readPages()
	if err != nil {
		return err
	}
	for _, p := range pages {
		if slices.Contains(p.Names, name) {
			return nil
		}
	}
	for i, p := range pages {
		p.Names = append(slices.Clone(p.Names), name)
		if p.fits() {
			return c.writePage(i, p)
		}
	}
	n := len(pages)
	if n == maxPages {
		return fmt.Errorf("%w: too many credentials", ErrTooLarge)
	}
	if err := c.writePage(n, page{Names: []string{name}}); err != nil || n == 0 {
		return err
	}
	pages[n-1].More = true // only now does the chain lead to the new page
	return c.writePage(n-1, pages[n-1])
}

// dropName takes name out of the index. Empty pages stay in the chain.
func (c *call) dropName(name string) error {
	pages, err := c.readPages()
	if err != nil {
		return err
	}
	for i, p := range pages {
		if at := slices.Index(p.Names, name); at >= 0 {
			p.Names = slices.Delete(p.Names, at, at+1)
			if err := c.writePage(i, p); err != nil {
				return err
			}
		}
	}
	return nil
}
