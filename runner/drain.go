package runner

import (
	"context"
	"fmt"
	"time"

	"runnerd/internal/wire"
	"runnerd/runner/local"
	"runnerd/runner/provider"
)

var errGraceOver = fmt.Errorf("the runner is stopping: %w", provider.ErrCancelled)

// drain lets the steps in hand end, and ends them when the grace is over; then it waits a little for the results to be taken
// and for a last report. All of it has its own time, since what called for the end has none left (UD-21, UD-37).
func (r *Runner) drain(steps context.Context, kill context.CancelCauseFunc) {
	r.mu.Lock()
	r.stopping = true
	r.mu.Unlock()
	r.sayNow()
	broken := r.journal.Err() != nil
	if !broken {
		ctx, cancel := context.WithTimeout(steps, grace)
		r.desk.wait(ctx, r.idle)
		cancel()
	}
	kill(errGraceOver)
	r.work.Wait()
	if broken || !r.online() {
		return // the results are on the disk; nobody listens now
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(steps), lastWords)
	defer cancel()
	r.desk.wait(ctx, func() bool {
		for _, t := range r.desk.tasks {
			if t.phase == wire.PhaseFinished && t.parked == "" {
				return false
			}
		}
		return true
	})
}

// idle says that nothing is left to wait for: no step runs, and none waits for a permit that could come. The desk is locked.
func (r *Runner) idle() bool {
	for _, t := range r.desk.tasks {
		if t.cancel != nil || t.phase == wire.PhaseAccepted && r.online() {
			return false
		}
	}
	return true
}

// state is what the runner reports of itself. The mutex is held.
func (r *Runner) state() string {
	switch {
	case r.stopping, r.draining:
		return wire.StateDraining
	case r.id.Paused:
		return wire.StatePaused
	}
	return wire.StateReady
}

// Pause takes no new steps until Resume, also after a restart.
func (r *Runner) Pause(context.Context) error { return r.setMode(true, false) }

// Drain takes no new steps until Resume or a restart; those in hand go on.
func (r *Runner) Drain(context.Context) error { return r.setMode(r.paused(), true) }

// Resume takes steps again.
func (r *Runner) Resume(context.Context) error { return r.setMode(false, false) }

func (r *Runner) paused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.id.Paused
}

func (r *Runner) setMode(paused, draining bool) error {
	r.mu.Lock()
	id := r.id
	id.Paused = paused
	changed := id != r.id
	r.mu.Unlock()
	if changed {
		if err := id.save(r.cfg.Dir); err != nil {
			return err
		}
	}
	r.mu.Lock()
	r.id, r.draining = id, draining
	r.mu.Unlock()
	r.sayNow()
	return nil
}

// Reload looks at the providers anew.
func (r *Runner) Reload(context.Context) error {
	r.lookSoon()
	return nil
}

// Logout gives the runner up: first at the gateway, then here, then Run ends. Without force nothing is done when the gateway
// cannot be told (UD-63).
func (r *Runner) Logout(ctx context.Context, force bool) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := logout(ctx, r.client, r.vault, r.cfg.Dir, force); err != nil {
		return err
	}
	r.mu.Lock()
	end := r.end
	r.mu.Unlock()
	if end != nil {
		end(ErrLoggedOut)
	}
	return nil
}

func (r *Runner) online() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.standing.state == local.Online
}
