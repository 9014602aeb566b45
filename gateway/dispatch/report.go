package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

// maxCursor is the highest cursor that a runner may claim: above it a number is not exact in every JSON reader, and a
// runner that claimed the largest there is would leave itself no next one.
const maxCursor = 1 << 52

// ErrNotRegistered says that a runner must send its registration record first.
var ErrNotRegistered = errors.New("runner is not registered")

// A tally is what a report led to besides its answer.
type tally struct {
	reply   wire.ReportReply
	held    []heldStep // what the runner holds now, finished steps aside
	refused bool       // a step was refused as busy
}

// Report carries out a runner's report: everything that it changes in one transaction, and none when it changes nothing.
// What it answers is durable.
func (s *Service) Report(ctx context.Context, who Who, rep wire.Report) (wire.ReportReply, error) {
	if rep.Cursor > maxCursor {
		return wire.ReportReply{}, &wire.FieldError{Field: "cursor", Reason: "is too large"}
	}
	f, err := s.begin(ctx, who, rep)
	if err != nil {
		return wire.ReportReply{}, err
	}
	var t tally
	if f.first || f.news || len(rep.Accept)+len(rep.Refuse)+len(rep.Progress)+len(rep.Asks) > 0 || claims(rep.Held) {
		err = s.Update(ctx, func(tx *Tx) (err error) {
			t, err = s.carryOut(tx, who, rep, f)
			return err
		})
	} else {
		err = s.store.View(ctx, func(r store.Reader) error {
			row, err := r.Runner(who.Subject, who.Runner)
			if err != nil {
				return fmt.Errorf("read runner %s: %w", who.Runner, err)
			}
			t, err = s.answer(r, who, row, rep)
			return err
		})
	}
	if err != nil {
		return wire.ReportReply{}, err
	}
	if s.reg.reported(who.Runner, rep, t.held, t.refused) {
		if err := s.Refill(ctx, who.Subject); err != nil {
			return wire.ReportReply{}, err
		}
	}
	t.reply.Time = s.now().UTC().Format(time.RFC3339Nano)
	t.reply.Limits = wire.DefaultLimits()
	return t.reply, nil
}

// claims reports whether a held step may be one whose accept never arrived.
func claims(held []wire.Held) bool {
	for _, h := range held {
		if h.Phase == wire.PhaseAccepted {
			return true
		}
	}
	return false
}

// begin judges the report against memory, or against the runner's row when memory does not know.
func (s *Service) begin(ctx context.Context, who Who, rep wire.Report) (footing, error) {
	f, known, err := s.reg.begin(who.Runner, rep)
	if known || err != nil {
		return f, err
	}
	row, a, err := s.row(ctx, who)
	switch {
	case err != nil:
		return footing{}, err
	case row.Epoch != rep.Epoch:
		return footing{}, ErrSuperseded
	}
	s.reg.wait(row, a)
	f, _, err = s.reg.begin(who.Runner, rep)
	return f, err
}

// row reads a runner that has registered.
func (s *Service) row(ctx context.Context, who Who) (store.Runner, Abilities, error) {
	var row store.Runner
	err := s.store.View(ctx, func(r store.Reader) (err error) {
		row, err = r.Runner(who.Subject, who.Runner)
		return err
	})
	if err != nil {
		return row, Abilities{}, fmt.Errorf("read runner %s: %w", who.Runner, err)
	}
	if len(row.Record) == 0 {
		return row, Abilities{}, ErrNotRegistered
	}
	a, err := ReadAbilities(row)
	return row, a, err
}

