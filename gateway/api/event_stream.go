package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"runnerd/gateway/identity"
	"runnerd/gateway/store"
	"runnerd/internal/httpapi"
	"runnerd/internal/sse"
)

const (
	longestBuffer = 5000 // ms
	eventBatch    = "batch"
)

var errTimeIsUp = errors.New("it is time to look again")

// streamEvents sends a run's log as it grows (wire 6.3). Everything that can be wrong with the request is answered before
// the stream begins.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request, c identity.Caller) error {
	if r.Method == http.MethodHead { // it would last as long as the run and say nothing
		return &httpapi.Problem{Status: http.StatusMethodNotAllowed, Code: httpapi.CodeMethodNotAllowed, Message: "HEAD is not served here",
			Header: http.Header{"Allow": {http.MethodGet}}}
	}
	id := store.RunID(r.PathValue("runId"))
	show, err := parseModes(r.URL.Query()["streamMode"])
	if err != nil {
		return err
	}
	buffer, err := httpapi.QueryInt(r, "bufferMs", 0, 0, longestBuffer)
	if err != nil {
		return err
	}
	after, err := sse.LastEventID(r)
	if err != nil {
		return err
	}
	wake, stop := s.Bus.Listen(store.RunTopic(c.Tenant, id)) // before the first read, so that nothing falls between
	defer stop()
	first, err := s.read(r.Context(), c, id, after)
	if err != nil {
		return err
	}
	out, err := sse.Open(w, r)
	if err != nil {
		return err
	}
	v := &viewer{s: s, w: w, r: r, c: c, id: id, out: out, after: after, show: show, window: time.Duration(buffer) * time.Millisecond}
	return v.follow(r.Context(), wake, first)
}

// A viewer is one reader of one run's log.
type viewer struct {
	s      *Server
	w      http.ResponseWriter
	r      *http.Request
	c      identity.Caller
	id     store.RunID
	out    *sse.Stream
	after  int64
	show   modes
	window time.Duration // of batches; 0: none

	batch []frame
	due   time.Time // when the batch is sent
}

func (v *viewer) follow(ctx context.Context, wake <-chan struct{}, p page) error {
	judged := time.Now()
	for {
		flush := p.end
		for _, e := range p.events {
			v.after = e.Seq
			f, ok, err := v.show.show(e)
			if err != nil {
				return err
			}
			if ok {
				if err := v.add(f); err != nil {
					return err
				}
			}
			flush = flush || terminal(e.Type) || e.Type == "node.suspended"
		}
		if err := v.send(flush); err != nil {
			return err
		}
		if p.end {
			return v.out.Flush()
		}
		if !p.more {
			if err := v.wait(ctx, wake, judged.Add(v.s.recheck)); err != nil {
				return err
			}
		}
		if time.Since(judged) >= v.s.recheck {
			if _, err := v.s.caller(v.r); isRefusal(err) {
				return v.out.Flush() // the reader comes back with a credential that is good, or not at all
			} else if err != nil {
				return err
			}
			judged = time.Now()
		}
		var err error
		if p, err = v.s.read(ctx, v.c, v.id, v.after); err != nil {
			return err
		}
	}
}

// wait waits for the bell, for the batch to be due, or for the moment at which something else is to be looked at.
func (v *viewer) wait(ctx context.Context, wake <-chan struct{}, until time.Time) error {
	if len(v.batch) > 0 && v.due.Before(until) {
		until = v.due
	}
	ctx, cancel := context.WithDeadlineCause(ctx, until, errTimeIsUp)
	defer cancel()
	err := v.out.Wait(ctx, wake)
	if errors.Is(err, errTimeIsUp) {
		// Wait has left a deadline for the stream's last bytes, which these are not.
		return http.NewResponseController(v.w).SetWriteDeadline(time.Time{})
	}
	return err
}

func (v *viewer) add(f frame) error {
	if v.window == 0 {
		return v.out.Send(f.seq, f.kind, f.data)
	}
	if len(v.batch) == 0 {
		v.due = time.Now().Add(v.window)
	}
	v.batch = append(v.batch, f)
	return nil
}

// send sends the batch if it is due, or now.
func (v *viewer) send(now bool) error {
	if len(v.batch) == 0 || !now && time.Now().Before(v.due) {
		return nil
	}
	docs := make([][]byte, len(v.batch))
	for i, f := range v.batch {
		docs[i] = f.data
	}
	last := v.batch[len(v.batch)-1].seq
	v.batch = v.batch[:0]
	data := append(append([]byte{'['}, bytes.Join(docs, []byte{','})...), ']')
	return v.out.Send(last, eventBatch, data)
}
