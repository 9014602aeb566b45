package dispatch

import (
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"runnerd/gateway/bus/membus"
	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

var (
	laptop = store.Runner{ID: "rnr_1", Subject: "acme/ann", Epoch: 1}
	can    = Abilities{Record: wire.Capabilities{Providers: []string{"echo"}}}
)

func ready(n int64) wire.Report {
	return wire.Report{Epoch: 1, N: n, JournalID: "j", State: wire.StateReady, Capacity: wire.Capacity{Free: 1, Max: 1}}
}

// in runs fn with a registry in a bubble of its own time.
func in(t *testing.T, fn func(t *testing.T, r *registry)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { fn(t, newRegistry(membus.New(), time.Now)) })
}

func (r *registry) hear(t *testing.T, rep wire.Report) {
	t.Helper()
	if _, known, err := r.begin(laptop.ID, rep); !known || err != nil {
		t.Fatalf("report %d: known %v, %v", rep.N, known, err)
	}
	r.reported(laptop.ID, rep, nil, false)
}

func (r *registry) is(t *testing.T, want Status, dispatchable bool) {
	t.Helper()
	if p := r.presence(laptop); p.Status != want || p.Dispatchable != dispatchable {
		t.Errorf("presence %s, dispatchable %v; want %s, %v", p.Status, p.Dispatchable, want, dispatchable)
	}
	if all, _ := r.candidates(laptop.Subject); (len(all) == 1) != dispatchable { // the matcher reads the same value
		t.Errorf("the matcher has %d", len(all))
	}
}

// UD-01, UD-97: the three states, to the second.
func TestPresenceFollowsStreamAndReports_UD01_UD97(t *testing.T) {
	in(t, func(t *testing.T, r *registry) {
		r.is(t, Offline, false)
		r.register(laptop, can)
		r.is(t, Disconnected, false) // known, not connected yet
		r.open(laptop, can, false)
		r.is(t, Disconnected, false) // UD-98: not before its first report
		r.hear(t, ready(1))
		r.is(t, Online, true)
		time.Sleep(wire.OnlineWithin - time.Nanosecond)
		r.is(t, Online, true)
		time.Sleep(time.Nanosecond)
		r.is(t, Online, false) // late, and so given nothing
		time.Sleep(wire.DisconnectedAfter - wire.OnlineWithin)
		r.is(t, Disconnected, false)
		r.hear(t, ready(2))
		r.is(t, Online, true)
		time.Sleep(wire.DisconnectedAfter)
		if p := r.presence(laptop); time.Until(p.Until) != wire.OfflineAfter {
			t.Errorf("the window ends in %v", time.Until(p.Until))
		}
		time.Sleep(wire.OfflineAfter)
		r.is(t, Offline, false)
		r.hear(t, ready(3))
		r.is(t, Online, true) // UD-01: at once, wherever it was
	})
}

func TestClosingTheStreamDisconnectsAtOnce(t *testing.T) {
	in(t, func(t *testing.T, r *registry) {
		st, _ := r.open(laptop, can, false)
		r.hear(t, ready(1))
		if !r.close(st, 0) {
			t.Error("the runner is still connected")
		}
		r.is(t, Disconnected, false)
		r.hear(t, ready(2)) // without a stream there is no way to it
		r.is(t, Disconnected, false)
		if _, could := r.open(laptop, can, false); !could {
			t.Error("a runner that is back was not reported as ready")
		}
		r.is(t, Online, true)
		if r.close(st, 0) { // the handler of the old stream ends late
			t.Error("an old stream took the new one with it")
		}
		r.is(t, Online, true)
	})
}

func TestANewerStreamEndsTheOneBefore(t *testing.T) {
	in(t, func(t *testing.T, r *registry) {
		bell, stop := r.bus.Listen(store.RunnerTopic(laptop.ID))
		defer stop()
		old, _ := r.open(laptop, can, false)
		fresh, _ := r.open(laptop, can, false)
		<-bell
		if old.Ended() != wire.ControlSuperseded || fresh.Ended() != "" {
			t.Errorf("ended: %q, %q", old.Ended(), fresh.Ended())
		}
		next := laptop
		next.Epoch = 2
		r.register(next, can)
		<-bell
		if fresh.Ended() != wire.ControlSuperseded {
			t.Errorf("a new epoch left the stream open: %q", fresh.Ended())
		}
		if _, _, err := r.begin(laptop.ID, ready(9)); err != ErrSuperseded {
			t.Errorf("a report of the old epoch: %v", err)
		}
		r.drop(laptop.ID, wire.ControlRevoked)
		if fresh.Ended() != wire.ControlSuperseded {
			t.Error("the first reason stands")
		}
	})
}

