package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
)

const longestAddress = 100

// socketPath is in the data folder if that fits, else in one of the user's own temporary folder.
func socketPath(dir string) string {
	path := filepath.Join(dir, SocketName)
	if len(path) <= longestAddress {
		return path
	}
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	sum := sha256.Sum256([]byte(strings.ToLower(dir)))
	return filepath.Join(os.TempDir(), "gw-"+hex.EncodeToString(sum[:6]), SocketName)
}

// listenAt makes the socket where it stays: whether one that is listened on may be renamed here is not documented. The
// caller has asked whether the one that stands there is alive.
func listenAt(place string) (*net.UnixListener, error) {
	if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
		return nil, err
	}
	if err := os.Remove(place); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: place, Net: "unix"})
	if err == nil {
		l.SetUnlinkOnClose(false) // ownListener does it
	}
	return l, err
}

func dialAt(ctx context.Context, path string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", path)
}

// notServing knows more errors that mean so on this system: a socket that nobody listens on, and a missing file, which
// Windows reports as an invalid argument or an unreachable network.
func notServing(err error) bool {
	return errors.Is(err, windows.WSAECONNREFUSED) || errors.Is(err, windows.WSAEINVAL) || errors.Is(err, windows.WSAENETUNREACH) ||
		errors.Is(err, windows.ERROR_PATH_NOT_FOUND)
}
