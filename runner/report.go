package runner

import (
	"context"
	"errors"
	"slices"
	"time"

	"runnerd/internal/fault"
	"runnerd/internal/wire"
	"runnerd/runner/journal"
	"runnerd/runner/link"
)

// mostProgress bounds the partial output of one report. In JSON a byte may become six, and a report has its limit.
const mostProgress = 128 << 10

// A draft is a report that is about to be sent, and what it settles once it is answered.
type draft struct {
	wire.Report
	refused int            // of the desk's refusals, the first so many are in it
	pieces  map[pair]int64 // number of the last piece of each step's output
	sent    time.Duration  // by the clock that counts sleep
	stock   bool           // it carries the inventory
}

// draft writes down how things stand. It changes nothing but what output has been numbered.
func (r *Runner) draft(epoch, n int64) draft {
	r.mu.Lock()
	every := time.Duration(r.limits.ProgressEvery) * time.Millisecond
	d := draft{pieces: map[pair]int64{}, sent: r.cfg.Clock.Now()}
	d.State = r.state()
	if !r.stocked && r.shelf != nil {
		d.stock, d.Inventory = true, r.shelf.inventory()
	}
	r.mu.Unlock()
	d.Epoch, d.N, d.JournalID = epoch, n, r.journal.ID()
	desk := r.desk
	desk.mu.Lock()
	defer desk.mu.Unlock()
	d.Cursor = desk.cursor()
	room := mostProgress
	for _, t := range desk.sorted() {
		if len(d.Held) < wire.MaxHeld {
			d.Held = append(d.Held, wire.Held{StepRef: t.ref, Phase: t.phase})
		}
		if t.again.Seq > 0 {
			d.Held = append(d.Held, wire.Held{StepRef: t.again, Phase: wire.PhaseAccepted})
		}
		if t.phase == wire.PhaseAccepted && t.cancel == nil && t.told == "" {
			d.Accept = append(d.Accept, t.ref)
		}
		for _, p := range t.output.pieces(t.ref, time.Now(), every, room) {
			if len(p.Delta) > room {
				break
			}
			room -= len(p.Delta)
			d.Progress, d.pieces[pairOf(t.ref)] = append(d.Progress, p), p.N
		}
	}
	d.refused = len(desk.refusals)
	for _, f := range desk.refusals {
		d.Refuse = append(d.Refuse, f.Refusal)
	}
	d.Capacity = r.capacity(d.State)
	return d
}

// capacity is what the runner could take now. The desk is locked.
func (r *Runner) capacity(state string) wire.Capacity {
	all, _ := r.desk.working()
	c := wire.Capacity{Max: r.cfg.MaxSteps}
	if state == wire.StateReady && len(r.desk.tasks) < wire.MaxHeld && (!r.desk.busy || r.journal.HasRoom()) {
		c.Free = max(c.Max-all, 0)
	}
	return c
}

// apply carries out what a report was answered.
func (r *Runner) apply(steps context.Context, d draft, reply wire.ReportReply) error {
	r.mu.Lock()
	if reply.Limits.MaxResultBytes > 0 {
		r.limits.MaxResultBytes = min(reply.Limits.MaxResultBytes, wire.MaxResult)
	}
	if reply.Limits.MaxFrameBytes > 0 {
		r.limits.MaxFrameBytes = min(reply.Limits.MaxFrameBytes, wire.MaxFrame)
	}
	if reply.Limits.ProgressEvery > 0 {
		r.limits.ProgressEvery = max(reply.Limits.ProgressEvery, wire.ProgressEvery.Milliseconds())
	}
	r.stocked = (r.stocked || d.stock) && reply.Want != wire.WantInventory
	again := reply.Want == wire.WantInventory && r.shelf != nil
	r.mu.Unlock()

	desk := r.desk
	desk.mu.Lock()
	defer desk.mu.Unlock()
	desk.gateway = max(desk.gateway, reply.Cursor)
	if err := r.settle(d); err != nil {
		return err
	}
	for _, p := range reply.Permits {
		if err := r.permitted(steps, p, d.sent); err != nil {
			return err
		}
	}
	for _, s := range reply.Stop {
		r.stop(s)
	}
	if d.Capacity.Free > 0 {
		desk.busy = false
	}
	if again {
		r.sayNow()
	}
	return nil
}

