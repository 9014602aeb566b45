package admin

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/engine"
	"runnerd/gateway/identity"
	"runnerd/gateway/store/sqlite"
	"runnerd/internal/wire"
)

// A desk is an Admin over a store of its own.
type desk struct {
	*Admin
	log *bytes.Buffer
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{log: new(bytes.Buffer)}
	log := slog.New(slog.NewJSONHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "gateway.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	id, err := identity.New(t.Context(), s, time.Now, log)
	if err != nil {
		t.Fatal(err)
	}
	d.Admin = &Admin{Store: s, Identity: id, Now: time.Now, Version: "test", URL: "http://gw/"}
	return d
}

// served gives a client whose gateway is the desk.
func (d *desk) served(t *testing.T) *Client {
	t.Helper()
	dir := t.TempDir()
	l, err := Listen(t.Context(), dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: Handler(d.Admin, slog.New(slog.NewJSONHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug})))}}
	srv.Start()
	t.Cleanup(srv.Close)
	return NewClient(dir)
}

// bothWays runs a test on an Admin and through a socket.
func bothWays(t *testing.T, test func(*testing.T, Operations, *desk)) {
	t.Run("direct", func(t *testing.T) { d := newDesk(t); test(t, d.Admin, d) })
	t.Run("socket", func(t *testing.T) { d := newDesk(t); test(t, d.served(t), d) })
}

