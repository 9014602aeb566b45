package api

import (
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"runnerd/gateway/identity"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
)

// The session's cookie. The prefix makes a browser refuse it unless it is for this host alone and came over TLS.
const (
	cookieName       = "gateway_session"
	cookieNameSecure = "__Host-gateway_session"
)

type signInRequest struct {
	Token string `json:"token"`
}

// Validate refuses what cannot be a token before it is looked for.
func (q signInRequest) Validate() error {
	if q.Token == "" || len(q.Token) > 512 {
		return httpapi.Invalid("token", "must have 1 to 512 characters")
	}
	return nil
}

// A personReply says who is signed in.
type personReply struct {
	Tenant    string   `json:"tenant"`
	Principal string   `json:"principal"`
	Subject   string   `json:"subject"`
	Scopes    []string `json:"scopes,omitempty"`
}

func person(s store.Subject, scopes []string) personReply {
	return personReply{string(s.Tenant()), string(s.Principal()), string(s), scopes}
}

// signIn trades a one-time token for the session's cookie. It takes JSON only, which no form of another site can send.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request, _ identity.Caller) error {
	in, err := httpapi.Decode[signInRequest](w, r, httpapi.MaxBytes(4<<10))
	if err != nil {
		return err
	}
	cookie, subject, err := s.Identity.SignIn(r.Context(), in.Token)
	if err != nil {
		return err
	}
	http.SetCookie(w, s.cookie(r, cookie, identity.SessionLife))
	return httpapi.Encode(w, http.StatusOK, person(subject, nil))
}

func (s *Server) signOut(w http.ResponseWriter, r *http.Request, _ identity.Caller) error {
	if err := s.Identity.SignOut(r.Context(), s.cookieOf(r)); err != nil {
		return err
	}
	http.SetCookie(w, s.cookie(r, "", -time.Second))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// A bearerReply holds the page's bearer, which lives in its memory.
type bearerReply struct {
	Token     string `json:"token"`
	ExpiresIn int64  `json:"expiresIn"` // seconds
}

// pageBearer trades the session's cookie for a short-lived bearer, and prolongs the cookie.
func (s *Server) pageBearer(w http.ResponseWriter, r *http.Request, _ identity.Caller) error {
	cookie := s.cookieOf(r)
	session, err := s.Identity.Session(r.Context(), cookie)
	if err != nil {
		return err
	}
	token, expires := s.Identity.PageBearer(session.Subject)
	now := s.Now()
	http.SetCookie(w, s.cookie(r, cookie, session.Expires.Sub(now)))
	return httpapi.Encode(w, http.StatusOK, bearerReply{token, max(1, int64(expires.Sub(now)/time.Second))})
}

func (s *Server) me(w http.ResponseWriter, _ *http.Request, c identity.Caller) error {
	return httpapi.Encode(w, http.StatusOK, person(c.Subject, c.Scopes))
}

// cookie is the session's; a negative life takes it away.
func (s *Server) cookie(r *http.Request, value string, life time.Duration) *http.Cookie {
	c := &http.Cookie{Name: cookieName, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(life / time.Second)}
	if s.overTLS(r) {
		c.Name, c.Secure = cookieNameSecure, true
	}
	return c
}

func (s *Server) cookieOf(r *http.Request) string {
	name := cookieName
	if s.overTLS(r) {
		name = cookieNameSecure
	}
	if all := r.CookiesNamed(name); len(all) == 1 {
		return all[0].Value
	}
	return ""
}

// overTLS says whether the browser is on TLS: here, or at the proxy that stands for our public address. A browser says so
// itself in the Origin of what changes something. Else the name that was asked for tells: a proxy may have changed it, but on
// loopback nobody stands between.
func (s *Server) overTLS(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	if o, err := url.Parse(r.Header.Get("Origin")); err == nil && o.Host != "" {
		return o.Scheme == "https"
	}
	u, err := url.Parse(s.PublicURL)
	if err != nil || u.Scheme != "https" {
		return false
	}
	name := (&url.URL{Host: r.Host}).Hostname()
	ip, err := netip.ParseAddr(name)
	return name != "localhost" && (err != nil || !ip.IsLoopback())
}
