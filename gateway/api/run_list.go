package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"runnerd/gateway/identity"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
)

// A runLine is a run in a list.
type runLine struct {
	RunID      string    `json:"runId"`
	WorkflowID string    `json:"workflowId"`
	Title      string    `json:"title,omitempty"` // the beginning of a chat's prompt
	Status     string    `json:"status"`
	CreatedAt  time.Time `json:"createdAt"`
	UpdatedAt  time.Time `json:"updatedAt"`
}

// A runList has what has not ended first, then the newest first. Next, if any, is to be sent as before for what is older.
type runList struct {
	Runs []runLine `json:"runs"`
	Next string    `json:"next,omitempty"`
}

const (
	runsDefault = 50
	runsMost    = 200
)

// listRuns lists the caller's runs. What has not ended is pinned within the page that holds it (UD-87).
func (s *Server) listRuns(w http.ResponseWriter, r *http.Request, c identity.Caller) error {
	limit, err := httpapi.QueryInt(r, "limit", runsDefault, 1, runsMost)
	if err != nil {
		return err
	}
	before, err := beforeOf(r)
	if err != nil {
		return err
	}
	out := runList{Runs: []runLine{}}
	err = s.Store.View(r.Context(), func(rd store.Reader) error {
		out.Runs, out.Next = out.Runs[:0], ""
		for row, err := range rd.Runs(c.Tenant, c.Subject, before, int(limit)+1) {
			if err != nil {
				return err
			}
			if len(out.Runs) == int(limit) {
				out.Next = out.Runs[limit-1].CreatedAt.Format(time.RFC3339Nano)
				break
			}
			out.Runs = append(out.Runs, runLine{string(row.ID), row.WorkflowID, s.headline(row), row.Status, row.Created.UTC(), row.Updated.UTC()})
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(out.Runs, func(a, b runLine) int { return rank(a) - rank(b) })
	return httpapi.Encode(w, http.StatusOK, out)
}

func rank(l runLine) int {
	if store.Terminal(l.Status) {
		return 1
	}
	return 0
}

func beforeOf(r *http.Request) (time.Time, error) {
	values := r.URL.Query()["before"]
	if len(values) == 0 {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, values[0])
	if err != nil || len(values) > 1 || t.Year() < 1970 {
		return time.Time{}, httpapi.Invalid("before", "must be what the list gave as next")
	}
	return t, nil
}

// headline is what a person knows a run by. Only the built-in chat's prompt is shown: what the inputs of other workflows mean,
// and whether they are sensitive, is theirs to say.
func (s *Server) headline(row store.Run) string {
	const longest = 80
	if row.WorkflowID != s.chat.ID {
		return ""
	}
	var q struct {
		Inputs struct {
			Prompt string `json:"prompt"`
		} `json:"inputs"`
	}
	if json.Unmarshal(row.Request, &q) != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(q.Inputs.Prompt), "\n")
	if runes := []rune(line); len(runes) > longest {
		return string(runes[:longest-1]) + "…"
	}
	return line
}
