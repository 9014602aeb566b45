package api

import (
	"net/http"

	"runnerd/gateway/identity"
	"runnerd/internal/httpapi"
)

// A guard says what opens a route.
type guard int

const (
	byBearer guard = iota // an API key or the page's bearer, with the route's scope
	byCookie              // the browser's session
	byNothing
	byRunner // a runner's bearer; the channel judges it
)

// A handler serves a route for a caller; the zero caller where the route takes no bearer.
type handler func(s *Server, w http.ResponseWriter, r *http.Request, c identity.Caller) error

// guard authenticates, then looks at the scope, then calls the route's handler.
func (s *Server) guard(rt route) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var c identity.Caller
		if rt.guard == byBearer {
			var err error
			if c, err = s.caller(r); err != nil {
				return err
			}
			if rt.scope != "" && !c.May(rt.scope) {
				return httpapi.Forbidden(rt.scope)
			}
		}
		return rt.handle(s, w, r, c)
	}
}

func (s *Server) caller(r *http.Request) (identity.Caller, error) {
	token := httpapi.Bearer(r)
	if token == "" {
		return identity.Caller{}, httpapi.Unauthenticated()
	}
	return s.Identity.AuthenticateClient(r.Context(), token)
}

// anybody refuses whoever has no valid credential of any class, before a path is called unknown. The test seams are not
// there at all, which is for everybody to see (wire 19.1).
func (s *Server) anybody(r *http.Request) error {
	if _, err := s.caller(r); err == nil || isSeam(r.URL.Path) || !protected(r.URL.Path) {
		return nil
	} else if _, _, runnerErr := s.Identity.AuthenticateRunner(r.Context(), httpapi.Bearer(r)); runnerErr != nil {
		return err
	}
	return nil
}
