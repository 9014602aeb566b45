package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"runnerd/gateway/identity"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
)

// What one read of a log brings at most.
const (
	eventsAtOnce = 1000
	bytesAtOnce  = 4 << 20
)

// runOf reads a run of the caller. One of somebody else is not found.
func runOf(r store.Reader, c identity.Caller, id store.RunID) (store.Run, error) {
	if !validID(string(id)) {
		return store.Run{}, httpapi.NotFound("run")
	}
	row, err := r.Run(c.Tenant, id)
	if err == nil && row.Subject != c.Subject {
		err = store.ErrNotFound
	}
	return row, missing(err, "run")
}

// A page is a piece of a log. more says that it was cut, end that nothing comes after it, ever.
type page struct {
	events    []store.Event
	more, end bool
}

// read gives the events after a sequence, as many as one read brings.
func (s *Server) read(ctx context.Context, c identity.Caller, id store.RunID, after int64) (page, error) {
	var p page
	err := s.Store.View(ctx, func(r store.Reader) error {
		p = page{}
		row, err := runOf(r, c, id)
		if err != nil {
			return err
		}
		size := 0
		for e, err := range r.Events(c.Tenant, id, after, eventsAtOnce) {
			if err != nil {
				return err
			}
			p.events = append(p.events, e)
			if size += len(e.Doc); size > bytesAtOnce {
				break
			}
		}
		p.more = size > bytesAtOnce || len(p.events) == eventsAtOnce
		last := after
		if n := len(p.events); n > 0 {
			last = p.events[n-1].Seq
		}
		p.end = store.Terminal(row.Status) && last >= row.LastSeq
		return nil
	})
	return p, err
}

// A pollReply is wire 6.2's.
type pollReply struct {
	Events     []json.RawMessage `json:"events"`
	IsComplete bool              `json:"isComplete"`
}

const (
	pollDefault = 30
	pollLongest = 60
)

func (s *Server) pollEvents(w http.ResponseWriter, r *http.Request, c identity.Caller) error {
	id := store.RunID(r.PathValue("runId"))
	after, err := httpapi.QueryInt(r, "lastSequence", -1, -1, 1<<53)
	if err != nil {
		return err
	}
	seconds, err := httpapi.QueryInt(r, "timeout", pollDefault, 1, pollLongest)
	if err != nil {
		return err
	}
	wake, stop := s.Bus.Listen(store.RunTopic(c.Tenant, id)) // before the first read, so that nothing falls between
	defer stop()
	ctx := r.Context()
	held := time.NewTimer(time.Duration(seconds) * time.Second)
	defer held.Stop()
	for over := false; ; {
		p, err := s.read(ctx, c, id, after)
		if err != nil {
			return err
		}
		if len(p.events) > 0 || p.end || over {
			reply := pollReply{Events: make([]json.RawMessage, len(p.events)), IsComplete: p.end}
			for i, e := range p.events {
				reply.Events[i] = e.Doc
			}
			return httpapi.Encode(w, http.StatusOK, reply)
		}
		select {
		case <-wake:
		case <-held.C:
			over = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
