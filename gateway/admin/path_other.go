//go:build !unix && !windows

package admin

import (
	"context"
	"errors"
	"net"
	"path/filepath"
)

func socketPath(dir string) string { return filepath.Join(dir, SocketName) }

func listenAt(string) (*net.UnixListener, error) { return nil, errors.ErrUnsupported }

func dialAt(context.Context, string) (net.Conn, error) { return nil, errors.ErrUnsupported }

// notServing lets the command line open the store itself where there are no such sockets.
func notServing(err error) bool { return errors.Is(err, errors.ErrUnsupported) }
