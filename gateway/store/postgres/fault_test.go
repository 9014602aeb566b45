package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"runnerd/gateway/store"
)

// A cable stands between a store and its database. It can be cut at a message of the store, before or after it was answered.
type cable struct {
	mu     sync.Mutex
	down   bool // nothing connects
	conns  []net.Conn
	after  int  // messages to let through before the cut; -1: none is due
	answer bool // whether the last message still reaches the database
}

var errCut = errors.New("the cable was cut")

func newCable() *cable { return &cable{after: -1} }

func (w *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return nil, errCut
	}
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.conns = append(w.conns, c)
	return &cuttable{c, w}, nil
}

// cut ends every connection, and keeps new ones from coming while down.
func (w *cable) cut(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

// cutAt cuts one connection at the n-th message from now, which counts from 0.
func (w *cable) cutAt(n int, answer bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after, w.answer = n, answer
}

type cuttable struct {
	net.Conn
	w *cable
}

func (c *cuttable) Write(b []byte) (int, error) {
	c.w.mu.Lock()
	due := c.w.after == 0
	answer := c.w.answer
	if c.w.after >= 0 {
		c.w.after--
	}
	c.w.mu.Unlock()
	if !due {
		return c.Conn.Write(b)
	}
	if answer {
		if n, err := c.Conn.Write(b); err != nil {
			return n, err
		}
		_, _ = c.Conn.Read(make([]byte, 1)) // the database has done it
	}
	c.Conn.Close()
	return 0, errCut
}

func openThrough(t *testing.T, w *cable, opt Options) (*Store, database) {
	t.Helper()
	d := newDatabase(t)
	t.Cleanup(func() { d.free(t) })
	opt.dial = w.dial
	return d.open(t, opt), d
}

// A cut of the cable, wherever it happens, changes nothing of what a function does: it is carried out once.
func TestAFunctionIsCarriedOutOnceWhereverTheCableIsCut(t *testing.T) {
	t.Parallel()
	for _, answer := range []bool{false, true} {
		for message := range 5 {
			t.Run(fmt.Sprintf("message %d, answered %v", message, answer), func(t *testing.T) {
				w := newCable()
				var rang atomic.Int64
				s, _ := openThrough(t, w, Options{Ring: func(...store.Topic) { rang.Add(1) }})
				furnish(t, s, ann, "k1", "r1", 0)
				furnish(t, s, bob, "k2", "r0", 0)
				ran := 0
				move := func(runner store.RunnerID, run store.RunID) func(tx store.Tx) error {
					return func(tx store.Tx) error {
						if ran++; ran == 1 {
							w.cutAt(message, answer)
						}
						k, err := tx.RunnerOfAll(runner) // message 0
						if err != nil {
							return err
						}
						_, err = tx.NextSeq(k.Subject, runner)
						return errors.Join(err, begin(run)(tx)) // message 1; then what is pending, then the commit
					}
				}
				ran = 10
				write(t, s, move("k2", "r3")) // prepares every statement, which takes messages of its own
				rang.Store(0)
				ran = 0
				write(t, s, move("k1", "r2"))
				w.cutAt(-1, false)
				read(t, s, func(r store.Reader) error {
					k, err := r.Runner(ann, "k1")
					if err != nil || k.Cursor != 1 {
						t.Errorf("cursor %d, %v", k.Cursor, err)
					}
					log, err := collect(r.Events("acme", "r2", -1, 10))
					if err != nil || len(log) != 1 {
						t.Errorf("%d events, %v", len(log), err)
					}
					audit, err := collect(r.Audit(ann, 0, 10))
					if len(audit) != 2 {
						t.Errorf("%d audit entries", len(audit))
					}
					return err
				})
				if rang.Load() != 1 {
					t.Errorf("rang %d times", rang.Load())
				}
				if want := message < 3 || message == 3 && !answer; want != (ran == 2) {
					t.Errorf("ran %d times", ran)
				}
			})
		}
	}
}

// Nothing is known of a commit when the database cannot be asked. Nobody may take it for undone: listeners look again.
func TestACommitOfUnknownOutcomeIsAnErrorAndRings(t *testing.T) {
	t.Parallel()
	w := newCable()
	var mu sync.Mutex
	var rang []store.Topic
	s, _ := openThrough(t, w, Options{busy: time.Second, Ring: func(topics ...store.Topic) {
		mu.Lock()
		defer mu.Unlock()
		rang = append(rang, topics...)
	}})
	write(t, s, begin("r0")) // prepares the statements
	rang = nil
	err := s.Update(t.Context(), func(tx store.Tx) error {
		if err := begin("r1")(tx); err != nil {
			return err
		}
		w.cutAt(1, true) // the commit comes after what is pending
		w.mu.Lock()
		w.down = true
		w.mu.Unlock()
		return nil
	})
	if !errors.Is(err, store.ErrBusy) || !strings.Contains(err.Error(), "not known") {
		t.Errorf("got %v", err)
	}
	mu.Lock()
	if want := []store.Topic{store.RunTopic("acme", "r1")}; !slices.Equal(rang, want) {
		t.Errorf("rang %v, want %v", rang, want)
	}
	mu.Unlock()
	w.cut(false)
	write(t, s, begin("r2"))
	read(t, s, func(r store.Reader) error { _, err := r.Run("acme", "r1"); return err })
}

func TestADatabaseThatIsAwayIsABoundedWait(t *testing.T) {
	t.Parallel()
	w := newCable()
	s, _ := openThrough(t, w, Options{busy: time.Second})
	write(t, s, begin("r1"))
	w.cut(true)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := s.Update(t.Context(), begin(store.RunID(fmt.Sprintf("x%d", i)))); !errors.Is(err, store.ErrBusy) {
				t.Errorf("Update: %v", err)
			}
			if err := s.View(t.Context(), func(r store.Reader) error { _, err := r.Run("acme", "r1"); return err }); !errors.Is(err, store.ErrBusy) {
				t.Errorf("View: %v", err)
			}
		})
	}
	wg.Wait()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	w.cut(false)
	write(t, s, begin("r2"))
	read(t, s, func(r store.Reader) error { _, err := r.Run("acme", "r2"); return err })
}

