package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"runnerd/gateway/identity"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
	"runnerd/internal/wire"
)

// sample is a request that every route understands, about things that do not exist.
func (rt route) sample() (path, body string) {
	path = strings.NewReplacer("{runId}", "run_unknown", "{workflowId}", "unknown", "{runnerId}", "rnr_unknown", "{code}", "BCDF-GHJK", "{askId}", "ask_unknown").Replace(rt.path)
	switch rt.in.(type) {
	case createRequest:
		body = `{"workflowId":"unknown"}`
	case answerRequest:
		body = `{"answer":"allow"}`
	case signInRequest:
		body = `{"token":"owl_unknown"}`
	}
	return path, body
}

func TestEveryRouteAuthenticatesBeforeItLooks(t *testing.T) {
	w := newWorld(t)
	revoked, revokedToken, err := w.id.CreateKey(t.Context(), alice, "", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.id.RevokeKey(t.Context(), alice.Tenant(), revoked.ID); err != nil {
		t.Fatal(err)
	}
	_, expired, err := w.id.CreateKey(t.Context(), alice, "", nil, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	tokens := w.paired(alice)
	link, err := w.id.NewSignIn(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	cookie, _, err := w.id.SignIn(t.Context(), link)
	if err != nil {
		t.Fatal(err)
	}
	w.skip(2 * time.Minute)
	for _, rt := range routes() {
		if rt.guard != byBearer {
			continue
		}
		path, body := rt.sample()
		for name, bad := range map[string]struct{ token, code string }{
			"none":           {"", "unauthenticated"},
			"nonsense":       {"nonsense", "unauthenticated"},
			"unknown key":    {w.keys[alice][:len(w.keys[alice])-1] + "x", "unauthenticated"},
			"runner bearer":  {tokens.AccessToken, "unauthenticated"},
			"refresh token":  {tokens.RefreshToken, "unauthenticated"},
			"cookie's value": {cookie, "unauthenticated"},
			"revoked key":    {revokedToken, "key_revoked"},
			"expired key":    {expired, "key_expired"},
		} {
			t.Run(rt.name+"/"+name, func(t *testing.T) {
				a := w.send(rt.method, path, bad.token, body)
				a.t = t
				a.refused(http.StatusUnauthorized, bad.code)
				if bad.token != "" && strings.Contains(a.body, bad.token) {
					t.Error("the token is in the answer")
				}
			})
		}
		w.send(rt.method, path, "", body, "Cookie", cookieName+"="+cookie).refused(http.StatusUnauthorized, "unauthenticated")
		w.send(rt.method, path+"?access_token="+w.keys[alice], "", body).refused(http.StatusUnauthorized, "unauthenticated")
		w.send(rt.method, path, "", body, "Authorization", "Basic "+w.keys[alice]).refused(http.StatusUnauthorized, "unauthenticated")
		w.send(rt.method, path, w.keys[alice], body, "Authorization", "Bearer "+w.keys[bob]).refused(http.StatusUnauthorized, "unauthenticated")
	}
}

func TestEveryRouteNeedsItsScope(t *testing.T) {
	w := newWorld(t)
	for _, rt := range routes() {
		if rt.guard != byBearer {
			continue
		}
		path, body := rt.sample()
		if rt.scope == "" {
			if a := w.send(rt.method, path, w.key(alice, identity.ScopePacksPublish), body); a.status >= 300 {
				t.Errorf("%s: %d %s", rt.name, a.status, a.body)
			}
			continue
		}
		others := slices.DeleteFunc(identity.Scopes(), func(s string) bool { return s == rt.scope })
		details := w.send(rt.method, path, w.key(alice, others...), body).refused(http.StatusForbidden, "forbidden")
		if details["scopeRequired"] != rt.scope {
			t.Errorf("%s: details %v, want scope %s", rt.name, details, rt.scope)
		}
		if a := w.send(rt.method, path, w.key(alice, rt.scope), body); a.status == http.StatusForbidden || a.status == http.StatusUnauthorized {
			t.Errorf("%s with its scope alone: %d %s", rt.name, a.status, a.body)
		}
	}
}

func TestWhatIsUnknownIsTheSameEverywhere(t *testing.T) {
	w := newWorld(t)
	for _, rt := range routes() {
		path, body := rt.sample()
		if rt.guard != byBearer || path == rt.path {
			continue
		}
		w.skip(time.Minute) // for the limit of guesses
		w.as(alice, rt.method, path, body).refused(http.StatusNotFound, "not_found")
		long := strings.Replace(path, "unknown", strings.Repeat("x", 300), 1)
		w.as(alice, rt.method, long, body).refused(http.StatusNotFound, "not_found")
	}
	for _, path := range []string{"/v1", "/v1/", "/v1/nothing", "/v1/runs/", "/v1/runs/a/b", "/v1/host/runnerd/nothing", "/v1/runs/a%2Fb/x"} {
		w.as(alice, "GET", path, "").refused(http.StatusNotFound, "not_found")
		w.send("GET", path, "", "").refused(http.StatusUnauthorized, "unauthenticated")
		w.send("POST", path, "", "{}").refused(http.StatusUnauthorized, "unauthenticated")
		w.send("GET", path, w.paired(alice).AccessToken, "").refused(http.StatusNotFound, "not_found")
		w.skip(time.Minute) // for the limit of pairings
	}
	w.send("POST", "/v1/host/sample/test/reset", "", "{}").refused(http.StatusNotFound, "not_found")
	w.send("GET", "/.well-known/nothing", "", "").refused(http.StatusNotFound, "not_found")
}

func TestWrongMethodsAreRefusedAndSayWhichAreRight(t *testing.T) {
	w := newWorld(t)
	for _, rt := range routes() {
		path, _ := rt.sample()
		if rt.guard != byNothing {
			w.send("PATCH", path, "", "").refused(http.StatusUnauthorized, "unauthenticated")
		}
		a := w.as(alice, "PATCH", path, "")
		a.refused(http.StatusMethodNotAllowed, "method_not_allowed")
		if !strings.Contains(a.header.Get("Allow"), rt.method) {
			t.Errorf("PATCH %s: Allow %q", path, a.header.Get("Allow"))
		}
	}
	if a := w.as(alice, "HEAD", "/v1/runs/x/events", ""); a.status != http.StatusMethodNotAllowed {
		t.Errorf("HEAD of a stream: %d", a.status)
	}
}

func TestMalformedBodiesAreRefusedAndLeaveNoTrace(t *testing.T) {
	w := newWorld(t)
	before := w.trace()
	for _, rt := range routes() {
		if rt.in == nil {
			continue
		}
		path, _ := rt.sample()
		for name, bad := range map[string]struct {
			body, kind string
			status     int
			code       string
		}{
			"not JSON":       {`{"a"`, "application/json", 400, "validation_error"},
			"an array":       {`[]`, "application/json", 400, "validation_error"},
			"null":           {`null`, "application/json", 400, "validation_error"},
			"extra member":   {`{"workflowId":"chat","inputs":{"prompt":"x"},"token":"owl_x","answer":"allow","reason":"x","Extra":1}`, "application/json", 400, "validation_error"},
			"twice":          {`{"workflowId":"chat","workflowId":"chat"}`, "application/json", 400, "validation_error"},
			"two documents":  {`{} {}`, "application/json", 400, "validation_error"},
			"deep":           {strings.Repeat(`{"inputs":`, 80) + "1" + strings.Repeat("}", 80), "application/json", 400, "validation_error"},
			"bad UTF-8":      {"{\"workflowId\":\"\xff\"}", "application/json", 400, "validation_error"},
			"a form":         {`workflowId=chat`, "application/x-www-form-urlencoded", 415, "unsupported_media_type"},
			"another schema": {`{}`, "application/json; charset=latin1", 415, "unsupported_media_type"},
			"too large":      {`{"workflowId":"` + strings.Repeat("a", 2<<20) + `"}`, "application/json", 413, "payload_too_large"},
		} {
			t.Run(rt.name+"/"+name, func(t *testing.T) {
				a := w.as(alice, rt.method, path, bad.body, "Content-Type", bad.kind)
				a.t = t
				a.refused(bad.status, bad.code)
			})
		}
	}
	if after := w.trace(); before != after {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

func TestRouteTableIsWhatIsServed(t *testing.T) {
	w := newWorld(t)
	described := map[string]bool{}
	for _, rt := range channelRoutes() {
		described[rt.method+" "+rt.path] = true
	}
	w.api.Channel.Routes(func(pattern string, _ httpapi.Handler) {
		if !described[pattern] {
			t.Errorf("%s is served and not described", pattern)
		}
		delete(described, pattern)
	})
	for pattern := range described {
		t.Errorf("%s is described and not served", pattern)
	}
	names, patterns := map[string]bool{}, map[string]bool{}
	for _, rt := range slices.Concat(routes(), channelRoutes()) {
		pattern := rt.method + " " + rt.path
		if names[rt.name] || patterns[pattern] || rt.about == "" || rt.status == 0 {
			t.Errorf("%s: %+v", pattern, rt)
		}
		names[rt.name], patterns[pattern] = true, true
		if (rt.guard == byBearer) != strings.HasPrefix(pattern, rt.method+" /v1/") && rt.guard == byBearer {
			t.Errorf("%s takes a bearer outside of /v1", pattern)
		}
		if rt.scope != "" && !slices.Contains(identity.Scopes(), rt.scope) {
			t.Errorf("%s: no such scope %s", pattern, rt.scope)
		}
	}
}

// paired makes a runner of the subject through the routes, up to its tokens.
func (w *world) paired(who store.Subject) wire.TokenReply {
	w.t.Helper()
	var p wire.PairingReply
	w.send("POST", host+"/pairings", "", `{"name":"laptop","platform":"linux","version":"1"}`).into(http.StatusCreated, &p)
	var seen pairingReply
	w.as(who, "POST", host+"/pairings/"+p.UserCode+"/approve", "{}").into(http.StatusOK, &seen)
	var out wire.TokenReply
	w.send("POST", host+"/tokens", "", `{"device_code":"`+p.DeviceCode+`"}`).into(http.StatusOK, &out)
	return out
}
