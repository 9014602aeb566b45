package dispatch_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"runnerd/gateway/dispatch"
	"runnerd/gateway/store"
	"runnerd/internal/wire"
)

func refs[V any](m map[wire.StepRef]V) []wire.StepRef {
	return slices.SortedFunc(maps.Keys(m), func(a, b wire.StepRef) int {
		return cmp.Or(cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.Seq, b.Seq))
	})
}

func postOne(t *rapid.T, l *laptop) {
	if all := refs(l.outbox); len(all) > 0 {
		ref := rapid.SampledFrom(all).Draw(t, "step")
		l.judged(t, ref, l.post(ref, rapid.Bool().Draw(t, "lost")))
	}
}

// judged compares a verdict with the first one that the result had.
func (l *laptop) judged(t *rapid.T, ref wire.StepRef, v string) {
	switch was := l.verdict[ref]; {
	case v == wire.VerdictRefused:
		t.Errorf("I4: a result under a permit was refused")
	case was == wire.VerdictAccepted && v != wire.VerdictDeduplicated, was != "" && was != wire.VerdictAccepted && v != was:
		t.Errorf("I3: %v was answered %s, and then %s", ref, was, v)
	case was == "":
		l.verdict[ref] = v
	}
}

// I1 to I5, I7 to I9, I11 and I12 over random histories of two people, three laptops, and a gateway that is killed at times.
// What is checked is the audit log, the store, and what the laptops know they did.
//
// Each history is on a real store, so fewer are tried than rapid would; -rapid.checks=N tries N.
func TestInvariantsHoldOverRandomHistories(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("30"); err != nil {
			t.Fatal(err)
		}
		defer f.Value.Set(f.DefValue)
	}
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "dispatch")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		h := newHost(t, dir)
		defer func() { h.end() }()
		laptops := []*laptop{newLaptop(h, "acme/ann", "ann-1"), newLaptop(h, "acme/ann", "ann-2"), newLaptop(h, "acme/bob", "bob-1")}
		var runs []store.Run
		for _, l := range laptops {
			l.connect()
		}
		laptopOf := func(t *rapid.T) *laptop { return rapid.SampledFrom(laptops).Draw(t, "laptop") }
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				s := rapid.SampledFrom([]store.Subject{"acme/ann", "acme/bob"}).Draw(t, "subject")
				runs = append(runs, h.ask(s, rapid.SampledFrom([]string{"", `{"runner.waitMs":5000}`, `{"runner.timeoutMs":20000}`, `{"runner.id":"ann-1"}`}).Draw(t, "options")))
			},
			"receive": func(t *rapid.T) { laptopOf(t).receive() },
			"report": func(t *rapid.T) {
				answers := []wire.Code{"", "", "", "wait", wire.CodeBusy, wire.CodePolicyDenied}
				laptopOf(t).report(func(wire.StepRef) wire.Code { return rapid.SampledFrom(answers).Draw(t, "answer") })
			},
			"finish": func(t *rapid.T) {
				l := laptopOf(t)
				if all := refs(l.started); len(all) > 0 {
					l.finish(rapid.SampledFrom(all).Draw(t, "step"))
				}
			},
			"post": func(t *rapid.T) { postOne(t, laptopOf(t)) },
			"serve": func(t *rapid.T) { // all of the above, so that histories come far
				l := laptopOf(t)
				l.receive()
				l.report(func(wire.StepRef) wire.Code { return "" })
				for _, ref := range refs(l.started) {
					l.finish(ref)
				}
				postOne(t, l)
			},
			"repost": func(t *rapid.T) { // a proxy delivers it again
				l := laptopOf(t)
				if all := refs(l.verdict); len(all) > 0 {
					ref := rapid.SampledFrom(all).Draw(t, "step")
					l.outbox[ref] = l.yielded[ref]
					l.judged(t, ref, l.post(ref, false))
				}
			},
			"guess": func(t *rapid.T) {
				// A result for whatever any laptop was ever sent, by any laptop, with the cursor nearly or quite right.
				var sent []wire.StepRef
				for _, l := range laptops {
					sent = append(sent, l.sent...)
				}
				if len(sent) == 0 {
					return
				}
				l, ref := laptopOf(t), rapid.SampledFrom(sent).Draw(t, "ref")
				ref.Seq += rapid.Int64Range(-1, 1).Draw(t, "off")
				if step := h.step(store.Run{Tenant: "acme", ID: store.RunID(ref.RunID)}); step.Runner == l.who.Runner && step.Seq == ref.Seq || ref.Seq < 0 {
					return // its own, whether it came yet or not
				}
				out := rapid.SampledFrom([]string{`{"text":"guessed"}`, `{"error":{"code":"busy","message":"guessed"}}`}).Draw(t, "output")
				v, err := h.dispatch.Results(context.Background(), l.who, []dispatch.Incoming{{Result: wire.Result{RunID: ref.RunID, StepID: ref.StepID, Seq: ref.Seq, Output: []byte(out)}}})
				h.check(err)
				if v[0].Verdict != wire.VerdictRefused || v[0].Code != dispatch.CodeNotFound {
					t.Errorf("I5: a guessed result for %v was answered %+v", ref, v[0])
				}
			},
			"hasty": func(t *rapid.T) {
				// A result without a permit, from the one it was offered to.
				l := laptopOf(t)
				if len(l.got) == 0 {
					return
				}
				ref := rapid.SampledFrom(l.got).Draw(t, "ref")
				v, err := h.dispatch.Results(context.Background(), l.who, []dispatch.Incoming{{Result: wire.Result{RunID: ref.RunID, StepID: ref.StepID, Seq: ref.Seq, Output: []byte(`{"text":"hasty"}`)}}})
				h.check(err)
				if v[0].Verdict != wire.VerdictRefused && v[0].Verdict != wire.VerdictLate {
					t.Errorf("I5: a result without a permit was answered %+v", v[0])
				}
			},
			"cut":     func(t *rapid.T) { laptopOf(t).cut() },
			"connect": func(t *rapid.T) { laptopOf(t).connect() },
			"crash": func(t *rapid.T) {
				l := laptopOf(t)
				l.crash()
				l.connect()
			},
			"pass": func(t *rapid.T) { h.pass(time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second) },
			"cancel": func(t *rapid.T) {
				if len(runs) > 0 {
					r := rapid.SampledFrom(runs).Draw(t, "run")
					_, err := h.runs.Cancel(context.Background(), r.Tenant, r.ID, "", "somebody")
					h.check(err)
				}
			},
			"kill": func(t *rapid.T) {
				h.kill()
				for _, l := range laptops {
					l.stream = nil
				}
			},
		})
		settleDown(h, laptops)
		for _, s := range []store.Subject{"acme/ann", "acme/bob"} {
			checkHistory(h, s, laptops)
		}
		checkSteps(h, runs, laptops)
	})
}

