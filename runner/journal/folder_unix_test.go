//go:build unix

package journal_test

import (
	"errors"
	"os"
	"testing"

	"runnerd/runner/journal"
)

func TestS13FolderThatOthersMayEnterIsRefused(t *testing.T) {
	o := newOpener(t)
	must(t, o.open(journal.Options{}).Close())
	for _, mode := range []os.FileMode{0o701, 0o710, 0o755, 0o770, 0o777} {
		must(t, os.Chmod(o.dir, mode))
		if _, err := journal.Open(o.dir, journal.Options{}); !errors.Is(err, journal.ErrPermissions) {
			t.Errorf("mode %#o: %v, want ErrPermissions", mode, err)
		}
	}
	must(t, os.Chmod(o.dir, 0o700))
	o.open(journal.Options{})
}
