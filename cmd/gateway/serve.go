package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"runnerd/gateway"
	"runnerd/gateway/admin"
	"runnerd/gateway/identity"
	"runnerd/internal/cli"
	"runnerd/internal/redact"
)

// address is how a gateway is reached.
type address struct {
	folder
	Listen    string `default:"127.0.0.1:8480" help:"Address to listen on; port 0 takes a free one."`
	PublicURL string `name:"public-url" placeholder:"URL" help:"How people and runners reach it, when that is not the address it listens on."`
	LogLevel  string `enum:"debug,info,warn,error" default:"info" help:"What to log: debug, info, warn or error."`
}

type serveCommand struct {
	address
	storage
}

// Run serves until it is told to stop.
func (c *serveCommand) Run(ctx context.Context, out *cli.Out, w *world) error {
	return c.with(ctx, w, c.storage, func(ctx context.Context, s *serving) error {
		if err := out.Print(map[string]string{"url": s.url, "dataDir": s.dir}, func(o io.Writer) {
			fmt.Fprintf(o, "Serving %s\n\nAdd a person:   gateway user add NAME --data %s\nPair a machine: runnerd pair %s\n", s.url, s.dir, s.url)
		}); err != nil {
			return err
		}
		return s.gateway.Run(ctx, s.listener, s.socket)
	})
}

// A serving is a gateway that is ready to run.
type serving struct {
	gateway  *gateway.Gateway
	listener net.Listener
	socket   net.Listener // for administrators
	dir      string
	url      string // as people reach it
	local    string // as this machine does
	log      *slog.Logger
}

// with opens what a gateway needs, calls do, and closes it again.
func (c *address) with(parent context.Context, w *world, keeps storage, do func(context.Context, *serving) error) (err error) {
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	log, err := newLog(w.stderr, c.LogLevel)
	if err != nil {
		return err
	}
	dir, err := c.dir(w)
	if err != nil {
		return err
	}
	if err := checkPublicURL(c.PublicURL); err != nil {
		return err
	}
	if err := checkListen(c.Listen); err != nil {
		return err
	}
	kept, err := keeps.open(ctx, dir, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	go func() {
		select {
		case <-kept.failed: // a write may be lost: nothing is acknowledged any more (faults S03)
			stop(fmt.Errorf("the store cannot go on: %w", kept.err()))
		case <-ctx.Done():
		}
	}()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", c.Listen, err)
	}
	defer func() { _ = l.Close() }() // closed by the server already, unless it never began
	socket, err := admin.Listen(ctx, dir, log)
	if err != nil {
		return err
	}
	defer func() { _ = socket.Close() }() // likewise
	here := "http://" + reachable(l.Addr())
	public := cmp.Or(strings.TrimSuffix(c.PublicURL, "/"), here)
	g, err := gateway.New(ctx, gateway.Config{
		Store: kept.store, Bus: kept.bus, Log: log, Version: programVersion(), PublicURL: public,
		Seams: w.getenv("OPENWOP_TEST_SEAM_ENABLED") == "true",
	})
	if err != nil {
		return err
	}
	if err := do(ctx, &serving{g, l, socket, dir, public, here, log}); err != nil || parent.Err() != nil || ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// openAdmin opens the store for an administrator where nobody serves.
func openAdmin(ctx context.Context, dir string, w *world) (admin.Operations, func() error, error) {
	log := slog.New(slog.DiscardHandler)
	kept, err := storage{Database: w.getenv("GATEWAY_DATABASE"), Bus: w.getenv("GATEWAY_BUS")}.open(ctx, dir, log)
	if err != nil {
		return nil, nil, err
	}
	who, err := identity.New(ctx, kept.store, time.Now, log)
	if err != nil {
		return nil, nil, errors.Join(err, kept.Close())
	}
	at, err := admin.RecallURL(ctx, kept.store)
	if err != nil {
		return nil, nil, errors.Join(err, kept.Close())
	}
	return &admin.Admin{Store: kept.store, Identity: who, Now: time.Now, Version: programVersion(), URL: at}, kept.Close, nil
}

func newLog(w io.Writer, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, cli.Usagef("log-level: %v", err)
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l, ReplaceAttr: redact.Attr})), nil
}

func checkListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return cli.Usagef("listen: must be like 127.0.0.1:8480, or 127.0.0.1:0 for a free port")
	}
	return nil
}

func checkPublicURL(raw string) error {
	u, err := url.Parse(raw)
	if raw != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "") {
		return cli.Usagef("public-url: must be like https://gateway.example.org, without a path")
	}
	return nil
}

// reachable is a listening address that a browser on this machine can open.
func reachable(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