// carryOut does what a report asks for: first the reconciliation, so that nothing is permitted to a runner that lost its
// journal; refusals before accepts; and last the answer, from what is true then.
func (s *Service) carryOut(tx *Tx, who Who, rep wire.Report, f footing) (tally, error) {
	row, err := tx.Runner(who.Subject, who.Runner)
	if err != nil {
		return tally{}, fmt.Errorf("read runner %s: %w", who.Runner, err)
	}
	if row.Epoch != rep.Epoch {
		return tally{}, ErrSuperseded
	}
	if err := s.reconcile(tx, who, row, rep, f.first); err != nil {
		return tally{}, err
	}
	var refused bool
	for _, r := range rep.Refuse {
		busy, err := s.refuse(tx, who, r)
		if err != nil {
			return tally{}, fmt.Errorf("refuse %v: %w", r.StepRef, err)
		}
		refused = refused || busy
	}
	for _, ref := range rep.Accept {
		if _, _, err := s.accept(tx, who, ref); err != nil {
			return tally{}, fmt.Errorf("accept %v: %w", ref, err)
		}
	}
	for _, h := range rep.Held {
		if h.Phase == wire.PhaseAccepted { // its accept may have been lost
			if _, _, err := s.accept(tx, who, h.StepRef); err != nil {
				return tally{}, fmt.Errorf("accept %v: %w", h.StepRef, err)
			}
		}
	}
	if err := s.progress(tx, who, rep.Progress); err != nil {
		return tally{}, err
	}
	if err := s.ask(tx, who, rep.Asks); err != nil {
		return tally{}, err
	}
	if f.first || f.news {
		if err := s.describe(tx, row, rep); err != nil {
			return tally{}, err
		}
		if row, err = tx.Runner(who.Subject, who.Runner); err != nil {
			return tally{}, fmt.Errorf("read runner %s: %w", who.Runner, err)
		}
	}
	t, err := s.answer(tx, who, row, rep)
	t.refused = refused
	return t, err
}

// reconcile ends the steps that the runner accepted and does not know of any more. Absence means loss only in an epoch's
// first report, where the runner names all it has; a new journal knows of nothing (design, section 4).
func (s *Service) reconcile(tx *Tx, who Who, row store.Runner, rep wire.Report, first bool) error {
	fresh := row.Journal != "" && row.Journal != rep.JournalID
	if first || fresh {
		if err := tx.RaiseCursor(who.Subject, who.Runner, rep.Cursor); err != nil {
			return fmt.Errorf("raise cursor: %w", err)
		}
	}
	switch {
	case fresh:
		return s.lose(tx, who, nil, "the runner has a new journal")
	case !first:
		return nil
	}
	mentioned := make(map[wire.StepRef]bool, len(rep.Held))
	for _, h := range rep.Held {
		mentioned[h.StepRef] = true
	}
	for _, a := range rep.Accept {
		mentioned[a] = true
	}
	for _, r := range rep.Refuse {
		mentioned[r.StepRef] = true
	}
	return s.lose(tx, who, mentioned, "the runner does not hold it")
}

// describe writes down what the report says of the runner itself.
func (s *Service) describe(tx *Tx, row store.Runner, rep wire.Report) error {
	next := row
	next.Reports, next.Journal, next.State, next.MaxSteps, next.LastSeen = true, rep.JournalID, rep.State, rep.Capacity.Max, s.wall()
	if rep.Inventory != nil {
		b, err := json.Marshal(rep.Inventory)
		if err != nil {
			return fmt.Errorf("write inventory: %w", err)
		}
		next.Inventory = b
	}
	if err := tx.MoveRunner(row.Epoch, next); err != nil {
		return fmt.Errorf("move runner %s: %w", row.ID, err)
	}
	tx.Publish(store.SubjectTopic(row.Subject))
	return nil
}

// progress hands on pieces of output of steps that run under a permit of this runner, grouped by run.
func (s *Service) progress(tx *Tx, who Who, pieces []wire.Progress) error {
	var order []store.RunID
	byRun := map[store.RunID][]wire.Progress{}
	mine := map[wire.StepRef]bool{}
	for _, p := range pieces {
		ok, asked := mine[p.StepRef]
		if !asked {
			step, own, err := s.own(tx, who, p.StepRef)
			if err != nil {
				return err
			}
			ok = own && step.State == store.StepAccepted
			mine[p.StepRef] = ok
		}
		if !ok || s.taint([]byte(p.Delta)) {
			continue
		}
		run := store.RunID(p.RunID)
		if byRun[run] == nil {
			order = append(order, run)
		}
		byRun[run] = append(byRun[run], p)
	}
	for _, run := range order {
		if err := s.runs.Progress(tx, who.Subject.Tenant(), run, byRun[run]); err != nil {
			return fmt.Errorf("progress of run %s: %w", run, err)
		}
	}
	return nil
}

