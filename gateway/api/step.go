package api

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"runnerd/gateway/dispatch"
	"runnerd/gateway/identity"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
	"runnerd/internal/wire"
)

// The phases of a step as the page shows them (UD-88).
const (
	phaseQueued       = "queued"
	phaseOffered      = "offered" // sent to a runner, not yet taken
	phaseAccepted     = "accepted"
	phaseRunning      = "running"
	phaseAsking       = "asking"         // waits for a person
	phaseDisconnected = "disconnected"   // the runner is out of reach; the step goes on until then
	phasePending      = "result_pending" // finished on the runner, the result is on its way
)

// phase says where a step stands, from its row and what its runner last said.
func (s *Server) phase(step store.Step, p dispatch.Presence) string {
	switch {
	case step.State != store.StepAccepted:
		return string(step.State)
	case p.Status != dispatch.Online:
		return phaseDisconnected
	case step.Plain:
		return phaseRunning
	case s.Dispatch == nil:
		return phaseAccepted
	}
	switch s.Dispatch.Phase(step) {
	case wire.PhaseRunning:
		return phaseRunning
	case wire.PhaseAsking:
		return phaseAsking
	case wire.PhaseFinished:
		return phasePending
	}
	return phaseAccepted
}

// A stepLine is a step of a run. ElapsedMs counts the phase's state, TotalMs all since the step was made.
type stepLine struct {
	StepID     string     `json:"stepId"`
	NodeID     string     `json:"nodeId"`
	Kind       string     `json:"kind"`
	Provider   string     `json:"provider,omitempty"`
	Model      string     `json:"model,omitempty"`
	Tool       string     `json:"tool,omitempty"`
	RunnerID   string     `json:"runnerId,omitempty"`
	RunnerName string     `json:"runnerName,omitempty"`
	Phase      string     `json:"phase"`
	Code       string     `json:"code,omitempty"`
	Outcome    string     `json:"outcome,omitempty"`
	ElapsedMs  int64      `json:"elapsedMs"`
	TotalMs    int64      `json:"totalMs"`
	LeftMs     *int64     `json:"leftMs,omitempty"`   // until the phase ends by itself
	LastSign   *time.Time `json:"lastSign,omitempty"` // of the runner's life
}

type stepList struct {
	Steps []stepLine `json:"steps"`
}

func (s *Server) listSteps(w http.ResponseWriter, r *http.Request, c identity.Caller) error {
	id := store.RunID(r.PathValue("runId"))
	var out stepList
	err := s.Store.View(r.Context(), func(rd store.Reader) error {
		out.Steps = []stepLine{}
		if _, err := runOf(rd, c, id); err != nil {
			return err
		}
		for step, err := range rd.StepsOfRun(c.Tenant, id) {
			if err != nil {
				return err
			}
			line, err := s.stepLine(rd, step)
			if err != nil {
				return err
			}
			out.Steps = append(out.Steps, line)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return httpapi.Encode(w, http.StatusOK, out)
}

func (s *Server) stepLine(rd store.Reader, step store.Step) (stepLine, error) {
	now := rd.Now()
	node, _, _ := strings.Cut(string(step.ID), ":")
	line := stepLine{StepID: string(step.ID), NodeID: node, Kind: step.Kind, Provider: step.Provider, Model: step.Model, Tool: step.Tool,
		Code: step.Code, Outcome: step.Outcome}
	if step.UseProv != "" {
		line.Provider, line.Model = step.UseProv, step.UseModel
	}
	var p dispatch.Presence
	if step.Runner != "" && step.State != store.StepQueued {
		row, err := rd.Runner(step.Subject, step.Runner)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return line, err
		}
		if err == nil {
			p = s.presence(row)
			line.RunnerID, line.RunnerName = string(row.ID), row.Name
		}
	}
	line.Phase = s.phase(step, p)
	if step.State.Terminal() {
		line.TotalMs = step.Since.Sub(step.Created).Milliseconds()
		line.ElapsedMs = line.TotalMs
		return line, nil
	}
	line.ElapsedMs, line.TotalMs = now.Sub(step.Since).Milliseconds(), now.Sub(step.Created).Milliseconds()
	if !step.Due.IsZero() {
		left := max(0, step.Due.Sub(now).Milliseconds())
		line.LeftMs = &left
	}
	line.LastSign = moment(p.LastSeen)
	return line, nil
}
