package channel

import (
	"net/http"
	"time"

	"runnerd/gateway/dispatch"
	"runnerd/internal/fault"
	"runnerd/internal/httpapi"
	"runnerd/internal/wire"
)

func (s *Server) pair(w http.ResponseWriter, r *http.Request) error {
	in, err := httpapi.Decode[wire.PairingRequest](w, r, httpapi.MaxBytes(4<<10))
	if err != nil {
		return err
	}
	out, err := s.identity.Pair(r.Context(), s.from(r), s.page(r), in)
	if err != nil {
		return err
	}
	return httpapi.Encode(w, http.StatusCreated, out)
}

func (s *Server) trade(w http.ResponseWriter, r *http.Request) error {
	in, err := httpapi.Decode[wire.TokenRequest](w, r, httpapi.MaxBytes(4<<10))
	if err != nil {
		return err
	}
	out, err := s.identity.Trade(r.Context(), in)
	if err != nil {
		return err
	}
	return httpapi.Encode(w, http.StatusOK, out)
}

// register takes a registration record. One that names another runner or subject than the bearer's is refused in the same
// words, whether those exist or not (faults.md T05, T06).
func (s *Server) register(w http.ResponseWriter, r *http.Request, who dispatch.Who) error {
	if err := s.begins.take(who, time.Now()); err != nil {
		return err
	}
	in, err := httpapi.Decode[wire.Registration](w, r)
	if err != nil {
		return err
	}
	if in.RunnerID != string(who.Runner) || in.Subject != string(who.Subject) {
		return &httpapi.Problem{Status: http.StatusForbidden, Code: httpapi.CodeForbidden, Message: "the record is not of the runner that the bearer belongs to"}
	}
	epoch, err := s.dispatch.Register(r.Context(), who, in)
	if err != nil {
		return err
	}
	return httpapi.Encode(w, http.StatusOK, wire.Registered{Epoch: epoch})
}

func (s *Server) report(w http.ResponseWriter, r *http.Request, who dispatch.Who) error {
	in, err := httpapi.Decode[wire.Report](w, r, httpapi.MaxBytes(wire.MaxReport))
	if err != nil {
		return err
	}
	if len(in.Accept) > 0 {
		fault.Point("G07")
	}
	if len(in.Progress) > 0 {
		fault.Point("G08")
	}
	out, err := s.dispatch.Report(r.Context(), who, in)
	if err != nil {
		return err
	}
	if len(out.Permits) > 0 {
		fault.Point("G07b")
	}
	return httpapi.Encode(w, http.StatusOK, out)
}

// logout revokes the runner by its own wish. Its stream and its steps end with it.
func (s *Server) logout(w http.ResponseWriter, r *http.Request, who dispatch.Who) error {
	if err := s.identity.RevokeRunner(r.Context(), who.Subject, who.Runner, "logout"); err != nil {
		return err
	}
	if err := s.dispatch.Revoked(r.Context(), who.Runner); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
