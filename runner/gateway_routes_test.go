package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"runnerd/internal/sse"
	"runnerd/internal/wire"
)

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	hook := g.hook
	g.mu.Unlock()
	if hook != nil && hook(w, r) {
		return
	}
	path := strings.TrimPrefix(r.URL.Path, wire.Prefix+"/")
	if path == "tokens" {
		g.tokens(w, r)
		return
	}
	g.mu.Lock()
	good := r.Header.Get("Authorization") == "Bearer "+g.bearer && !g.revoked
	g.mu.Unlock()
	if !good {
		refuseWith(w, http.StatusUnauthorized, "unauthenticated")
		return
	}
	switch r.Method + " " + path {
	case "PUT runner":
		g.register(w, r)
	case "DELETE runner":
		g.with(func() { g.revoked = true })
		w.WriteHeader(http.StatusNoContent)
	case "GET dispatches":
		g.stream(w, r)
	case "POST reports":
		g.report(w, r)
	case "POST results":
		g.results(w, r)
	default:
		refuseWith(w, http.StatusNotFound, "not_found")
	}
}

func refuseWith(w http.ResponseWriter, status int, code string) {
	reply(w, status, map[string]string{"error": code, "message": code})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// read decodes a request as strictly as the real gateway does.
func read[T wire.Validator](g *gateway, w http.ResponseWriter, r *http.Request) (T, bool) {
	b, err := io.ReadAll(r.Body)
	if err == nil {
		var v T
		if v, err = wire.Decode[T](b); err == nil {
			return v, true
		}
	}
	if r.Context().Err() == nil {
		g.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	refuseWith(w, http.StatusBadRequest, "validation_error")
	var none T
	return none, false
}

// tokens rotates: generation g is good until g+1 was presented.
func (g *gateway) tokens(w http.ResponseWriter, r *http.Request) {
	in, ok := read[wire.TokenRequest](g, w, r)
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var gen int
	if _, err := fmt.Sscanf(in.RefreshToken, "refresh-%d-of-the-runner", &gen); err != nil || gen < g.gen || g.revoked {
		g.revoked = true
		refuseWith(w, http.StatusBadRequest, wire.TokenInvalid)
		return
	}
	g.gen = gen
	g.bearer = fmt.Sprintf("bearer-%d-of-the-runner", gen+1)
	reply(w, http.StatusOK, wire.TokenReply{
		AccessToken: g.bearer, TokenType: "Bearer", ExpiresIn: 3600, RefreshToken: refreshToken(gen + 1), RunnerID: "rnr_1", Subject: "default/ada",
	})
}

func refreshToken(gen int) string { return fmt.Sprintf("refresh-%d-of-the-runner", gen) }

func (g *gateway) register(w http.ResponseWriter, r *http.Request) {
	in, ok := read[wire.Registration](g, w, r)
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.epoch++
	g.n = 0
	g.registered = append(g.registered, in)
	g.ring()
	reply(w, http.StatusOK, wire.Registered{Epoch: g.epoch})
}

// stream sends offered frames above the cursor until the connection or the epoch ends.
func (g *gateway) stream(w http.ResponseWriter, r *http.Request) {
	out, err := sse.Open(w, r)
	if err != nil {
		return
	}
	length := r.URL.Query().Get("maxMs")
	ctx := r.Context()
	if length != "" {
		d, err := time.ParseDuration(length + "ms")
		if err != nil {
			g.t.Error(err)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	g.mu.Lock()
	mine := g.epoch
	g.streams++
	g.lastIDs = append(g.lastIDs, r.Header.Get("Last-Event-ID"))
	g.lengths = append(g.lengths, length)
	g.opened = append(g.opened, time.Now())
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.streams--
	}()
	nudged := map[int64]bool{}
	for after := out.LastID(); ; {
		g.mu.Lock()
		wake, over := g.wake, g.epoch != mine
		var frames []*gstep
		nudge := false
		for _, s := range g.steps {
			if s.state == "offered" && s.ref.Seq > after {
				frames = append(frames, s)
				if g.plain {
					s.state = "accepted"
				}
			}
			if s.state == "cancelled" && !nudged[s.ref.Seq] {
				nudged[s.ref.Seq], nudge = true, true
			}
		}
		g.mu.Unlock()
		if over {
			_ = out.SendNoID(wire.EventControl, []byte(`{"reason":"superseded"}`))
			_ = out.Flush()
			return
		}
		slices.SortFunc(frames, func(a, b *gstep) int { return int(a.ref.Seq - b.ref.Seq) })
		for _, s := range frames {
			if out.Send(s.ref.Seq, wire.EventDispatch, s.frame) != nil {
				return
			}
			after = s.ref.Seq
		}
		if nudge && out.SendNoID(wire.EventControl, []byte(`{"reason":"report"}`)) != nil {
			return
		}
		if out.Wait(ctx, wakeOf(ctx, wake)) != nil {
			return
		}
	}
}

// wakeOf turns a closed channel into one delivery: to Wait a closed one is the end.
func wakeOf(ctx context.Context, closed <-chan struct{}) <-chan struct{} {
	once := make(chan struct{})
	go func() {
		select {
		case <-closed:
			select {
			case once <- struct{}{}:
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
	}()
	return once
}

func (g *gateway) report(w http.ResponseWriter, r *http.Request) {
	if get(g, func() bool { return g.plain }) {
		refuseWith(w, http.StatusNotFound, "not_found")
		return
	}
	in, ok := read[wire.Report](g, w, r)
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if in.Epoch != g.epoch || in.N < g.n {
		refuseWith(w, http.StatusConflict, "superseded")
		return
	}
	first := g.n == 0
	g.n = in.N
	g.reports = append(g.reports, in)
	g.reportedAt = append(g.reportedAt, time.Now())
	if first {
		g.reconcile(in)
	}
	out := wire.ReportReply{Time: time.Now().UTC().Format(time.RFC3339), Cursor: g.cursor, Limits: wire.DefaultLimits()}
	for _, f := range in.Refuse {
		if s := g.own(f.StepRef); s != nil && s.state == "offered" {
			s.state, s.refusal = "refused", f
		}
	}
	ask := slices.Clone(in.Accept)
	for _, h := range in.Held {
		if h.Phase == wire.PhaseAccepted {
			ask = append(ask, h.StepRef)
		}
	}
	for _, ref := range ask {
		if s := g.own(ref); s != nil && s.state == "offered" {
			s.state = "accepted"
		}
	}
	seen := map[wire.StepRef]bool{}
	for _, ref := range ask {
		if s := g.own(ref); s != nil && s.state == "accepted" && !seen[ref] {
			out.Permits = append(out.Permits, wire.Permit{StepRef: ref, RemainingMs: g.permit.Milliseconds()})
		}
		seen[ref] = true
	}
	for _, h := range in.Held {
		switch s := g.own(h.StepRef); {
		case s == nil || s.state == "withdrawn":
			out.Stop = append(out.Stop, wire.Stop{StepRef: h.StepRef, Reason: wire.StopGone})
		case s.state == "cancelled":
			out.Stop = append(out.Stop, wire.Stop{StepRef: h.StepRef, Reason: wire.StopCancelled})
		case s.state == "done" || s.state == "lost":
			out.Stop = append(out.Stop, wire.Stop{StepRef: h.StepRef, Reason: wire.StopEnded})
		}
	}
	for _, p := range in.Progress {
		if s := g.own(p.StepRef); s != nil && p.N > s.pieces {
			if p.N != s.pieces+1 {
				g.t.Errorf("progress %d of %v after %d", p.N, p.StepRef, s.pieces)
			}
			s.pieces, s.text = p.N, s.text+p.Delta
		}
	}
	reply(w, http.StatusOK, out)
}

// reconcile ends what the runner accepted and does not hold any more.
func (g *gateway) reconcile(in wire.Report) {
	fresh := g.journal != "" && g.journal != in.JournalID
	g.journal = in.JournalID
	for _, s := range g.steps {
		held := slices.ContainsFunc(in.Held, func(h wire.Held) bool { return h.StepRef == s.ref })
		if s.state == "accepted" && (!held || fresh) {
			s.state = "lost"
		}
	}
}

func (g *gateway) results(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var raws []json.RawMessage
	if len(b) > 0 && b[0] == '[' {
		if err := json.Unmarshal(b, &raws); err != nil {
			g.t.Error(err)
		}
	} else {
		raws = []json.RawMessage{b}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var out wire.Verdicts
	for _, raw := range raws {
		res, err := wire.Decode[wire.Result](raw)
		if err != nil {
			g.t.Errorf("result: %v", err)
			refuseWith(w, http.StatusBadRequest, "validation_error")
			return
		}
		g.posted = append(g.posted, res)
		v := wire.Verdict{RunID: res.RunID, StepID: res.StepID, Seq: res.Seq, Verdict: wire.VerdictAccepted}
		switch s := g.own(res.Ref()); {
		case s == nil:
			v.Verdict, v.Code = wire.VerdictRefused, "not_found"
		case s.state == "done":
			v.Verdict = wire.VerdictDeduplicated
			if string(s.result) != string(res.Output) {
				g.t.Errorf("another result for %v: %s, then %s", s.ref, s.result, res.Output)
			}
		case s.state == "accepted" || s.state == "offered" && wire.Failure(res.Output) != nil:
			s.state, s.result = "done", res.Output
		default:
			v.Verdict = wire.VerdictLate
			s.result = res.Output
		}
		out.Verdicts = append(out.Verdicts, v)
	}
	g.ring()
	reply(w, http.StatusOK, out)
}