// settleDown lets everybody deliver what they have and every deadline pass (I4b, I7).
func settleDown(h *host, laptops []*laptop) {
	h.Helper()
	for _, l := range laptops {
		l.connect()
		for ref := range l.started {
			l.finish(ref)
		}
		for ref := range l.outbox {
			if v := l.post(ref, false); v == wire.VerdictRefused {
				h.Errorf("the result of %v was refused", ref)
			}
		}
	}
	h.pass(wire.StepTimeout + wire.QueueWait + wire.StepGrace + time.Minute)
	h.pass(time.Second)
}

type fence struct {
	runner store.RunnerID
	seq    int64
}

// what is known of a step from the audit log so far.
type told struct {
	offer     fence // the latest
	open      bool  // it was neither withdrawn nor refused
	permitted bool
	stored    bool // P
	ended     bool // T
	late      map[fence]bool
}

// checkHistory reads a subject's audit log.
func checkHistory(h *host, subject store.Subject, laptops []*laptop) {
	h.Helper()
	steps := map[store.RunID]*told{}
	last := map[store.RunnerID]int64{}
	owner := map[store.RunnerID]store.Subject{}
	for _, l := range laptops {
		owner[l.who.Runner] = l.who.Subject
	}
	for i, e := range h.audit(subject) {
		if e.Seq != int64(i+1) {
			h.Errorf("I12: audit entry %d has sequence %d", i+1, e.Seq)
		}
		if e.Run == "" {
			continue // a refused result
		}
		s := steps[e.Run]
		if s == nil {
			s = &told{late: map[fence]bool{}}
			steps[e.Run] = s
		}
		by := fence{e.Runner, e.RunnerSeq}
		if s.ended && e.Kind != store.AuditLate && e.Kind != store.AuditReject {
			h.Errorf("I11: %s of %s after its end", e.Kind, e.Run)
		}
		if e.Runner != "" && owner[e.Runner] != subject {
			h.Errorf("I5: %s of %s names %s of %s", e.Kind, e.Run, e.Runner, owner[e.Runner])
		}
		switch e.Kind {
		case store.AuditOffer:
			if s.stored || s.permitted || s.open {
				h.Errorf("I2: offered %s again: %+v", e.Run, *s)
			}
			if e.RunnerSeq != last[e.Runner]+1 {
				h.Errorf("I9: seq %d of %s after %d", e.RunnerSeq, e.Runner, last[e.Runner])
			}
			last[e.Runner] = e.RunnerSeq
			s.offer, s.open = by, true
		case store.AuditWithdrawn, store.AuditRefused:
			if !s.open || s.permitted || by != s.offer {
				h.Errorf("I12: %s of %s without an open offer", e.Kind, e.Run)
			}
			s.open = false
		case store.AuditPermit:
			if !s.open || s.permitted || by != s.offer {
				h.Errorf("I1: permit of %s without an open offer", e.Run)
			}
			s.permitted = true
		case store.AuditResult:
			if !s.permitted || by != s.offer || s.stored {
				h.Errorf("I3, I5: result of %s by %+v; the offer is %+v, permitted %v", e.Run, by, s.offer, s.permitted)
			}
			s.stored, s.ended = true, true
		case store.AuditFailed:
			unknown := strings.Contains(e.Detail, dispatch.OutcomeUnknown)
			notStarted := strings.Contains(e.Detail, dispatch.OutcomeNotStarted)
			if unknown && !s.permitted || notStarted && s.permitted {
				h.Errorf("I8: %s failed as %q, permitted %v", e.Run, e.Detail, s.permitted)
			}
			s.ended = true
		case store.AuditCancel:
			s.ended = true
		case store.AuditLate:
			if !s.ended || s.late[by] {
				h.Errorf("I12: late result of %s before its end, or twice", e.Run)
			}
			s.late[by] = true
		}
	}
	for run, s := range steps {
		if !s.ended {
			h.Errorf("I7: the step of %s never ended", run)
		}
	}
	for _, l := range laptops {
		if l.who.Subject != subject {
			continue
		}
		h.view(func(r store.Reader) error {
			row, err := r.Runner(subject, l.who.Runner)
			if err == nil && row.Cursor != last[l.who.Runner] {
				h.Errorf("I9, I12: cursor of %s is %d, the last offer has %d", l.who.Runner, row.Cursor, last[l.who.Runner])
			}
			return err
		})
		for ref, times := range l.executed {
			if s := steps[store.RunID(ref.RunID)]; times > 1 || s == nil || !s.permitted || s.offer != (fence{l.who.Runner, ref.Seq}) {
				h.Errorf("I1: %v was executed %d times", ref, times)
			}
		}
	}
}

