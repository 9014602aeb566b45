package postgres

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"runnerd/gateway/store"
)

func TestGatewaysThatStartTogetherMigrateOnce(t *testing.T) {
	t.Parallel()
	url := server.Database(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := Open(context.Background(), url, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			write(t, s, func(tx store.Tx) error { return tx.PutMeta("k", nil) })
		})
	}
	wg.Wait()
}

func TestANewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	d := database{url: server.Database(t)}
	d.open(t, Options{}).Close()
	d.exec(t, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)")
	if _, err := Open(t.Context(), d.url, Options{}); !errors.Is(err, store.ErrNewer) {
		t.Errorf("got %v, want ErrNewer", err)
	}
}

func TestADatabaseOfAnotherEncodingIsRefused(t *testing.T) {
	t.Parallel()
	admin := database{url: server.URL(t, "postgres")}
	admin.exec(t, "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
	t.Cleanup(func() { admin.exec(t, "DROP DATABASE latin WITH (FORCE)") })
	if _, err := Open(t.Context(), server.URL(t, "latin"), Options{}); err == nil || !strings.Contains(err.Error(), "LATIN1") {
		t.Errorf("got %v", err)
	}
}

// What cannot be opened is said with its place and the reason, and without a password, however the place is written.
func TestErrorsOfOpenNameThePlaceAndNoPassword(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refuses := l.Addr().String()
	l.Close()
	host, port, _ := net.SplitHostPort(refuses)
	for name, c := range map[string]struct{ url, says string }{
		"refused":      {"postgres://ann:s3cret@" + refuses + "/gateway", refuses},
		"refused, dsn": {"host=" + host + " port=" + port + " user=ann password=s3cret dbname=gateway", refuses},
		"no port":      {"postgres://ann:s3cret@localhost:port/gateway", "port"},
		"no url":       {"postgres://ann:s3cret@[::1/gateway", ""},
		"no option":    {"postgres://ann:s3cret@" + refuses + "/gateway?sslmode=maybe", "sslmode"},
		"no database":  {server.URL(t, "nobody-made-it"), "does not exist"},
		"no host":      {"postgres://ann:s3cret@db.invalid/gateway?sslmode=disable", "db.invalid"},
		"query":        {"postgres://" + refuses + "/gateway?user=ann&password=s3cret", refuses},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err := Open(ctx, c.url, Options{})
			if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestACommitIsSyncedWhateverTheServersDefaultIs(t *testing.T) {
	t.Parallel()
	d := database{url: server.Database(t)}
	d.open(t, Options{}).Close()
	for _, c := range [][2]string{{"off", "on"}, {"remote_apply", "remote_apply"}} {
		d.exec(t, "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET synchronous_commit = "+c[0]+"'; END $$")
		s := d.open(t, Options{})
		var got string
		if err := s.writer.c.pg.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&got); err != nil || got != c[1] {
			t.Errorf("%s became %s, %v", c[0], got, err)
		}
	}
}

func TestTheStoresClockIsTheDatabasesAndDoesNotGoBack(t *testing.T) {
	t.Parallel()
	all, _ := gateways(t, 2)
	var first, second time.Time
	write(t, all[0], func(tx store.Tx) error { first = tx.Now(); return nil })
	read(t, all[1], func(r store.Reader) error { second = r.Now(); return nil })
	if second.Before(first) || second.Sub(first) > time.Minute {
		t.Errorf("%v, then %v at another gateway", first, second)
	}
	ahead := all[0].clock.saw(second.Add(time.Hour)) // as if the database's clock had been set back since
	read(t, all[0], func(r store.Reader) error {
		if now := r.Now(); !now.Equal(ahead) {
			t.Errorf("%v after %v", now, ahead)
		}
		return nil
	})
}
