package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"runnerd/gateway/store"
)

// Options are what a store needs from the process. Every member may be left out.
type Options struct {
	// Ring is told the topics of each commit of this gateway, in commit order and after it is durable. It must not block.
	Ring func(...store.Topic)
	// Wall is the wall clock: it judges what expires in wall time.
	Wall func() time.Time
	Log  *slog.Logger

	busy time.Duration   // busyTimeout, but for tests
	dial pgconn.DialFunc // lets tests stand between the store and the database
}

const (
	busyTimeout = 5 * time.Second        // how long a write waits for the database, or for others (faults.md S10)
	lockTimeout = 250 * time.Millisecond // how long all wait for a lock that one of them needs
	oldest      = 13                     // version of the server
)

// A Store is one gateway's connections to the database.
type Store struct {
	opt     Options
	cfg     *pgxpool.Config
	where   string // the database, without a password
	clock   clock
	readers *pgxpool.Pool
	writer  *writer
	closing chan struct{}
	closed  func() error
}

var _ store.Store = (*Store)(nil)

// Open connects to the database that url names, as the PostgreSQL manual describes connection strings, and brings its schema
// up to date. It fails with store.ErrNewer when a later version of this program has written to it. Errors name the database
// and never a password.
func Open(ctx context.Context, url string, opt Options) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{opt: opt.withDefaults(), cfg: cfg, where: whereabouts(cfg.ConnConfig), closing: make(chan struct{})}
	s.closed = sync.OnceValue(s.close)
	if err := s.open(ctx, strings.Contains(url, "pool_max_conns")); err != nil {
		return nil, fmt.Errorf("open store %s: %w", s.where, reason(err))
	}
	return s, nil
}

func (o Options) withDefaults() Options {
	if o.Ring == nil {
		o.Ring = func(...store.Topic) {}
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.busy == 0 {
		o.busy = busyTimeout
	}
	return o
}

// whereabouts says where a database is.
func whereabouts(c *pgx.ConnConfig) string {
	host := c.Host
	if !strings.HasPrefix(host, "/") {
		host = net.JoinHostPort(host, strconv.Itoa(int(c.Port)))
	}
	return fmt.Sprintf("%s of %s", c.Database, host)
}

// reason is why a connection did not come about, in one line: the driver lists every address and attempt.
func reason(err error) error {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); !ok {
		return err
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return e
	}
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}

func (s *Store) open(ctx context.Context, sized bool) error {
	c := s.cfg.ConnConfig
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = busyTimeout
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "gateway"
	}
	if s.opt.dial != nil {
		c.DialFunc = s.opt.dial
	}
	if !sized {
		s.cfg.MaxConns = int32(max(8, 4*runtime.GOMAXPROCS(0)))
	}
	if err := migrate(ctx, c); err != nil {
		return err
	}
	s.cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error { return prepare(ctx, c, reading) }
	readers, err := pgxpool.NewWithConfig(ctx, s.cfg)
	if err != nil {
		return err
	}
	w, err := s.connect(ctx)
	if err != nil {
		readers.Close()
		return err
	}
	s.readers, s.writer = readers, newWriter(s, w)
	return nil
}

// Close waits for the writer to finish what it took, and for the readers. Whoever waits in the queue gets store.ErrClosed.
func (s *Store) Close() error { return s.closed() }

func (s *Store) close() error {
	close(s.closing)
	<-s.writer.done
	s.readers.Close()
	return nil
}

func (s *Store) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// Commits counts the commits of this gateway since the store was opened (performance.md, P4b).
func (s *Store) Commits() int64 { return s.writer.commits.Load() }

func (s *Store) ring(topics []store.Topic) {
	if len(topics) > 0 {
		s.opt.Ring(topics...)
	}
}

// connect opens a writing connection.
func (s *Store) connect(ctx context.Context) (conn, error) {
	pg, err := pgx.ConnectConfig(ctx, s.cfg.ConnConfig)
	if err != nil {
		return conn{}, err
	}
	c := conn{pg}
	if err := prepare(ctx, pg, writing); err != nil {
		c.close()
		return conn{}, err
	}
	return c, nil
}

// connect makes sure that there is a connection. It tries for as long as a write may wait.
func (w *writer) connect() error {
	if w.c != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.s.opt.busy)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		c, err := w.s.connect(ctx)
		if err == nil {
			w.s.opt.Log.Info("connected to the database again")
			w.c = &c
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", store.ErrBusy, err)
		}
	}
}

// outcome asks what became of a transaction whose commit was not answered.
func (s *Store) outcome(xid string) (committed bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.opt.busy)
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		var status *string
		c, err := s.connect(ctx)
		if err == nil {
			err = c.pg.QueryRow(ctx, "SELECT pg_xact_status($1::text::xid8)", xid).Scan(&status)
			c.close()
		}
		switch {
		case err != nil:
		case status == nil:
			return false, errors.New("the database has forgotten it")
		case *status == "committed":
			return true, nil
		case *status == "aborted":
			return false, nil
		default:
			err = errors.New("it is in progress")
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false, err
		}
	}
}
