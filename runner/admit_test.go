package runner

import (
	"testing"

	"runnerd/internal/wire"
	"runnerd/runner/journal"
)

// The decision about a frame, case by case. Only what differs from a frame that is taken is named.
func TestAdmit(t *testing.T) {
	known := func(p journal.Phase, seq int64) func(v *view) {
		return func(v *view) {
			v.known = journal.Step{StepRef: wire.StepRef{RunID: "r", StepID: "s", Seq: seq}, Phase: p}
			v.same = true
		}
	}
	other := func(f func(v *view)) func(v *view) { return func(v *view) { f(v); v.same = false } }
	for name, c := range map[string]struct {
		change func(v *view)
		want   verdict
		code   wire.Code
	}{
		"new":                                   {func(*view) {}, accept, ""},
		"after a gap":                           {func(v *view) { v.seq = 5000 }, accept, ""},
		"as far ahead as may be":                {func(v *view) { v.seq = v.high + maxJump }, accept, ""},
		"too far ahead":                         {func(v *view) { v.seq = v.high + maxJump + 1 }, refuse, wire.CodeInvalidInput},
		"ahead by 10^12":                        {func(v *view) { v.seq = 1_000_000_000_000 }, refuse, wire.CodeInvalidInput},
		"at the cursor":                         {func(v *view) { v.seq = v.cursor }, refuse, wire.CodeBusy},
		"below the cursor":                      {func(v *view) { v.seq = 1 }, refuse, wire.CodeBusy},
		"too large":                             {func(v *view) { v.size = v.limit + 1 }, refuse, wire.CodeFrameTooLarge},
		"cannot run here":                       {func(v *view) { v.refusal = &wire.StepError{Code: wire.CodePolicyDenied} }, refuse, wire.CodePolicyDenied},
		"cannot run here, and no lane":          {func(v *view) { v.refusal = &wire.StepError{Code: wire.CodeInvalidInput}; v.free = false }, refuse, wire.CodeInvalidInput},
		"paused":                                {func(v *view) { v.ready, v.state = false, wire.StatePaused }, refuse, wire.CodeBusy},
		"no lane":                               {func(v *view) { v.free = false }, refuse, wire.CodeBusy},
		"no lane of the provider":               {func(v *view) { v.lane = false }, refuse, wire.CodeBusy},
		"no room":                               {func(v *view) { v.room = false }, refuse, wire.CodeBusy},
		"accepted already":                      {known(journal.Accepted, 11), ignore, ""},
		"runs already":                          {known(journal.Started, 11), ignore, ""},
		"finished already":                      {known(journal.Finished, 11), nudge, ""},
		"settled already":                       {known(journal.Settled, 11), cannotRerun, ""},
		"accepted, other inputs, same seq":      {other(known(journal.Accepted, 11)), ignore, ""},
		"runs, other inputs, same seq":          {other(known(journal.Started, 11)), ignore, ""},
		"offered anew while accepted":           {known(journal.Accepted, 10), accept, ""},
		"offered anew while accepted, no lane":  {func(v *view) { known(journal.Accepted, 10)(v); v.free, v.lane = false, false }, accept, ""},
		"offered anew while accepted, paused":   {func(v *view) { known(journal.Accepted, 10)(v); v.ready = false }, refuse, wire.CodeBusy},
		"offered anew while it runs":            {known(journal.Started, 10), ignore, ""},
		"offered anew when finished":            {known(journal.Finished, 10), replay, ""},
		"offered anew when settled":             {known(journal.Settled, 10), cannotRerun, ""},
		"other inputs while accepted":           {other(known(journal.Accepted, 10)), refuse, wire.CodeInvalidInput},
		"other inputs while it runs":            {other(known(journal.Started, 10)), refuse, wire.CodeInvalidInput},
		"other inputs when finished":            {other(known(journal.Finished, 10)), refuse, wire.CodeInvalidInput},
		"other inputs when settled":             {other(known(journal.Settled, 10)), refuse, wire.CodeInvalidInput},
		"an older offer of a step that runs":    {known(journal.Started, 12), ignore, ""},
		"an older offer of an accepted step":    {known(journal.Accepted, 12), ignore, ""},
		"an older offer of a finished step":     {known(journal.Finished, 12), ignore, ""},
		"finished, though no lane and draining": {func(v *view) { known(journal.Finished, 10)(v); v.ready, v.free = false, false }, replay, ""},
	} {
		v := view{size: 10, limit: 100, seq: 11, high: 10, cursor: 10, ready: true, state: wire.StateReady, free: true, lane: true, room: true}
		c.change(&v)
		got, because := admit(v)
		var code wire.Code
		if because != nil {
			code = because.Code
		}
		if got != c.want || code != c.code {
			t.Errorf("%s: %d %s, want %d %s", name, got, code, c.want, c.code)
		}
		if started := v.known.Phase >= journal.Started; started && got == accept {
			t.Errorf("%s: a step that has started is taken again", name)
		}
	}
}
