package identity

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

func TestSignInLinkWorksOnceAndForAnHour(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		token, err := w.NewSignIn(ctx, alice)
		if err != nil {
			t.Fatal(err)
		}
		cookie, who, err := w.SignIn(ctx, token)
		if err != nil || who != alice {
			t.Fatalf("signed in as %q, %v", who, err)
		}
		if _, _, err := w.SignIn(ctx, token); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("a second time: %v", err)
		}
		if s, err := w.Session(ctx, cookie); err != nil || s.Subject != alice {
			t.Errorf("session of %q, %v", s.Subject, err)
		}
		late, err := w.NewSignIn(ctx, alice)
		if err != nil {
			t.Fatal(err)
		}
		w.skip(SignInLife)
		if _, _, err := w.SignIn(ctx, late); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("an hour later: %v", err)
		}
		for _, bad := range []string{"", "owl_", cookie, token + "x", strings.ToLower(token)} {
			if _, _, err := w.SignIn(ctx, bad); !errors.Is(err, ErrUnauthenticated) {
				t.Errorf("%q: %v", bad, err)
			}
		}
		if _, err := w.NewSignIn(ctx, "default/nobody"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("link for nobody: %v", err)
		}
	})
}

func TestSessionSlidesAndEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		signIn := func() string {
			token, err := w.NewSignIn(ctx, alice)
			if err != nil {
				t.Fatal(err)
			}
			cookie, _, err := w.SignIn(ctx, token)
			if err != nil {
				t.Fatal(err)
			}
			return cookie
		}
		used, idle, left := signIn(), signIn(), signIn()
		if err := w.SignOut(ctx, left); err != nil {
			t.Fatal(err)
		}
		for range 2 { // 58 days in all, never 30 without a visit
			w.skip(29 * 24 * time.Hour)
			if _, err := w.Session(ctx, used); err != nil {
				t.Fatalf("a session that is used ended: %v", err)
			}
		}
		for name, cookie := range map[string]string{"idle": idle, "signed out": left, "never": mint(prefixSession), "empty": ""} {
			if _, err := w.Session(ctx, cookie); !errors.Is(err, ErrUnauthenticated) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := errors.Join(w.SignOut(ctx, left), w.SignOut(ctx, "nonsense")); err != nil {
			t.Errorf("signing out twice: %v", err)
		}
	})
}

func TestPageBearerIsShortLivedAndAPersons(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		token, expires := w.PageBearer(alice)
		if left := expires.Sub(w.now()); left > PageLife || left < PageLife-time.Second {
			t.Errorf("expires in %v", left)
		}
		c, err := w.AuthenticateClient(t.Context(), token)
		if err != nil || c.Subject != alice || c.Tenant != DefaultTenant || c.Principal != "alice" || !c.May(ScopeRunsCreate) || c.May(ScopePacksPublish) {
			t.Errorf("caller %+v, %v", c, err)
		}
		w.skip(PageLife)
		if _, err := w.AuthenticateClient(t.Context(), token); !errors.Is(err, ErrExpired) {
			t.Errorf("after its life: %v", err)
		}
	})
}

func TestKeysAreScopedExpireAndAreRevoked(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		all, allToken, err := w.CreateKey(ctx, alice, "all", nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(all.Scopes, slices.Sorted(slices.Values(Scopes()))) || !strings.HasSuffix(all.ID, allToken[len(allToken)-4:]) {
			t.Errorf("key %+v", all)
		}
		_, day, err := w.CreateKey(ctx, alice, "a day", []string{ScopeRunsRead, ScopeRunsRead}, 24*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		c, err := w.AuthenticateClient(ctx, day)
		if err != nil || !slices.Equal(c.Scopes, []string{ScopeRunsRead}) || c.May(ScopeRunsCreate) {
			t.Errorf("caller %+v, %v", c, err)
		}
		w.skip(24 * time.Hour)
		if _, err := w.AuthenticateClient(ctx, day); !errors.Is(err, ErrExpired) {
			t.Errorf("a day later: %v", err)
		}
		if err := w.RevokeKey(ctx, "rival", all.ID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("revoked by another tenant: %v", err)
		}
		if _, err := w.AuthenticateClient(ctx, allToken); err != nil {
			t.Errorf("before: %v", err)
		}
		if err := w.RevokeKey(ctx, DefaultTenant, all.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := w.AuthenticateClient(ctx, allToken); !errors.Is(err, ErrRevoked) {
			t.Errorf("after: %v", err)
		}
		if _, _, err := w.CreateKey(ctx, alice, "", []string{"runs:everything"}, 0); err == nil {
			t.Error("a scope that does not exist is given")
		}
		if _, _, err := w.CreateKey(ctx, "default/nobody", "", nil, 0); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("key for nobody: %v", err)
		}
	})
}

func TestNoCredentialPassesForOneOfAnotherClass(t *testing.T) { // faults.md T09
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		_, key, err := w.CreateKey(ctx, alice, "", nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		link, err := w.NewSignIn(ctx, alice)
		if err != nil {
			t.Fatal(err)
		}
		cookie, _, err := w.SignIn(ctx, link)
		if err != nil {
			t.Fatal(err)
		}
		page, _ := w.PageBearer(alice)
		device, tokens := w.pair(alice)
		all := map[string]string{"key": key, "cookie": cookie, "page": page, "device": device, "bearer": tokens.AccessToken,
			"refresh": tokens.RefreshToken, "vendor": "sk-ant-api03-" + strings.Repeat("a", 40), "empty": "", "unknown key": mint(prefixKey)}
		for name, token := range all {
			if _, err := w.AuthenticateClient(ctx, token); (err == nil) != (name == "key" || name == "page") {
				t.Errorf("%s on the client API: %v", name, err)
			} else if err != nil && !errors.Is(err, ErrUnauthenticated) {
				t.Errorf("%s on the client API tells more than it must: %v", name, err)
			}
			if err := w.asRunner(w.Service, token); (err == nil) != (name == "bearer") {
				t.Errorf("%s on the channel: %v", name, err)
			}
			if _, err := w.Session(ctx, token); (err == nil) != (name == "cookie") {
				t.Errorf("%s as cookie: %v", name, err)
			}
			if _, _, err := w.SignIn(ctx, token); err == nil {
				t.Errorf("%s signs in", name)
			}
			if name != "refresh" {
				w.refused(wire.TokenRequest{RefreshToken: "x" + token}, wire.TokenInvalid)
				w.refused(wire.TokenRequest{RefreshToken: token + " "}, wire.TokenInvalid)
			}
			if name != "device" {
				w.refused(wire.TokenRequest{DeviceCode: token + " "}, wire.TokenInvalid)
			}
		}
		for name, token := range all {
			if token != "" && strings.Contains(w.log.String(), token) {
				t.Errorf("the %s is in the log", name)
			}
		}
	})
}

func TestGatewaysStartingTogetherAgreeOnTheKey(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		token, _ := w.PageBearer(bob)
		if c, err := w.another().AuthenticateClient(t.Context(), token); err != nil || c.Subject != bob {
			t.Errorf("another gateway says %+v, %v", c, err)
		}
	})
}
