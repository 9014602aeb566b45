package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"runnerd/gateway"
	"runnerd/gateway/admin"
	"runnerd/gateway/bus/membus"
	"runnerd/gateway/store/sqlite"
)

type hostKey struct{}

// A host is a script's gateway. It runs in the test's own process.
type host struct {
	gateway *gateway.Gateway
	url     string
	key     string // ada's
	dir     string
	log     *slog.Logger
	leave   func() error
}

func hostOf(ts *testscript.TestScript) *host { return ts.Value(hostKey{}).(*host) }

func number(n int) string { return strconv.Itoa(n) }

func newHost(e *testscript.Env) (*host, error) {
	t := e.T().(testing.TB)
	h := &host{dir: t.TempDir(), log: slog.New(slog.DiscardHandler), url: "http://127.0.0.1:0"}
	if err := h.come(); err != nil {
		return nil, err
	}
	e.Defer(func() {
		if err := h.leave(); err != nil {
			t.Errorf("stop the gateway: %v", err)
		}
	})
	ctx := t.Context()
	if _, err := h.gateway.Admin.AddUser(ctx, admin.UserRef{User: "ada"}); err != nil {
		return nil, err
	}
	key, err := h.gateway.Admin.CreateKey(ctx, admin.NewKey{User: "ada"})
	h.key = key.Key
	return h, err
}

// come starts the gateway, at the address that it had before.
func (h *host) come() error {
	ctx, stop := context.WithCancel(context.Background())
	bus := membus.New()
	store, err := sqlite.Open(ctx, filepath.Join(h.dir, "gateway.db"), sqlite.Options{Ring: bus.Ring})
	if err != nil {
		stop()
		return err
	}
	l, err := listenAgain(h.url[len("http://"):])
	if err != nil {
		stop()
		return errors.Join(err, store.Close(), bus.Close())
	}
	h.url = "http://" + l.Addr().String()
	socket, err := admin.Listen(ctx, h.dir, h.log)
	if err == nil {
		h.gateway, err = gateway.New(ctx, gateway.Config{Store: store, Bus: bus, Log: h.log, Version: "1.0.0", PublicURL: h.url})
	}
	if err != nil {
		stop()
		return errors.Join(err, l.Close(), store.Close(), bus.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- h.gateway.Run(ctx, l, socket) }()
	h.leave = func() error {
		stop()
		h.leave = func() error { return nil }
		return errors.Join(<-ended, store.Close(), bus.Close())
	}
	return nil
}

// listenAgain waits a moment for an address that was just left.
func listenAgain(address string) (l net.Listener, err error) {
	for range 50 {
		if l, err = net.Listen("tcp", address); err == nil {
			return l, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, err
}
