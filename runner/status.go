package runner

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"runnerd/internal/wire"
	"runnerd/runner/link"
	"runnerd/runner/local"
)

// A standing is how the link stands, as it was last seen.
type standing struct {
	state      string
	since      time.Time
	reason     string
	epoch      int64
	heard      time.Time // when a report was last answered
	next       time.Time // when the next attempt is made
	short      bool
	lastError  string
	reconnects map[string]int
}

// standUp notes that a connection is made.
func (r *Runner) standUp(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.standing.enter(local.Online, "")
	r.standing.epoch, r.standing.next = s.epoch, time.Time{}
	r.cfg.Log.Info("connected", "runner", r.id.RunnerID, "epoch", s.epoch)
	r.log.forget()
}

// standstill notes that there is no connection, why, and for how long at least.
func (r *Runner) standstill(state string, err error, wait time.Duration) {
	words := r.client.Words(err)
	r.mu.Lock()
	if r.standing.state == local.Online {
		r.standing.reconnects[causeOf(err)]++
	}
	if errors.Is(err, errProvidersChanged) || errors.Is(err, errSlept) {
		state = local.Connecting
	} else {
		r.standing.lastError = words
	}
	r.standing.enter(state, words)
	r.standing.next = now().Add(wait)
	r.mu.Unlock()
	r.desk.mu.Lock()
	r.desk.stir() // whoever waits for a permit waits in vain
	r.desk.mu.Unlock()
	r.log.warn("not connected", "runner", r.id.RunnerID, "err", words)
}

func (s *standing) enter(state, reason string) {
	if s.state != state {
		s.state, s.since = state, now()
	}
	s.reason = reason
}

// heard notes that the gateway answered a report.
func (r *Runner) heard(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.standing.heard = s.reported
}

// setShort notes whether short streams are in use.
func (r *Runner) setShort(short bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.standing.short = short
}

// causeOf names why a connection ended, for the count of reconnects (UD-08).
func causeOf(err error) string {
	for cause, is := range causes {
		if errors.Is(err, is) {
			return cause
		}
	}
	if status, ok := errors.AsType[*link.StatusError](err); ok {
		return fmt.Sprint("status ", status.Status)
	}
	return "network"
}

// Status is how things stand.
func (r *Runner) Status() local.Status {
	r.mu.Lock()
	s := local.Status{
		Version: r.cfg.Version, Gateway: r.id.Gateway, RunnerID: r.id.RunnerID, Subject: r.id.Subject, State: r.state(),
		Link: local.Link{
			State: r.standing.state, Since: r.standing.since, Reason: r.standing.reason, Epoch: r.standing.epoch,
			ClockSkewMs: r.client.Skew().Milliseconds(),
		},
		LastError: r.standing.lastError, Reconnects: map[string]int{}, Started: r.born, Steps: []local.Step{}, Providers: []local.Provider{},
	}
	maps.Copy(s.Reconnects, r.standing.reconnects)
	if !r.standing.heard.IsZero() {
		s.Link.LastReportMs = max(time.Since(r.standing.heard).Milliseconds(), 1)
	}
	if wait := time.Until(r.standing.next); wait > 0 && s.Link.State != local.Online {
		s.Link.NextTryMs = wait.Milliseconds()
	}
	switch {
	case r.plain:
		s.Link.Mode, s.Link.ModeReason = "plain", "the host has the protocol's own routes only: no permits, no progress, no questions"
	case r.standing.short:
		s.Link.Mode, s.Link.ModeReason = "short streams", "something between here and the gateway holds event streams back; steps start some seconds late"
	}
	held, j := r.shelf, r.journal
	r.mu.Unlock()

	inUse := r.statusOfDesk(&s)
	if j != nil {
		s.Outbox.Damaged, s.Outbox.Bytes = j.Damage(), j.Waiting()
	}
	s.Providers = held.status(inUse)
	s.Warnings = r.warnings(s)
	return s
}

// statusOfDesk adds what the desk has.
func (r *Runner) statusOfDesk(s *local.Status) map[string]int {
	d := r.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	_, inUse := d.working()
	for _, t := range d.sorted() {
		s.Steps = append(s.Steps, local.Step{
			RunID: t.ref.RunID, StepID: t.ref.StepID, Seq: t.ref.Seq, Phase: t.phase, Provider: t.provider, Model: t.model, Since: t.since, Parked: t.parked,
		})
		if t.phase != wire.PhaseFinished {
			continue
		}
		if t.parked != "" {
			s.Outbox.Parked++
		} else {
			s.Outbox.Pending++
		}
		if since := t.since; s.Outbox.Oldest == nil || since.Before(*s.Outbox.Oldest) {
			s.Outbox.Oldest = &since
		}
	}
	return inUse
}

// warnings are what needs the owner, in words.
func (r *Runner) warnings(s local.Status) (all []string) {
	if skew := r.client.Skew(); skew.Abs() >= 2*time.Minute {
		all = append(all, fmt.Sprintf("clock skew of %d min: this machine's clock does not agree with the gateway's", int(skew.Abs().Round(time.Minute).Minutes())))
	}
	if err := r.client.Tokens().Unsaved(); err != nil {
		all = append(all, "the credential store does not take the runner's new token: "+err.Error())
	}
	if s.Outbox.Parked > 0 {
		all = append(all, fmt.Sprintf("the gateway does not take %d results; they are kept for %d days", s.Outbox.Parked, int(wire.LateKept.Hours()/24)))
	}
	if s.Outbox.Damaged > 0 {
		all = append(all, "the journal was damaged; what could not be read was set aside as journal.damaged")
	}
	return all
}

// A slowLog does not repeat itself: the same message about the same thing is written once in five minutes (UD-06).
type slowLog struct {
	log *slog.Logger

	mu   sync.Mutex
	said map[string]time.Time
}

const repeatAfter = 5 * time.Minute

func (l *slowLog) warn(message string, args ...any) {
	key := fmt.Sprint(append([]any{message}, args...)...)
	l.mu.Lock()
	quiet := time.Since(l.said[key]) < repeatAfter
	if !quiet {
		if l.said == nil || len(l.said) > 100 {
			l.said = map[string]time.Time{}
		}
		l.said[key] = time.Now()
	}
	l.mu.Unlock()
	if !quiet {
		l.log.Warn(message, args...)
	}
}

// forget lets everything be said again: something has changed.
func (l *slowLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = nil
}