func TestSubjectsHearOfChangesAndOfNothingElse(t *testing.T) {
	in(t, func(t *testing.T, r *registry) {
		bell, stop := r.bus.Listen(store.SubjectTopic(laptop.Subject))
		defer stop()
		rang := func(want bool, what string) {
			t.Helper()
			select {
			case <-bell:
				if !want {
					t.Errorf("rang for %s", what)
				}
			default:
				if want {
					t.Errorf("did not ring for %s", what)
				}
			}
		}
		st, _ := r.open(laptop, can, false)
		rang(true, "a runner that appears")
		r.hear(t, ready(1))
		rang(true, "a runner that comes online")
		for n := range int64(20) {
			time.Sleep(wire.ReportEvery)
			r.hear(t, ready(n+2))
			r.tick()
			rang(false, "a heartbeat")
		}
		paused := ready(30)
		paused.State = wire.StatePaused
		r.hear(t, paused)
		rang(true, "a pause")
		r.close(st, 0)
		rang(true, "a closed stream")
		time.Sleep(wire.OfflineAfter)
		r.tick()
		rang(true, "a runner that went offline")
	})
}

func TestTickFindsTheLostAndForgetsTheGone(t *testing.T) {
	in(t, func(t *testing.T, r *registry) {
		st, _ := r.open(laptop, can, false)
		r.hear(t, ready(1))
		time.Sleep(wire.LostAfter - time.Second)
		if d := r.tick(); d.lost != nil || d.known != 1 {
			t.Errorf("too early: %+v", d)
		}
		r.seen(laptop.ID) // a result
		time.Sleep(wire.LostAfter - time.Second)
		if d := r.tick(); d.lost != nil {
			t.Errorf("a result is a sign of life too: %+v", d)
		}
		time.Sleep(time.Second)
		if diff := cmp.Diff([]Who{{laptop.ID, laptop.Subject}}, r.tick().lost); diff != "" {
			t.Error(diff)
		}
		r.close(st, 0)
		time.Sleep(wire.OfflineAfter)
		if d := r.tick(); d.known != 0 || len(r.bySubject) != 0 {
			t.Errorf("remembers %d", d.known)
		}
		if got := r.presence(store.Runner{ID: laptop.ID, LastSeen: at}); got.Status != Offline || !got.LastSeen.Equal(at) {
			t.Errorf("presence %+v", got)
		}
	})
}

func TestLastSeenIsStoredOnChangeAndOnceAMinute(t *testing.T) {
	in(t, func(t *testing.T, r *registry) {
		r.open(laptop, can, false)
		r.hear(t, ready(1))
		stores := func() int { return len(r.tick().touched) }
		if got := stores(); got != 1 {
			t.Errorf("on change: %d", got)
		}
		total := 0
		for n := range int64(40) { // ten minutes
			time.Sleep(wire.ReportEvery)
			r.hear(t, ready(n+2))
			total += stores()
		}
		if total != 10 {
			t.Errorf("in ten idle minutes: %d", total)
		}
	})
}

func TestARunnerThatRefusedAsBusyWaitsForALane(t *testing.T) {
	in(t, func(t *testing.T, r *registry) {
		r.open(laptop, can, false)
		r.hear(t, ready(1))
		full := ready(2)
		full.Capacity.Free = 0
		r.begin(laptop.ID, full)
		r.reported(laptop.ID, full, nil, true)
		r.is(t, Online, false)
		full.N = 3
		r.hear(t, full)
		r.is(t, Online, false)
		r.begin(laptop.ID, ready(4))
		if !r.reported(laptop.ID, ready(4), nil, false) {
			t.Error("a free lane was not reported as news")
		}
		r.is(t, Online, true)
	})
}

func TestHandCountsWhatIsHeldThoughItEnded(t *testing.T) {
	tx := &Tx{Tx: noSteps{}}
	held := []heldStep{{seq: 1, provider: "p"}, {seq: 2, provider: "q"}}
	tx.free("rnr_1", 2) // its result is being taken in this very transaction
	h, err := tx.hand("acme/ann", "rnr_1", held)
	if err != nil {
		t.Fatal(err)
	}
	tx.took(store.Step{Runner: "rnr_1", Seq: 3, UseProv: "p"})
	h2, err := tx.hand("acme/ann", "rnr_1", held)
	if err != nil {
		t.Fatal(err)
	}
	if h.steps != 1 || h2.steps != 2 || h2.lanes["p"] != 2 || h2.lanes["q"] != 0 {
		t.Errorf("%+v, then %+v", h, h2)
	}
	tx.gave(store.Step{Runner: "rnr_1", Seq: 3, UseProv: "p"})
	if h, _ := tx.hand("acme/ann", "rnr_1", nil); h.steps != 0 || h.lanes["p"] != 0 {
		t.Errorf("at the end %+v", h)
	}
}

// noSteps is a transaction in which no runner has any step.
type noSteps struct{ store.Tx }

func (noSteps) StepsOfRunner(store.Subject, store.RunnerID, ...store.StepState) iter.Seq2[store.Step, error] {
	return func(func(store.Step, error) bool) {}
}