// ask stores questions of steps that run under a permit of this runner.
func (s *Service) ask(tx *Tx, who Who, asks []wire.Ask) error {
	for _, a := range asks {
		step, own, err := s.own(tx, who, a.StepRef)
		if err != nil {
			return err
		}
		if !own || step.State != store.StepAccepted {
			continue
		}
		doc, err := json.Marshal(a)
		if err != nil {
			return fmt.Errorf("write question %s: %w", a.ID, err)
		}
		if s.taint(doc) {
			continue // shown to nobody; it expires as denied
		}
		now := tx.Now()
		limit := min(max(a.ExpiresMs, 0), wire.StepTimeoutMax.Milliseconds())
		left := min(time.Duration(limit)*time.Millisecond, remaining(step, now))
		err = tx.PutAsk(store.AskRecord{
			ID: a.ID, Tenant: step.Tenant, Subject: step.Subject, Runner: who.Runner, Run: step.Run, Step: step.ID, Seq: step.Seq,
			Doc: doc, Created: now, Expires: now.Add(left),
		})
		if err != nil {
			return fmt.Errorf("store question %s: %w", a.ID, err)
		}
		tx.Publish(store.SubjectTopic(step.Subject))
	}
	return nil
}

// answer says how things stand: permits for what the runner has accepted and not started, stops for what it holds in vain,
// in every answer until it holds it no more.
func (s *Service) answer(r store.Reader, who Who, row store.Runner, rep wire.Report) (tally, error) {
	t := tally{reply: wire.ReportReply{Cursor: row.Cursor}}
	now := r.Now()
	seen := map[wire.StepRef]bool{}
	look := func(ref wire.StepRef, phase string) error {
		if seen[ref] {
			return nil
		}
		seen[ref] = true
		step, own, err := s.own(r, who, ref)
		if err != nil {
			return err
		}
		switch why := stopReason(step, own); {
		case why != "":
			t.reply.Stop = append(t.reply.Stop, wire.Stop{StepRef: ref, Reason: why})
		case step.State == store.StepAccepted && phase == wire.PhaseAccepted:
			t.reply.Permits = append(t.reply.Permits, wire.Permit{StepRef: ref, RemainingMs: remaining(step, now).Milliseconds()})
		}
		// A step that has its result gave its lane back, whatever this report still says.
		if phase != wire.PhaseFinished && !(own && step.State.Terminal() && len(step.Output) > 0) {
			t.held = append(t.held, heldStep{store.RunID(ref.RunID), store.StepID(ref.StepID), ref.Seq, step.UseProv, phase})
		}
		return nil
	}
	for _, h := range rep.Held {
		if err := look(h.StepRef, h.Phase); err != nil {
			return t, err
		}
	}
	for _, a := range rep.Accept {
		if err := look(a, wire.PhaseAccepted); err != nil {
			return t, err
		}
	}
	if len(row.Inventory) == 0 {
		t.reply.Want = wire.WantInventory
	}
	if len(rep.Held) == 0 {
		return t, nil
	}
	for a, err := range r.Answers(who.Subject, who.Runner) {
		if err != nil {
			return t, err
		}
		if a.Answer != "" {
			t.reply.Answers = append(t.reply.Answers, wire.Answer{ID: a.ID, Answer: a.Answer})
		}
	}
	return t, nil
}

// stopReason says why a runner must end a step that it holds, or nothing.
func stopReason(step store.Step, own bool) string {
	switch {
	case !own || step.State == store.StepQueued:
		return wire.StopGone
	case step.State == store.StepCancelled:
		return wire.StopCancelled
	case step.State.Terminal():
		return wire.StopEnded
	}
	return ""
}