func ok[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestPeopleAndKeys(t *testing.T) {
	bothWays(t, func(t *testing.T, ops Operations, d *desk) {
		ctx := t.Context()
		alice := ok(ops.AddUser(ctx, UserRef{User: "alice"}))(t)
		if alice.User != "alice" || alice.Subject != "default/alice" || !strings.HasPrefix(alice.Link, "http://gw/sign-in#owl_") {
			t.Errorf("added %+v", alice)
		}
		again := ok(ops.LinkUser(ctx, UserRef{User: "alice"}))(t)
		for _, link := range []string{alice.Link, again.Link} {
			_, token, _ := strings.Cut(link, "#")
			if _, who, err := d.Identity.SignIn(ctx, token); err != nil || who != "default/alice" {
				t.Errorf("the link signs in %q, %v", who, err)
			}
		}
		ok(ops.AddUser(ctx, UserRef{Tenant: "rival", User: "alice"}))(t)
		if users := ok(ops.Users(ctx, TenantRef{}))(t); len(users.Users) != 1 || users.Users[0].Subject != "default/alice" {
			t.Errorf("users %+v", users)
		}
		key := ok(ops.CreateKey(ctx, NewKey{User: "alice", Name: "ci", Scopes: []string{identity.ScopeRunsRead}, LifeSeconds: 3600}))(t)
		if c, err := d.Identity.AuthenticateClient(ctx, key.Key); err != nil || c.Subject != "default/alice" || key.Expires == nil {
			t.Errorf("key %+v of %v, %v", key, c, err)
		}
		keys := ok(ops.Keys(ctx, TenantRef{}))(t)
		if len(keys.Keys) != 1 || keys.Keys[0].ID != key.ID || keys.Keys[0].Revoked != nil {
			t.Errorf("keys %+v", keys)
		}
		ok(ops.RevokeKey(ctx, IDRef{ID: key.ID}))(t)
		if _, err := d.Identity.AuthenticateClient(ctx, key.Key); !errors.Is(err, identity.ErrRevoked) {
			t.Errorf("after revocation: %v", err)
		}
		status := ok(ops.Status(ctx, Nothing{}))(t)
		if d := cmp.Diff(Status{Version: "test", URL: "http://gw/", Tenants: 2, Users: 2}, status); d != "" {
			t.Error(d)
		}
		for _, secret := range []string{alice.Link, again.Link, key.Key} {
			if _, token, _ := strings.Cut(secret, "ow"); strings.Contains(d.log.String(), token) {
				t.Error("a credential is in the log")
			}
		}
	})
}

func TestRunnersArePairedAndRevoked(t *testing.T) {
	bothWays(t, func(t *testing.T, ops Operations, d *desk) {
		ctx := t.Context()
		ok(ops.AddUser(ctx, UserRef{User: "alice"}))(t)
		p := ok(d.Identity.Pair(ctx, "x", "http://gw/pair", wire.PairingRequest{Name: "laptop", Platform: "linux", Version: "1"}))(t)
		approved := ok(ops.ApproveRunner(ctx, Approval{User: "alice", Code: p.UserCode}))(t)
		if approved.Subject != "default/alice" || approved.Name != "laptop" {
			t.Errorf("approved %+v", approved)
		}
		list := ok(ops.Runners(ctx, TenantRef{}))(t)
		if len(list.Runners) != 1 || list.Runners[0].ID != approved.RunnerID || list.Runners[0].Presence != "offline" {
			t.Errorf("runners %+v", list)
		}
		if list := ok(ops.Runners(ctx, TenantRef{Tenant: "rival"}))(t); len(list.Runners) != 0 {
			t.Errorf("another tenant sees %+v", list)
		}
		if _, err := ops.RevokeRunner(ctx, IDRef{Tenant: "rival", ID: approved.RunnerID}); err == nil {
			t.Error("another tenant revokes it")
		}
		ok(ops.RevokeRunner(ctx, IDRef{ID: approved.RunnerID}))(t)
		if list := ok(ops.Runners(ctx, TenantRef{}))(t); len(list.Runners) != 0 {
			t.Errorf("after revocation: %+v", list)
		}
	})
}

func TestWorkflowsAreImported(t *testing.T) {
	bothWays(t, func(t *testing.T, ops Operations, d *desk) {
		ctx := t.Context()
		doc := bytes.Replace(engine.Builtin().Doc(), []byte(`"id": "chat", "name": "Chat"`), []byte(`"id": "mine", "name": "Mine"`), 1)
		got := ok(ops.ImportWorkflow(ctx, NewWorkflow{Document: doc}))(t)
		if got.ID != "mine" || got.Name != "Mine" {
			t.Errorf("imported %+v", got)
		}
		if list := ok(ops.Workflows(ctx, TenantRef{}))(t); len(list.Workflows) != 1 || list.Workflows[0].ID != "mine" {
			t.Errorf("workflows %+v", list)
		}
	})
}

func TestMistakesAreSaidInTheSameWordsBothWays(t *testing.T) {
	said := map[string][]string{}
	bothWays(t, func(t *testing.T, ops Operations, d *desk) {
		ctx := t.Context()
		ok(ops.AddUser(ctx, UserRef{User: "alice"}))(t)
		for name, do := range map[string]func() error{
			"bad name":       func() error { _, err := ops.AddUser(ctx, UserRef{User: "../x"}); return err },
			"bad tenant":     func() error { _, err := ops.AddUser(ctx, UserRef{Tenant: "a b", User: "x"}); return err },
			"exists":         func() error { _, err := ops.AddUser(ctx, UserRef{User: "alice"}); return err },
			"nobody":         func() error { _, err := ops.LinkUser(ctx, UserRef{User: "bob"}); return err },
			"no such scope":  func() error { _, err := ops.CreateKey(ctx, NewKey{User: "alice", Scopes: []string{"x"}}); return err },
			"no such key":    func() error { _, err := ops.RevokeKey(ctx, IDRef{ID: "key_x"}); return err },
			"no such runner": func() error { _, err := ops.RevokeRunner(ctx, IDRef{ID: "rnr_x"}); return err },
			"no such code":   func() error { _, err := ops.ApproveRunner(ctx, Approval{User: "alice", Code: "BCDF-GHJK"}); return err },
			"not a workflow": func() error { _, err := ops.ImportWorkflow(ctx, NewWorkflow{Document: []byte("{}")}); return err },
			"built-in": func() error {
				_, err := ops.ImportWorkflow(ctx, NewWorkflow{Document: engine.Builtin().Doc()})
				return err
			},
			"nothing imported": func() error { _, err := ops.ImportWorkflow(ctx, NewWorkflow{}); return err },
		} {
			err := do()
			if e, ok := errors.AsType[*Error](err); !ok || e.Code == CodeInternal || strings.Contains(e.Message, "\n") {
				t.Errorf("%s: %v", name, err)
				continue
			}
			said[name] = append(said[name], err.Error())
		}
	})
	for name, words := range said {
		if len(words) != 2 || words[0] != words[1] {
			t.Errorf("%s: %q", name, words)
		}
	}
}

func TestClientSaysThatNobodyServes(t *testing.T) {
	_, err := NewClient(t.TempDir()).Status(t.Context(), Nothing{})
	if !errors.Is(err, ErrNotServing) {
		t.Errorf("got %v, want ErrNotServing", err)
	}
}

func TestURLIsRemembered(t *testing.T) {
	d := newDesk(t)
	if url, err := RecallURL(t.Context(), d.Store); url != "" || err != nil {
		t.Errorf("before: %q, %v", url, err)
	}
	if err := RememberURL(t.Context(), d.Store, "https://gw.example"); err != nil {
		t.Fatal(err)
	}
	if url, err := RecallURL(t.Context(), d.Store); url != "https://gw.example" || err != nil {
		t.Errorf("after: %q, %v", url, err)
	}
	if err := RememberURL(t.Context(), d.Store, ""); err != nil {
		t.Fatal(err)
	}
}
