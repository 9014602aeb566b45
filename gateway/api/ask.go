package api

import (
	"encoding/json"
	"net/http"
	"time"

	"runnerd/gateway/identity"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
	"runnerd/internal/wire"
)

// An askLine is a question that a runner has for its owner.
type askLine struct {
	ID       string          `json:"id"`
	RunID    string          `json:"runId"`
	StepID   string          `json:"stepId"`
	RunnerID string          `json:"runnerId"`
	Tool     string          `json:"tool,omitempty"`
	Title    string          `json:"title"`
	Detail   json.RawMessage `json:"detail,omitempty"`
	LeftMs   int64           `json:"leftMs"` // then it counts as denied
	Answer   string          `json:"answer,omitempty"`
}

type askList struct {
	Asks []askLine `json:"asks"`
}

// asksOf reads the questions of all the caller's runners, open and answered.
func asksOf(r store.Reader, s store.Subject) ([]store.AskRecord, error) {
	var all []store.AskRecord
	for row, err := range r.Runners(s) {
		if err != nil {
			return nil, err
		}
		for a, err := range r.Answers(s, row.ID) {
			if err != nil {
				return nil, err
			}
			all = append(all, a)
		}
	}
	return all, nil
}

// listAsks lists what waits for an answer. What is past its time is not there any more: it was denied.
func (s *Server) listAsks(w http.ResponseWriter, r *http.Request, c identity.Caller) error {
	var out askList
	err := s.Store.View(r.Context(), func(rd store.Reader) error {
		out.Asks = []askLine{}
		all, err := asksOf(rd, c.Subject)
		for _, a := range all {
			if left := a.Expires.Sub(rd.Now()); a.Answer == "" && left > 0 {
				out.Asks = append(out.Asks, lineOfAsk(a, left))
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	return httpapi.Encode(w, http.StatusOK, out)
}

func lineOfAsk(a store.AskRecord, left time.Duration) askLine {
	var doc wire.Ask
	_ = json.Unmarshal(a.Doc, &doc) // it was encoded from one
	return askLine{a.ID, string(a.Run), string(a.Step), string(a.Runner), doc.Tool, doc.Title, doc.Detail, max(0, left.Milliseconds()), a.Answer}
}

type answerRequest struct {
	Answer string `json:"answer"`
}

// Validate knows the two answers there are.
func (q answerRequest) Validate() error {
	if q.Answer != "allow" && q.Answer != "deny" {
		return httpapi.Invalid("answer", `must be "allow" or "deny"`)
	}
	return nil
}

// answerAsk settles a question once. The same answer again is no error, another one is, and after its time there is none
// (UD-83).
func (s *Server) answerAsk(w http.ResponseWriter, r *http.Request, c identity.Caller) error {
	in, err := httpapi.Decode[answerRequest](w, r, httpapi.MaxBytes(4<<10))
	if err != nil {
		return err
	}
	id := r.PathValue("askId")
	var out askLine
	err = s.Store.Update(r.Context(), func(tx store.Tx) error {
		a, err := askOf(tx, c.Subject, id)
		if err != nil {
			return err
		}
		now := tx.Now()
		switch {
		case a.Answer == in.Answer:
			out = lineOfAsk(a, a.Expires.Sub(now))
			return nil
		case a.Answer != "":
			return &httpapi.Problem{Status: http.StatusConflict, Code: codeAnswered, Message: "the question was answered before", Details: map[string]any{"answer": a.Answer}}
		case !now.Before(a.Expires):
			return &httpapi.Problem{Status: http.StatusGone, Code: codeAskExpired, Message: "the question was not answered in time, which counts as denied"}
		}
		if err := tx.AnswerAsk(c.Subject, id, in.Answer, now); err != nil {
			return err
		}
		a.Answer = in.Answer
		out = lineOfAsk(a, a.Expires.Sub(now))
		tx.Publish(store.RunnerTopic(a.Runner))
		tx.Publish(store.SubjectTopic(c.Subject))
		return tx.AppendAudit(store.AuditEntry{Subject: c.Subject, At: s.Now().UTC(), Kind: store.AuditAnswer, Run: a.Run, Step: a.Step,
			Runner: a.Runner, RunnerSeq: a.Seq, Detail: in.Answer})
	})
	if err != nil {
		return missing(err, "question")
	}
	return httpapi.Encode(w, http.StatusOK, out)
}

func askOf(r store.Reader, s store.Subject, id string) (store.AskRecord, error) {
	all, err := asksOf(r, s)
	if err != nil {
		return store.AskRecord{}, err
	}
	for _, a := range all {
		if a.ID == id {
			return a, nil
		}
	}
	return store.AskRecord{}, store.ErrNotFound
}
