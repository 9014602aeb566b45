package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"runnerd/gateway/bus"
	"runnerd/gateway/bus/membus"
	"runnerd/gateway/bus/natsbus"
	"runnerd/gateway/store"
	"runnerd/gateway/store/postgres"
	"runnerd/gateway/store/sqlite"
	"runnerd/internal/cli"
)

// storage says where a gateway keeps what it keeps, and how it hears of others: by default in its data folder, alone.
type storage struct {
	Database string `placeholder:"URL" help:"PostgreSQL database instead of the embedded one: postgres://user@host/name. A password comes from PGPASSFILE or ~/.pgpass, or stands in GATEWAY_DATABASE."`
	Bus      string `placeholder:"URL" help:"NATS server that the gateways of one database ring each other over: nats://host:4222."`
}

func (s storage) check() error {
	switch {
	case s.Database != "" && !oneOf(s.Database, "postgres://", "postgresql://"):
		return cli.Usagef("database: must be like postgres://user@db.example.org/gateway")
	case s.Bus != "" && !oneOf(s.Bus, "nats://", "tls://", "ws://", "wss://"):
		return cli.Usagef("bus: must be like nats://bus.example.org:4222")
	case s.Bus != "" && s.Database == "":
		return cli.Usagef("bus: gateways that share a bus share a database too: name it with --database")
	}
	return nil
}

func oneOf(url string, schemes ...string) bool {
	for _, s := range schemes {
		if strings.HasPrefix(url, s) {
			return true
		}
	}
	return false
}

// An opened storage is there until it is closed.
type opened struct {
	store  store.Store
	bus    bus.Bus
	failed <-chan struct{} // closed when the store cannot go on; nil: it always can
	err    func() error    // why
}

func (o opened) Close() error { return errors.Join(o.store.Close(), o.bus.Close()) }

func (s storage) open(ctx context.Context, dir string, log *slog.Logger) (o opened, err error) {
	if err := s.check(); err != nil {
		return o, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return o, fmt.Errorf("make the data folder: %w", err)
	}
	if err := s.remember(dir); err != nil {
		return o, err
	}
	o.bus = membus.New()
	if s.Bus != "" {
		b, err := natsbus.Open(s.Bus, natsbus.Options{Log: log})
		if err != nil {
			return o, err
		}
		o.bus = b
	}
	if s.Database != "" {
		o.store, err = postgres.Open(ctx, s.Database, postgres.Options{Ring: o.bus.Ring, Log: log})
	} else {
		err = o.embed(ctx, dir)
	}
	if err != nil {
		return o, errors.Join(err, o.bus.Close())
	}
	return o, nil
}

func (o *opened) embed(ctx context.Context, dir string) error {
	s, err := sqlite.Open(ctx, filepath.Join(dir, "gateway.db"), sqlite.Options{Ring: o.bus.Ring})
	if errors.Is(err, store.ErrLocked) {
		return fmt.Errorf("another gateway has the data folder %s open", dir)
	}
	if err != nil {
		return err
	}
	o.store, o.failed, o.err = s, s.Failed(), s.Err
	return nil
}

// elsewhere is a file in the data folder of a gateway whose data is in a database: whoever forgets to name it would begin
// anew, with nothing.
const elsewhere = "in-a-database"

func (s storage) remember(dir string) error {
	path := filepath.Join(dir, elsewhere)
	if s.Database != "" {
		return os.WriteFile(path, []byte("The data of this gateway is in a PostgreSQL database. Delete this file to begin anew in this folder.\n"), 0o600)
	}
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("this gateway keeps its data in a database: name it with --database or GATEWAY_DATABASE; to begin anew without one, delete %s", path)
	}
	return nil
}
