package dispatch

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

var (
	allStates = []store.StepState{none, store.StepQueued, store.StepOffered, store.StepAccepted, store.StepDone, store.StepFailed, store.StepCancelled}
	allEvents = []Event{EventCreate, EventOffer, EventAccept, EventBusy, EventRefuse, EventWithdraw, EventExpire, EventResult, EventFailure, EventLost, EventCancel, EventAgain}
)

// The picture in the package comment. What is not here does not happen.
var picture = map[store.StepState]map[Event]store.StepState{
	none:                {EventCreate: store.StepQueued, EventRefuse: store.StepFailed},
	store.StepQueued:    {EventOffer: store.StepOffered, EventExpire: store.StepFailed, EventCancel: store.StepCancelled},
	store.StepOffered:   {EventAccept: store.StepAccepted, EventBusy: store.StepQueued, EventWithdraw: store.StepQueued, EventRefuse: store.StepFailed, EventExpire: store.StepFailed, EventCancel: store.StepCancelled},
	store.StepAccepted:  {EventResult: store.StepDone, EventFailure: store.StepFailed, EventLost: store.StepFailed, EventCancel: store.StepCancelled},
	store.StepDone:      {},
	store.StepFailed:    {EventAgain: store.StepQueued},
	store.StepCancelled: {},
}

func TestStepMovesOnlyAsDrawn(t *testing.T) {
	for _, s := range allStates {
		for _, e := range allEvents {
			want, moves := picture[s][e]
			if !moves {
				want = s
			}
			got, ok := Next(s, e)
			if got != want || ok != moves {
				t.Errorf("%q in state %q: got %q, %v; want %q, %v", e, s, got, ok, want, moves)
			}
		}
	}
}

func TestAnAcceptedStepNeverLeadsBackToAnOffer(t *testing.T) {
	reach := map[store.StepState]bool{}
	var walk func(store.StepState)
	walk = func(s store.StepState) {
		for _, e := range allEvents {
			if e == EventAgain { // only where no runner started it: TestOnlyAStepThatNobodyStartedIsTriedAgain
				continue
			}
			if next, ok := Next(s, e); ok && !reach[next] {
				reach[next] = true
				walk(next)
			}
		}
	}
	walk(store.StepAccepted)
	if reach[store.StepQueued] || reach[store.StepOffered] {
		t.Errorf("from accepted one comes to %v", reach)
	}
}

func TestOnlyAStepThatNobodyStartedIsTriedAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		step store.Step
		want bool
	}{
		"nobody took it":      {store.Step{State: store.StepFailed, Code: "runner_unavailable", Outcome: OutcomeNotStarted}, true},
		"its runner was lost": {store.Step{State: store.StepFailed, Code: "runner_unavailable", Outcome: OutcomeUnknown}, false},
		"refused":             {store.Step{State: store.StepFailed, Code: "policy_denied", Outcome: OutcomeNotStarted}, false},
		"failed on a runner":  {store.Step{State: store.StepFailed, Code: "rate_limited"}, false},
		"done":                {store.Step{State: store.StepDone}, false},
		"cancelled":           {store.Step{State: store.StepCancelled, Code: "runner_unavailable", Outcome: OutcomeNotStarted}, false},
	} {
		if got := again(tt.step); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

var at = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

func TestTheWaitIsCountedOverAllOffers(t *testing.T) {
	s := enter(store.Step{Wait: 30 * time.Second, Timeout: time.Minute}, store.StepQueued, at)
	type seen struct {
		State       store.StepState
		Waited, Due time.Duration
	}
	var got []seen
	now := at
	for _, m := range []struct {
		after time.Duration
		to    store.StepState
	}{{5 * time.Second, store.StepOffered}, {20 * time.Second, store.StepQueued}, {time.Second, store.StepOffered}, {2 * time.Second, store.StepAccepted}, {time.Second, store.StepDone}} {
		now = now.Add(m.after)
		s = enter(s, m.to, now)
		due := time.Duration(0)
		if !s.Due.IsZero() {
			due = s.Due.Sub(now)
		}
		got = append(got, seen{s.State, s.Waited, due})
	}
	want := []seen{
		{store.StepOffered, 5 * time.Second, wire.AcceptWithin},
		{store.StepQueued, 25 * time.Second, 5 * time.Second},
		{store.StepOffered, 26 * time.Second, 4 * time.Second},
		{store.StepAccepted, 28 * time.Second, time.Minute + wire.StepGrace},
		{store.StepDone, 28 * time.Second, 0},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestDueStepsGoOnOrEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		step store.Step
		want Event
	}{
		"waiting":               {store.Step{State: store.StepQueued, Since: at, Wait: time.Minute}, EventExpire},
		"offered, wait is left": {store.Step{State: store.StepOffered, Since: at.Add(-20 * time.Second), Waited: 5 * time.Second, Wait: time.Minute}, EventWithdraw},
		"offered, none is left": {store.Step{State: store.StepOffered, Since: at.Add(-20 * time.Second), Waited: 10 * time.Second, Wait: 30 * time.Second}, EventExpire},
		"accepted":              {store.Step{State: store.StepAccepted, Since: at, Wait: time.Minute}, EventLost},
	} {
		if got := dueEvent(tt.step, at); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

func TestRemainingTimeLeavesTheGraceOut(t *testing.T) {
	s := enter(store.Step{Timeout: time.Minute}, store.StepAccepted, at)
	if got := remaining(s, at.Add(10*time.Second)); got != 50*time.Second {
		t.Errorf("after ten seconds: %v", got)
	}
	if got := remaining(s, at.Add(time.Hour)); got != 0 {
		t.Errorf("after an hour: %v", got)
	}
}
