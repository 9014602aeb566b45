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

// boundedGap is how long the next stream of a runner that asks for bounded ones is waited for, before the runner is taken
// for disconnected.
const boundedGap = 5 * time.Second

// Register stores a runner's record and gives the epoch of its new connection. Streams of earlier epochs end.
func (s *Service) Register(ctx context.Context, who Who, reg wire.Registration) (int64, error) {
	record, err := json.Marshal(reg)
	if err != nil {
		return 0, fmt.Errorf("write record: %w", err)
	}
	var row store.Runner
	err = s.Update(ctx, func(tx *Tx) error {
		old, err := tx.Runner(who.Subject, who.Runner)
		if err != nil {
			return fmt.Errorf("read runner %s: %w", who.Runner, err)
		}
		row = old
		row.Epoch, row.Record, row.LastSeen = old.Epoch+1, record, s.wall()
		if err := tx.MoveRunner(old.Epoch, row); err != nil {
			return fmt.Errorf("move runner %s: %w", who.Runner, err)
		}
		tx.Publish(store.SubjectTopic(who.Subject))
		return nil
	})
	if err != nil {
		return 0, err
	}
	a, err := ReadAbilities(row)
	if err != nil {
		return 0, err
	}
	s.reg.register(row, a)
	return row.Epoch, nil
}

// Open begins a stream of the runner and ends the one before. Epoch 0 is whatever the present one is: plain runners do not
// know of epochs. Length is 0 for a stream without an end of its own.
func (s *Service) Open(ctx context.Context, who Who, epoch int64, length time.Duration) (*Stream, error) {
	row, a, err := s.row(ctx, who)
	if err != nil {
		return nil, err
	}
	if epoch != 0 && epoch != row.Epoch {
		return nil, ErrSuperseded
	}
	st, ready := s.reg.open(row, a, length > 0)
	// Who revoked the runner while we read its row found no stream to end.
	if row, _, err = s.row(ctx, who); err == nil && !row.Revoked.IsZero() {
		err = ErrRevoked
	}
	if err == nil && ready {
		err = s.Refill(ctx, who.Subject)
	}
	if err != nil {
		s.reg.close(st, 0)
		return nil, err
	}
	return st, nil
}

// Close ends a stream. Unless its runner has another, or is expected to open the next of its bounded streams, what was
// offered to it and not accepted goes back to the queue.
func (s *Service) Close(ctx context.Context, st *Stream) error {
	gap := time.Duration(0)
	if st.bounded {
		gap = boundedGap
	}
	if !s.reg.close(st, gap) {
		return nil
	}
	return s.Withdraw(ctx, st.Who, "the stream closed")
}

// Pending gives what a stream has to send: the frames of offers above the cursor, in order, and whether the runner should
// be told to report because an answer waits for it. A plain runner's offers are accepted by the time they are returned.
func (s *Service) Pending(ctx context.Context, st *Stream, after int64) (frames []Frame, report bool, err error) {
	plain, held, asks := s.reg.standing(st)
	var offered []store.Step
	err = s.store.View(ctx, func(r store.Reader) error {
		offered, report = nil, false
		for step, err := range r.StepsOfRunner(st.Subject, st.Runner, store.StepOffered) {
			if err != nil {
				return err
			}
			if step.Seq > after {
				offered = append(offered, step)
			}
		}
		if len(held) > 0 {
			err := s.stopped(r, st, held, &report)
			if err != nil {
				return err
			}
		}
		if asks == 0 {
			return nil
		}
		return s.answered(r, st, &report)
	})
	if err != nil {
		return nil, false, err
	}
	if plain && len(offered) > 0 {
		if offered, err = s.take(ctx, offered); err != nil {
			return nil, false, err
		}
	}
	for _, step := range offered {
		frames = append(frames, frameOf(step))
	}
	return frames, report, nil
}

// stopped looks for steps that the runner holds in vain. Each is worth one nudge per stream: the answer to the report repeats
// the stop for as long as it is needed. A step that has its result needs none: the runner has its verdict, or will.
func (s *Service) stopped(r store.Reader, st *Stream, held []heldStep, report *bool) error {
	for _, h := range held {
		if st.nudged[h.seq] {
			continue
		}
		step, own, err := s.own(r, st.Who, wire.StepRef{RunID: string(h.run), StepID: string(h.step), Seq: h.seq})
		if err != nil {
			return err
		}
		if stopReason(step, own) == "" || own && len(step.Output) > 0 {
			continue
		}
		if st.nudged == nil {
			st.nudged = map[int64]bool{}
		}
		st.nudged[h.seq], *report = true, true
	}
	return nil
}

func (s *Service) answered(r store.Reader, st *Stream, report *bool) error {
	for a, err := range r.Answers(st.Subject, st.Runner) {
		if err != nil {
			return err
		}
		if a.Answer != "" && !st.asked[a.ID] {
			if st.asked == nil {
				st.asked = map[string]bool{}
			}
			st.asked[a.ID], *report = true, true
		}
	}
	return nil
}

// take accepts offers on behalf of a plain runner, just before their frames are written: from here on they may have been
// started (faults.md section 1: D counts as M). What was withdrawn meanwhile is left out.
func (s *Service) take(ctx context.Context, offered []store.Step) ([]store.Step, error) {
	var taken []store.Step
	err := s.Update(ctx, func(tx *Tx) error {
		taken = nil
		for _, step := range offered {
			now, err := tx.Step(step.Tenant, step.Run, step.ID)
			if err != nil {
				return err
			}
			if now.Fence() != step.Fence() {
				continue
			}
			if now, err = s.permit(tx, now, true); err != nil {
				return err
			}
			taken = append(taken, now)
		}
		return nil
	})
	return taken, err
}

// Revoked ends what a revoked runner had: its stream, its offers, and at once its accepted steps, because nothing that it
// says will be heard any more (UD-29).
func (s *Service) Revoked(ctx context.Context, id store.RunnerID) error {
	s.reg.drop(id, wire.ControlRevoked)
	var row store.Runner
	err := s.store.View(ctx, func(r store.Reader) (err error) {
		row, err = r.RunnerOfAll(id)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read runner %s: %w", id, err)
	}
	who := Who{row.ID, row.Subject}
	busy, err := s.has(ctx, who, store.StepOffered, store.StepAccepted)
	if err != nil || !busy {
		return err
	}
	return s.Update(ctx, func(tx *Tx) error {
		if err := s.lose(tx, who, nil, "the runner was revoked"); err != nil {
			return err
		}
		return s.withdrawAll(tx, who, "the runner was revoked")
	})
}
