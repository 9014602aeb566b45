package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"
)

// SocketName is the socket's name in the data folder.
const SocketName = "gateway.sock"

var (
	// ErrServing says that another gateway answers on the socket of this data folder.
	ErrServing = errors.New("a gateway already serves this data folder")
	// ErrNotServing says that no gateway answers there; the caller may open the store itself.
	ErrNotServing = errors.New("no gateway serves this data folder")
)

const dialWithin = 2 * time.Second

// Listen opens the socket of a data folder. Connections of other users are closed as they come. Close removes the file.
func Listen(ctx context.Context, dir string, log *slog.Logger) (net.Listener, error) {
	if conn, err := Dial(ctx, dir); err == nil {
		return nil, errors.Join(ErrServing, conn.Close())
	} else if !errors.Is(err, ErrNotServing) {
		return nil, err
	}
	place := socketPath(dir)
	l, err := listenAt(place)
	if err != nil {
		return nil, fmt.Errorf("open the administration socket: %w", err)
	}
	made, err := os.Lstat(place)
	if err != nil {
		return nil, fmt.Errorf("open the administration socket: %w", errors.Join(err, l.Close()))
	}
	return &ownListener{l, place, made, log}, nil
}

// Dial connects to the gateway that serves a data folder, or gives ErrNotServing.
func Dial(ctx context.Context, dir string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	conn, err := dialAt(ctx, socketPath(dir))
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED), notServing(err):
		return nil, ErrNotServing
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("reach the gateway: its socket belongs to another user: %w", err)
	}
	return nil, fmt.Errorf("reach the gateway: %w", err)
}

// An ownListener accepts the connections of the user who runs us, and of root.
type ownListener struct {
	*net.UnixListener
	place string
	made  os.FileInfo
	log   *slog.Logger
}

// Accept waits for the next connection of somebody who may.
func (l *ownListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := peerUser(conn)
		if err == nil && mayConnect(uid, os.Getuid()) {
			return conn, nil
		}
		l.log.Warn("administration connection refused", "uid", uid, "err", err)
		if err := conn.Close(); err != nil {
			l.log.Debug("refused connection not closed", "err", err)
		}
	}
}

// mayConnect says whether user uid may administer a gateway that runs as user own.
func mayConnect(uid, own int) bool { return uid == own || uid == 0 }

// Close ends listening and removes the file, unless another gateway's stands there.
func (l *ownListener) Close() error {
	err := l.UnixListener.Close()
	if now, statErr := os.Lstat(l.place); statErr == nil && os.SameFile(now, l.made) {
		err = errors.Join(err, os.Remove(l.place))
	}
	return err
}