func TestASessionThatTheServerEndsIsReplaced(t *testing.T) {
	t.Parallel()
	s, d := openThrough(t, newCable(), Options{})
	first := true
	write(t, s, func(tx store.Tx) error {
		if err := begin("r1")(tx); err != nil {
			return err
		}
		if first {
			first = false
			d.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'gateway'")
		}
		return tx.PutMeta("k", nil)
	})
	read(t, s, func(r store.Reader) error { _, err := r.Run("acme", "r1"); return err })
}

// refusing has the database refuse a name of meta that is an error code, with that code.
func refusing(t *testing.T, busy time.Duration) *Store {
	s, d := openThrough(t, newCable(), Options{busy: busy})
	d.exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF NEW.name ~ '^[0-9A-Z]{5}$' THEN RAISE EXCEPTION 'as asked for' USING ERRCODE = NEW.name; END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON meta FOR EACH ROW EXECUTE FUNCTION refuse()`)
	t.Cleanup(func() { d.exec(t, "DROP TRIGGER refuse ON meta; DROP FUNCTION refuse") })
	return s
}

func TestErrorsOfTheDatabaseAreNamed(t *testing.T) {
	t.Parallel()
	s := refusing(t, time.Second)
	for code, want := range map[string]error{
		"53100": store.ErrFull, "23505": store.ErrConflict, "53200": store.ErrBusy, "57014": store.ErrBusy,
		"40001": store.ErrBusy, "40P01": store.ErrBusy, "55P03": store.ErrBusy, "XX000": nil,
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			asked := func(tx store.Tx) error { // so that the error comes within the function
				_, err := tx.Meta(code)
				return errors.Join(tx.PutMeta(code, nil), err, second(tx.Meta(code)))
			}
			unasked := func(tx store.Tx) error { return tx.PutMeta(code, nil) } // so that it comes with the commit
			for name, fn := range map[string]func(store.Tx) error{"asked": asked, "unasked": unasked} {
				var wg sync.WaitGroup
				wg.Go(func() { write(t, s, begin(store.RunID(name+"-beside-"+code))) })
				err := s.Update(t.Context(), fn)
				if err == nil || want != nil && !errors.Is(err, want) || want == nil && (errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrConflict)) {
					t.Errorf("%s: got %v, want %v", name, err, want)
				}
				wg.Wait()
				write(t, s, begin(store.RunID(name+"-after-"+code)))
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

func TestAServerThatBecameAStandbyIsLeft(t *testing.T) {
	t.Parallel()
	s := refusing(t, time.Second)
	if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.PutMeta("25006", nil) }); !errors.Is(err, store.ErrBusy) {
		t.Errorf("got %v", err)
	}
	write(t, s, begin("r1"))
}

// A function that is in somebody's way runs again, and works, once there is room.
func TestAFunctionRunsAgainAfterASerializationFailure(t *testing.T) {
	t.Parallel()
	s, d := openThrough(t, newCable(), Options{})
	d.exec(t, `CREATE SEQUENCE times;
		CREATE FUNCTION fail_twice() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('times') <= 2 THEN RAISE EXCEPTION 'try again' USING ERRCODE = '40001'; END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER fail_twice BEFORE INSERT ON meta FOR EACH ROW EXECUTE FUNCTION fail_twice()`)
	t.Cleanup(func() { d.exec(t, "DROP TRIGGER fail_twice ON meta; DROP FUNCTION fail_twice; DROP SEQUENCE times") })
	var ran int
	write(t, s, func(tx store.Tx) error {
		ran++
		return errors.Join(begin("r1")(tx), tx.PutMeta("k", []byte("v")))
	})
	if ran != 3 {
		t.Errorf("ran %d times", ran)
	}
	read(t, s, func(r store.Reader) error {
		audit, err := collect(r.Audit(ann, 0, 10))
		if len(audit) != 1 {
			t.Errorf("%d audit entries", len(audit))
		}
		return err
	})
}

// Somebody who knows nothing of our locks holds what one function needs: that function waits for a bounded time, and the
// others hardly.
func TestALockThatStaysHoldsUpOneSubject(t *testing.T) {
	t.Parallel()
	s, d := openThrough(t, newCable(), Options{busy: 2 * time.Second})
	furnish(t, s, ann, "k1", "r1", 0)
	for name, sql := range map[string]string{
		"of a row":     "SELECT FROM runner WHERE id = 'k1' FOR UPDATE",
		"of a subject": "SELECT pg_advisory_xact_lock(hashtextextended('subject/acme/ann', 0))",
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			other, err := pgx.Connect(ctx, d.url)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close(context.WithoutCancel(ctx))
			if _, err := other.Exec(ctx, "BEGIN"); err != nil {
				t.Fatal(err)
			}
			if _, err := other.Exec(ctx, sql); err != nil {
				t.Fatal(err)
			}
			stuck := make(chan error)
			go func() {
				stuck <- s.Update(ctx, func(tx store.Tx) error { _, err := tx.NextSeq(ann, "k1"); return err })
			}()
			var slowest time.Duration
			var err2 error
			for i, waiting := 0, true; waiting; i++ {
				began := time.Now()
				write(t, s, func(tx store.Tx) error {
					return tx.AppendAudit(store.AuditEntry{Subject: store.Subject(fmt.Sprintf("acme/p%d", i))})
				})
				slowest = max(slowest, time.Since(began))
				select {
				case err2 = <-stuck:
					waiting = false
				case <-time.After(10 * time.Millisecond):
				}
			}
			if !errors.Is(err2, store.ErrBusy) {
				t.Errorf("got %v, want ErrBusy", err2)
			}
			if slowest > time.Second {
				t.Errorf("another subject waited for %v", slowest)
			}
			if _, err := other.Exec(ctx, "ROLLBACK"); err != nil {
				t.Fatal(err)
			}
			write(t, s, func(tx store.Tx) error { _, err := tx.NextSeq(ann, "k1"); return err })
		})
	}
}

// Even who writes past all locks between a read and a write is found out, because a write names what it expects.
func TestARowThatChangedPastTheLocksIsReadAgain(t *testing.T) {
	t.Parallel()
	s, d := openThrough(t, newCable(), Options{})
	furnish(t, s, ann, "k1", "r1", 1)
	var ran int
	var seq int64
	write(t, s, func(tx store.Tx) (err error) {
		ran++
		if seq, err = tx.NextSeq(ann, "k1"); err != nil {
			return err
		}
		if ran == 1 {
			d.exec(t, "UPDATE runner SET cursor = 41")
		}
		return nil
	})
	if ran != 2 || seq != 42 {
		t.Errorf("ran %d times, cursor %d", ran, seq)
	}
}

func TestADocumentThatTheDriverCannotReadIsNoConflict(t *testing.T) {
	t.Parallel()
	s, d := openThrough(t, newCable(), Options{})
	d.exec(t, "INSERT INTO session (hash, subject, created, expires) VALUES ('\\x01', 'x', 0, 9000000000000000000)")
	err := s.View(t.Context(), func(r store.Reader) error {
		_, err := one(r.(*reader), key{}, func(rows pgx.Rows, h *store.Hash) error { return rows.Scan(asHash{h}) }, "SELECT hash FROM session")
		return err
	})
	if err == nil || errors.Is(err, store.ErrNotFound) || bytes.Contains([]byte(err.Error()), []byte("busy")) {
		t.Errorf("got %v", err)
	}
}
