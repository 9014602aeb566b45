package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"runnerd/gateway/identity"
)

// signedIn gives the header of a browser that signed in.
func (w *world) signedIn() *http.Cookie {
	w.t.Helper()
	link, err := w.id.NewSignIn(w.t.Context(), alice)
	if err != nil {
		w.t.Fatal(err)
	}
	a := w.send("POST", host+"/sign-in", "", `{"token":"`+link+`"}`)
	var who personReply
	a.into(200, &who)
	if who.Subject != string(alice) {
		w.t.Errorf("signed in as %+v", who)
	}
	cookies := (&http.Response{Header: a.header}).Cookies()
	if len(cookies) != 1 {
		w.t.Fatalf("cookies %v", cookies)
	}
	w.send("POST", host+"/sign-in", "", `{"token":"`+link+`"}`).refused(401, "unauthenticated")
	return cookies[0]
}

func (w *world) bearer(cookie string) answer {
	w.t.Helper()
	return w.send("POST", host+"/bearer", "", "", "Cookie", cookieName+"="+cookie)
}

func TestBrowserSignsInAndTradesItsCookie(t *testing.T) {
	w := newWorld(t)
	cookie := w.signedIn()
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Secure || cookie.MaxAge != 30*24*3600 {
		t.Errorf("cookie %+v", cookie)
	}
	a := w.bearer(cookie.Value)
	var got bearerReply
	a.into(200, &got)
	if got.ExpiresIn < 890 || got.ExpiresIn > 900 || !strings.HasPrefix(got.Token, "owb_") || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("bearer for %d s, %v", got.ExpiresIn, a.header)
	}
	var who personReply
	w.send("GET", host+"/me", got.Token, "").into(200, &who)
	if who.Principal != "alice" {
		t.Errorf("me %+v", who)
	}
	w.skip(identity.PageLife)
	w.send("GET", host+"/me", got.Token, "").refused(401, "key_expired")
	w.bearer(cookie.Value).into(200, &got)
	if a := w.send("POST", host+"/sign-out", "", "", "Cookie", cookieName+"="+cookie.Value); a.status != 204 || !strings.Contains(a.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("sign out: %d %v", a.status, a.header)
	}
	w.bearer(cookie.Value).refused(401, "unauthenticated")
	for _, bad := range []string{"", "x", w.keys[alice], got.Token} {
		w.bearer(bad).refused(401, "unauthenticated")
	}
	w.send("POST", host+"/bearer", w.keys[alice], "").refused(401, "unauthenticated")
}

func TestOtherSitesAreRefused(t *testing.T) {
	w := newWorld(t)
	cookie := cookieName + "=" + w.signedIn().Value
	for name, headers := range map[string][]string{
		"fetch of another site": {"Sec-Fetch-Site", "cross-site"},
		"of a sibling host":     {"Sec-Fetch-Site", "same-site"},
		"an old browser":        {"Origin", "https://evil.example"},
		"a sandboxed frame":     {"Origin", "null"},
	} {
		for _, path := range []string{"/bearer", "/sign-out", "/sign-in"} {
			a := w.send("POST", host+path, "", `{"token":"x"}`, append(headers, "Cookie", cookie)...)
			a.what += " by " + name
			a.refused(403, "forbidden")
			if a.header.Get("Set-Cookie") != "" {
				t.Errorf("%s: a cookie was set", a.what)
			}
		}
	}
	for _, headers := range [][]string{{"Sec-Fetch-Site", "same-origin"}, {"Origin", w.srv.URL}, {"Sec-Fetch-Site", "none"}} {
		if a := w.send("POST", host+"/bearer", "", "", append(headers, "Cookie", cookie)...); a.status != 200 {
			t.Errorf("%v: %d %s", headers, a.status, a.body)
		}
	}
	if a := w.send("GET", host+"/me", w.keys[alice], "", "Origin", "https://evil.example"); a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("another site may read answers")
	}
}

func TestCookieIsSecureOverTLS(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.PublicURL = "https://gw.example/" })
	r, err := http.NewRequest("POST", "http://gw.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if c := w.api.cookie(r, "x", time.Hour); !c.Secure || c.Name != cookieNameSecure || c.Path != "/" || c.Domain != "" {
		t.Errorf("behind a proxy: %+v", c)
	}
	r.Host = "127.0.0.1:8080"
	if c := w.api.cookie(r, "x", time.Hour); c.Secure || c.Name != cookieName {
		t.Errorf("on loopback: %+v", c)
	}
	r.Header.Set("Origin", "https://gw.example")
	if c := w.api.cookie(r, "x", time.Hour); !c.Secure || c.Name != cookieNameSecure {
		t.Errorf("behind a proxy that asks for loopback, as nginx and Apache do unless told otherwise: %+v", c)
	}
	r.Header.Set("Origin", "http://127.0.0.1:8080")
	if c := w.api.cookie(r, "x", time.Hour); c.Secure {
		t.Errorf("a browser on loopback: %+v", c)
	}
	r.Header.Del("Origin")
	r.Host = "backend.internal:8080"
	if c := w.api.cookie(r, "x", time.Hour); !c.Secure {
		t.Errorf("behind a proxy that changes the name: %+v", c)
	}
}

func TestEveryAnswerCarriesTheSecurityHeaders(t *testing.T) {
	w := newWorld(t)
	for _, a := range []answer{w.send("GET", "/", "", ""), w.send("GET", "/v1/nothing", "", ""), w.as(alice, "GET", host+"/me", ""), w.send("GET", "/.well-known/openwop", "", "")} {
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %s %q, want %q", a.what, name, got, want)
			}
		}
		if csp := a.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: policy %q", a.what, csp)
		}
	}
	if a := w.send("GET", "/anything/else", "", ""); a.body != "the page" {
		t.Errorf("the page is not reached: %d %s", a.status, a.body)
	}
}
