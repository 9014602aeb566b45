package api

import (
	"net/http"
	"time"

	"runnerd/gateway/identity"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
)

// A pairingReply shows a person what would be approved, or was.
type pairingReply struct {
	UserCode string    `json:"userCode"`
	Name     string    `json:"name"`
	Platform string    `json:"platform"`
	Version  string    `json:"version"`
	State    string    `json:"state"`
	RunnerID string    `json:"runnerId,omitempty"`
	Expires  time.Time `json:"expires"`
}

func pairingOf(p store.Pairing) pairingReply {
	return pairingReply{identity.ShowUserCode(p.UserCode), p.Name, p.Platform, p.Version, string(p.State), string(p.Runner), p.Expires.UTC()}
}

func (s *Server) getPairing(w http.ResponseWriter, r *http.Request, c identity.Caller) error {
	p, err := s.Identity.Pairing(r.Context(), c.Subject, r.PathValue("code"))
	if err != nil {
		return missing(err, "pairing")
	}
	return httpapi.Encode(w, http.StatusOK, pairingOf(p))
}

func (s *Server) approvePairing(w http.ResponseWriter, r *http.Request, c identity.Caller) error {
	if _, err := httpapi.Decode[nothing](w, r, httpapi.Optional()); err != nil {
		return err
	}
	p, err := s.Identity.Approve(r.Context(), c.Subject, r.PathValue("code"))
	if err != nil {
		return missing(err, "pairing")
	}
	return httpapi.Encode(w, http.StatusOK, pairingOf(p))
}

func (s *Server) denyPairing(w http.ResponseWriter, r *http.Request, c identity.Caller) error {
	if _, err := httpapi.Decode[nothing](w, r, httpapi.Optional()); err != nil {
		return err
	}
	p, err := s.Identity.Deny(r.Context(), c.Subject, r.PathValue("code"))
	if err != nil {
		return missing(err, "pairing")
	}
	return httpapi.Encode(w, http.StatusOK, pairingOf(p))
}

// nothing is a body without members.
type nothing struct{}
