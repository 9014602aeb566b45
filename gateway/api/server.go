package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"runnerd/gateway/bus"
	"runnerd/gateway/dispatch"
	"runnerd/gateway/engine"
	"runnerd/gateway/identity"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
)

// Dispatch is what the API asks about runners: the values that the matcher reads too.
type Dispatch interface {
	Presence(store.Runner) dispatch.Presence
	Phase(store.Step) string
	Revoked(context.Context, store.RunnerID) error
}

var _ Dispatch = (*dispatch.Service)(nil)

// A Mount names its routes; the runners' channel is one.
type Mount interface {
	Routes(handle func(pattern string, h httpapi.Handler))
}

// A Config is what a Server is made of.
type Config struct {
	Store    store.Store
	Bus      bus.Bus
	Identity *identity.Service
	Runs     Runs
	Dispatch Dispatch     // nil: no runners are served, and discovery says so
	Channel  Mount        // nil likewise
	Page     http.Handler // everything that is no route; nil: nothing
	Log      *slog.Logger
	Now      func() time.Time // wall time

	PublicURL string // https://host, where people reach the gateway; empty: wherever the request says
	Version   string
	Caps      engine.Caps
	MaxBody   int64 // bytes of a request; 0: 1 MiB
}

// A Server answers clients.
type Server struct {
	Config
	chat      *engine.Workflow
	routes    []route
	discovery document
	openapi   document
	recheck   time.Duration // how often a stream's credential is judged again
}

// New makes a server.
func New(c Config) (*Server, error) {
	if c.MaxBody == 0 {
		c.MaxBody = 1 << 20
	}
	s := &Server{Config: c, chat: engine.Builtin(), routes: routes(), recheck: time.Minute}
	var err error
	if s.discovery, err = newDocument(capabilities(c)); err != nil {
		return nil, err
	}
	s.openapi, err = newDocument(openAPI(c, slices.Concat(s.routes, channelRoutes())))
	return s, err
}

// Handler serves everything: the API under its own paths, the page everywhere else.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range s.routes {
		mux.Handle(rt.method+" "+rt.path, httpapi.Wrap(s.Log, problem, s.guard(rt)))
	}
	if s.Channel != nil {
		s.Channel.Routes(func(pattern string, h httpapi.Handler) { mux.Handle(pattern, httpapi.Wrap(s.Log, problem, h)) })
	}
	known := httpapi.Routes(mux)
	unknown := httpapi.Wrap(s.Log, problem, func(w http.ResponseWriter, r *http.Request) error {
		if err := s.anybody(r); err != nil {
			return err
		}
		known.ServeHTTP(w, r)
		return nil
	})
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" {
			unknown.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
	page := s.Page
	if page == nil {
		page = httpapi.NotFound("route")
	}
	return secure(s.sameSite(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1" || strings.HasPrefix(r.URL.Path, "/v1/") || strings.HasPrefix(r.URL.Path, "/.well-known/") {
			api.ServeHTTP(w, r)
			return
		}
		page.ServeHTTP(w, r)
	})))
}

// secure sets the header fields that every answer has; the page has a wider policy of its own (wire section 1 asks for none,
// browsers need them: nothing of ours may be framed, guessed at, or named to another site).
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}

// sameSite refuses what a browser sends for another site, on every route that may change something.
func (s *Server) sameSite(next http.Handler) http.Handler {
	guard := http.NewCrossOriginProtection()
	if u, err := url.Parse(s.PublicURL); err == nil && u.Host != "" {
		// A proxy may have changed the Host that the check would compare with. The origin was checked by url.Parse.
		_ = guard.AddTrustedOrigin(u.Scheme + "://" + u.Host)
	}
	guard.SetDenyHandler(&httpapi.Problem{Status: http.StatusForbidden, Code: httpapi.CodeForbidden, Message: "requests from other sites are not accepted"})
	return guard.Handler(next)
}