// checkSteps compares what the store has with what the laptops did.
func checkSteps(h *host, runs []store.Run, laptops []*laptop) {
	h.Helper()
	executed := map[string]int{}
	for _, l := range laptops {
		for ref, n := range l.executed {
			executed[ref.RunID] += n
		}
		for ref, out := range l.yielded {
			row := store.Run{Tenant: l.who.Subject.Tenant(), ID: store.RunID(ref.RunID)}
			if step := h.step(row); bytes.Equal(step.Output, []byte(out)) {
				continue
			}
			kept := false
			h.view(func(r store.Reader) error {
				for late, err := range r.LateResults(row.Tenant, row.ID) {
					if err != nil {
						return err
					}
					kept = kept || late.Seq == ref.Seq && string(late.Output) == out
				}
				return nil
			})
			if !kept {
				h.Errorf("I4: the result of %v is nowhere", ref)
			}
		}
	}
	for _, row := range runs {
		if executed[string(row.ID)] > 1 {
			h.Errorf("I1: the step of %s was executed %d times", row.ID, executed[string(row.ID)])
		}
		h.view(func(r store.Reader) error {
			now, err := r.Run(row.Tenant, row.ID)
			if err != nil {
				return err
			}
			if !store.Terminal(now.Status) {
				h.Errorf("I7: run %s is %s", row.ID, now.Status)
			}
			next := int64(0)
			for ev, err := range r.Events(row.Tenant, row.ID, -1, 10_000) {
				if err != nil {
					return err
				}
				if ev.Seq != next {
					h.Errorf("I12: event %d of %s where %d was expected", ev.Seq, row.ID, next)
				}
				next++
			}
			return nil
		})
	}
}