// settle takes off the desk what the gateway knows now. The desk is locked.
func (r *Runner) settle(d draft) error {
	desk := r.desk
	for _, h := range d.Held {
		if t := desk.find(h.StepRef); t != nil {
			t.told = h.Phase
		}
	}
	for at, n := range d.pieces {
		if t := desk.tasks[at]; t != nil {
			t.output.answered(n)
		}
	}
	if d.refused == 0 {
		return nil
	}
	before := desk.cursor()
	desk.refusals = slices.Delete(desk.refusals, 0, d.refused)
	if after := desk.cursor(); after > before {
		if err := r.journal.SetCursor(after); err != nil && !errors.Is(err, journal.ErrNoRoom) {
			return r.broken(err)
		}
	}
	return nil
}

// permitted starts a step. Its time is counted from when the report was sent: the gateway counted from later, so the runner
// is never the one who believes that there is time left. The desk is locked.
func (r *Runner) permitted(steps context.Context, p wire.Permit, sent time.Duration) error {
	fault.Point("R03")
	remaining := time.Duration(p.RemainingMs)*time.Millisecond - (r.cfg.Clock.Now() - sent)
	if t := r.desk.find(p.StepRef); t != nil {
		r.start(steps, t, remaining)
		return nil
	}
	t := r.desk.tasks[pairOf(p.StepRef)]
	if t == nil || t.again != p.StepRef {
		return nil
	}
	output, err := r.journal.Output(t.ref)
	if err == nil {
		err = r.journal.Finish(p.StepRef, r.journal.Find(p.RunID, p.StepID).Hash, output)
	}
	if err != nil {
		return r.broken(err)
	}
	t.ref, t.again, t.parked = p.StepRef, wire.StepRef{}, ""
	r.postNow()
	return nil
}

// adopt takes over the gateway's cursor when the journal is new or was damaged: what was offered before is not for it.
func (r *Runner) adopt(reply wire.ReportReply) error {
	if _, unsure := r.journal.Cursor(); !unsure {
		return nil
	}
	r.desk.mu.Lock()
	defer r.desk.mu.Unlock()
	r.desk.high = max(r.desk.high, reply.Cursor)
	if err := r.journal.SetCursor(r.desk.high); err != nil && !errors.Is(err, journal.ErrNoRoom) {
		return r.broken(err)
	}
	return nil
}

// sayWhen is how long the next report can wait: for output that waits for its turn, and for a step that has begun.
func (r *Runner) sayWhen() time.Duration {
	r.mu.Lock()
	every := time.Duration(r.limits.ProgressEvery) * time.Millisecond
	r.mu.Unlock()
	r.desk.mu.Lock()
	defer r.desk.mu.Unlock()
	wait := wire.ReportEvery
	for _, t := range r.desk.tasks {
		if due := t.output.due(every); !due.IsZero() {
			wait = min(wait, max(time.Until(due), 0))
		}
		if t.phase == wire.PhaseRunning && t.told != wire.PhaseRunning { // soon, unless it ends at once
			wait = min(wait, max(time.Until(t.since.Add(every)), 0))
		}
	}
	return wait
}

// report keeps the gateway informed until ctx ends or the connection is of no use: every wire.ReportEvery, and at once when
// there is something to say, one report at a time.
func (r *Runner) report(ctx, steps context.Context, s *session) error {
	var failures link.Backoff
	answered := time.Now()
	for {
		wait := time.NewTimer(min(r.sayWhen(), time.Until(s.reported.Add(wire.ReportEvery))))
		select {
		case <-ctx.Done():
			wait.Stop()
			return context.Cause(ctx)
		case <-r.wake:
			wait.Stop()
			continue
		case <-r.say:
			wait.Stop()
		case <-wait.C:
		}
		err := r.reportOnce(ctx, steps, s)
		for err != nil {
			if lasting(err) || time.Since(answered) > wire.StreamDead || ctx.Err() != nil {
				return err
			}
			r.log.warn("a report was not answered", "err", r.client.Words(err))
			if err := pause(ctx, min(failures.Next(0), wire.ReportEvery)); err != nil {
				return err
			}
			err = r.reportOnce(ctx, steps, s)
		}
		failures.Reset()
		answered = time.Now()
	}
}

// reportOnce sends one report and does what it is answered.
func (r *Runner) reportOnce(ctx, steps context.Context, s *session) error {
	s.n++
	d := r.draft(s.epoch, s.n)
	reply, err := r.client.Report(ctx, d.Report)
	if err != nil {
		return err
	}
	s.reported = time.Now()
	r.heard(s)
	if s.n == 1 {
		if err := r.adopt(reply); err != nil {
			return err
		}
	}
	return r.apply(steps, d, reply)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
