package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
)

// maxPath is what fits into a socket's address on every system (104 bytes on macOS, with the end).
const maxPath = 100

// Path is where the socket of a data folder is: in it, or, when that is too long for a socket's address, in a private folder
// among the temporary files, named after it.
func Path(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	path := filepath.Join(dir, "runnerd.sock")
	if len(path) <= maxPath {
		return path
	}
	name := sha256.Sum256([]byte(dir))
	return filepath.Join(runtimeFolder(), hex.EncodeToString(name[:8]))
}

// Listen opens the socket of a data folder. The caller holds the folder's lock, so a socket that is there is a leftover.
func Listen(dir string, log *slog.Logger) (net.Listener, error) {
	path := Path(dir)
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("open local socket: %w", err)
	}
	if err := checkPrivate(folder); err != nil {
		return nil, fmt.Errorf("open local socket: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open local socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("open local socket: %w", err)
	}
	// The folder is private: nobody came in before this.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, fmt.Errorf("open local socket: %w", errors.Join(err, l.Close()))
	}
	return owners{l, log}, nil
}

// owners is a listener that turns others away.
type owners struct {
	net.Listener
	log *slog.Logger
}

func (o owners) Accept() (net.Conn, error) {
	for {
		c, err := o.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if err := checkPeer(c); err != nil {
			o.log.Warn("a caller of the local socket was turned away", "err", err)
			c.Close()
			continue
		}
		return c, nil
	}
}
