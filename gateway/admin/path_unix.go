//go:build unix

package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// longestAddress is what every Unix takes: 104 bytes with the final zero on BSD and macOS, 108 on Linux.
const longestAddress = 103

func socketPath(dir string) string { return filepath.Join(dir, SocketName) }

// listenAt makes the socket in a private folder, so that nobody connects before its mode is set, and then puts it in place
// of whatever stands there.
func listenAt(place string) (*net.UnixListener, error) {
	private, err := os.MkdirTemp(filepath.Dir(place), ".sock-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(private)
	made := filepath.Join(private, "s")
	var l *net.UnixListener
	err = short(made, func(path string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it is about to have another name, by which ownListener removes it
	if err := errors.Join(os.Chmod(made, 0o600), os.Rename(made, place)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func dialAt(ctx context.Context, path string) (net.Conn, error) {
	var conn net.Conn
	err := short(path, func(path string) (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, "unix", path)
		return err
	})
	return conn, err
}

// short calls use with a path of the same file that fits into an address.
func short(path string, use func(string) error) (err error) {
	if len(path) <= longestAddress {
		return use(path)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return err
	}
	tmp := os.TempDir()
	if len(tmp) > longestAddress/2 { // $TMPDIR may be long itself
		tmp = "/tmp"
	}
	private, err := os.MkdirTemp(tmp, "gw-*")
	if err != nil {
		return fmt.Errorf("the path is too long for a socket, and there is no temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(private)) }()
	link := filepath.Join(private, "d")
	if err := os.Symlink(dir, link); err != nil {
		return err
	}
	return use(filepath.Join(link, filepath.Base(path)))
}

// notServing knows more errors that mean so on this system.
func notServing(error) bool { return false }
