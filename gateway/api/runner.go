package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"runnerd/gateway/dispatch"
	"runnerd/gateway/identity"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
	"runnerd/internal/wire"
)

// A runnerLine is a runner as its owner sees it. Presence is the value that the matcher reads (UD-01).
type runnerLine struct {
	ID           string                   `json:"id"`
	Name         string                   `json:"name"`
	Platform     string                   `json:"platform"`
	Version      string                   `json:"version"`
	Presence     string                   `json:"presence"` // online, disconnected, offline
	Dispatchable bool                     `json:"dispatchable"`
	State        string                   `json:"state,omitempty"` // ready, paused, draining, sleeping
	LastSeen     *time.Time               `json:"lastSeen,omitempty"`
	Since        *time.Time               `json:"since,omitempty"` // when presence became what it is
	Until        *time.Time               `json:"until,omitempty"` // of a disconnected one: when it counts as offline
	Created      time.Time                `json:"created"`
	Plain        bool                     `json:"plain,omitempty"` // speaks RFC 0122 and nothing more
	Capacity     capacity                 `json:"capacity"`
	Providers    map[string]wire.Provider `json:"providers"`
	Tools        []string                 `json:"tools"`
	Steps        []stepHeld               `json:"steps"` // in hand
}

type capacity struct {
	Free int `json:"free"`
	Max  int `json:"max"`
}

type stepHeld struct {
	RunID  string `json:"runId"`
	StepID string `json:"stepId"`
	Phase  string `json:"phase"`
}

type runnerList struct {
	Runners []runnerLine `json:"runners"`
}

func (s *Server) listRunners(w http.ResponseWriter, r *http.Request, c identity.Caller) error {
	var out runnerList
	err := s.Store.View(r.Context(), func(rd store.Reader) error {
		out.Runners = []runnerLine{}
		for row, err := range rd.Runners(c.Subject) {
			if err != nil {
				return err
			}
			if !row.Revoked.IsZero() {
				continue
			}
			line, err := s.runnerLine(rd, row)
			if err != nil {
				return err
			}
			out.Runners = append(out.Runners, line)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return httpapi.Encode(w, http.StatusOK, out)
}

func (s *Server) runnerLine(rd store.Reader, row store.Runner) (runnerLine, error) {
	p := s.presence(row)
	line := runnerLine{ID: string(row.ID), Name: row.Name, Platform: row.Platform, Version: row.Version, Presence: string(p.Status),
		Dispatchable: p.Dispatchable, State: p.State, LastSeen: moment(p.LastSeen), Since: moment(p.Since), Until: moment(p.Until),
		Created: row.Created.UTC(), Plain: p.Plain, Capacity: capacity{Max: row.MaxSteps}, Steps: []stepHeld{}}
	var err error
	if line.Providers, line.Tools, err = offers(row); err != nil {
		return line, err
	}
	for step, err := range rd.StepsOfRunner(row.Subject, row.ID, store.StepOffered, store.StepAccepted) {
		if err != nil {
			return line, err
		}
		line.Steps = append(line.Steps, stepHeld{string(step.Run), string(step.ID), s.phase(step, p)})
	}
	if p.Plain && line.Capacity.Max == 0 {
		line.Capacity.Max = wire.DefaultMaxStep
	}
	line.Capacity.Free = max(0, line.Capacity.Max-len(line.Steps))
	return line, nil
}

// offers is what a runner can do: the inventory's providers, or the record's where there is no inventory.
func offers(row store.Runner) (map[string]wire.Provider, []string, error) {
	a, err := dispatch.ReadAbilities(row)
	if err != nil {
		return nil, nil, fmt.Errorf("abilities of runner %s: %w", row.ID, err)
	}
	providers, tools := map[string]wire.Provider{}, append([]string{}, a.Record.Tools...)
	for _, name := range a.Record.Providers {
		if a.Inventory == nil {
			providers[name] = wire.Provider{Models: a.Record.Models}
		} else if p, ok := a.Inventory.Providers[name]; ok {
			providers[name] = p
		}
	}
	return providers, tools, nil
}

func (s *Server) presence(row store.Runner) dispatch.Presence {
	if s.Dispatch == nil {
		return dispatch.Presence{Status: dispatch.Offline, LastSeen: row.LastSeen}
	}
	return s.Dispatch.Presence(row)
}

// revokeRunner ends a runner: its tokens, its stream, and what it holds (UD-29).
func (s *Server) revokeRunner(w http.ResponseWriter, r *http.Request, c identity.Caller) error {
	id := store.RunnerID(r.PathValue("runnerId"))
	if !validID(string(id)) {
		return httpapi.NotFound("runner")
	}
	if err := s.Identity.RevokeRunner(r.Context(), c.Subject, id, "by its owner"); err != nil {
		return missing(err, "runner")
	}
	if s.Dispatch != nil {
		// What the runner held ends here even if the client has left; the sweeper of every gateway sees to it otherwise.
		if err := s.Dispatch.Revoked(context.WithoutCancel(r.Context()), id); err != nil {
			s.Log.WarnContext(r.Context(), "what a revoked runner held is left to the sweeper", "runner", id, "err", err)
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Millisecond)
	return &t
}
