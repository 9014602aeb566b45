package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	driver "modernc.org/sqlite"

	"runnerd/gateway/store"
)

// Options are what a store needs from the process. Every member may be left out.
type Options struct {
	// Ring is told the topics of each commit, in commit order and after it is durable. It must not block.
	Ring func(...store.Topic)
	// Wall is the wall clock: it judges what expires in wall time, and starts the store's own clock when a store is new.
	Wall func() time.Time
	// Mono is a monotonic clock's reading; only differences count.
	Mono func() time.Duration

	busy time.Duration                                 // busyTimeout, but for tests
	wrap func(sqldriver.Connector) sqldriver.Connector // lets tests stand between the store and the driver
}

// A Store is one open database file.
type Store struct {
	opt   Options
	path  string
	lock  *os.File
	clock clock

	writer  *writer
	readers chan *conn // those that nobody uses; nil stands for one that is not open yet
	closing chan struct{}
	closed  func() error
}

var _ store.Store = (*Store)(nil)

// Open opens the database at path and makes it if need be. It fails with store.ErrLocked when a gateway has it open, and
// with store.ErrNewer when a later version of this program wrote it.
func Open(ctx context.Context, path string, opt Options) (*Store, error) {
	opt = opt.withDefaults()
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	lock, err := lock(path)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	s := &Store{opt: opt, path: path, lock: lock, closing: make(chan struct{})}
	s.closed = sync.OnceValue(s.close)
	if err := s.open(ctx); err != nil {
		lock.Close()
		return nil, fmt.Errorf("open store %s: %w", path, err)
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
	if o.Mono == nil {
		start := time.Now()
		o.Mono = func() time.Duration { return time.Since(start) }
	}
	if o.busy == 0 {
		o.busy = busyTimeout
	}
	return o
}

func (s *Store) open(ctx context.Context) error {
	if err := private(s.path); err != nil {
		return err
	}
	// fdatasync leaves out the file's times and keeps all that is needed to read it back, so a commit is as durable, in half
	// the time. Where the system has no such call the setting is refused and nothing changes.
	driver.Fdatasync(true)

	c, err := s.connect(ctx, writing)
	if err != nil {
		return err
	}
	base, err := s.prepare(ctx, c)
	if err != nil {
		return errors.Join(err, c.close())
	}
	s.clock = newClock(s.opt.Mono, base)
	k, err := s.connect(ctx, copying)
	if err != nil {
		return errors.Join(err, c.close())
	}
	s.writer = newWriter(s, c, newCopier(k))
	// Reading is work for the processor once a page is cached, so more connections than these would only take memory.
	n := max(4, 2*runtime.GOMAXPROCS(0))
	s.readers = make(chan *conn, n)
	for range n {
		s.readers <- nil
	}
	return nil
}

// prepare brings the schema up to date and reads the stored clock.
func (s *Store) prepare(ctx context.Context, c *conn) (time.Time, error) {
	var at time.Time
	if err := c.release(ctx, func(db *sql.DB) error { return migrate(ctx, db) }); err != nil {
		return at, fmt.Errorf("migrate: %w", err)
	}
	if _, err := c.exec("INSERT OR IGNORE INTO clock (one, at) VALUES (1, ?)", micros(s.opt.Wall())); err != nil {
		return at, err
	}
	err := c.row(func(r scanner) error { return r.Scan(asTime{&at}) }, "SELECT at FROM clock WHERE one = 1")
	return at, err
}

// Close waits for the writer to finish what it took, and for the readers. Whoever waits in the queue gets store.ErrClosed.
func (s *Store) Close() error { return s.closed() }

func (s *Store) close() error {
	close(s.closing)
	<-s.writer.done
	var errs []error
	for range cap(s.readers) {
		if c := <-s.readers; c != nil {
			errs = append(errs, c.close())
		}
	}
	errs = append(errs, s.writer.copier.stop(), s.writer.c.close(), s.lock.Close())
	return errors.Join(errs...)
}

// Failed is closed when the store is broken: no write is acknowledged any more and the gateway must stop (faults.md S03).
// Err says why.
func (s *Store) Failed() <-chan struct{} { return s.writer.failed }

// Err is what broke the store, or nil.
func (s *Store) Err() error {
	select {
	case <-s.writer.failed:
		return s.writer.broken
	default:
		return nil
	}
}

// Commits counts the synced commits since the store was opened (performance.md, P4b).
func (s *Store) Commits() int64 { return s.writer.commits.Load() }

// private makes the file before SQLite does, so that nobody else ever may read it; the log beside it gets the same mode.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}

// A mode is what a connection is for.
type mode int

const (
	reading mode = iota
	writing
	copying // the log into the database
)

const (
	walLimit    = 16 << 20              // how much of the log's file is kept when the log starts anew
	busyTimeout = 5 * time.Second       // how long a write waits for somebody else's lock (faults.md S10)
	copyTimeout = 50 * time.Millisecond // how long all wait for a reader of the log, now and then
)

// connect opens a connection. Checkpoints are the writer's business, never a side effect of a commit.
func (s *Store) connect(ctx context.Context, m mode) (*conn, error) {
	q := url.Values{"_defensive": {"1"}, "_dqs": {"0"}, "_error_rc": {"1"}}
	pragma := func(name string, value any) { q.Add("_pragma", fmt.Sprintf("%s(%v)", name, value)) }
	pragma("temp_store", "MEMORY")
	if m == reading {
		q.Set("_query_only", "1")
		pragma("busy_timeout", s.opt.busy.Milliseconds())
		pragma("cache_size", -4<<10)
	} else {
		pragma("journal_mode", "WAL")
		pragma("synchronous", "FULL")
		pragma("fullfsync", 1) // on macOS a plain sync stops at the drive's cache
		pragma("checkpoint_fullfsync", 1)
		pragma("wal_autocheckpoint", 0)
		pragma("journal_size_limit", walLimit)
	}
	if m == writing {
		pragma("busy_timeout", s.opt.busy.Milliseconds())
		pragma("cache_size", -16<<10)
	}
	if m == copying {
		pragma("busy_timeout", copyTimeout.Milliseconds())
	}
	file := filepath.ToSlash(s.path)
	if !strings.HasPrefix(file, "/") {
		file = "/" + file // a drive letter
	}
	dsn := url.URL{Scheme: "file", Path: file, RawQuery: q.Encode()}
	connector, err := driver.NewConnector(dsn.String())
	if err != nil {
		return nil, err
	}
	if s.opt.wrap != nil {
		connector = s.opt.wrap(connector)
	}
	return connect(ctx, sql.OpenDB(connector))
}
