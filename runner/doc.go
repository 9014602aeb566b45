// Package runner is the daemon's life: it keeps a connection to one gateway, takes steps one frame at a time, runs them with
// what this machine has, and does not lose what came of them. It promises (design, sections 4 and 5; faults.md):
//
//   - A frame starts at most one step, through crashes, repeats, restores and broken gateways (I1, I13).
//   - Nothing is started before the gateway has answered the accept with a permit, and before that is on the disk.
//   - A result is on the disk before it is posted, and leaves it on a verdict and on nothing else (I4).
//   - What happens to the connection happens to no step: it goes on, and its result waits (UD-08, UD-30).
//   - Nothing that blocks delays a report: not a probe, not a step, not a keychain (UD-13).
//   - What is not well is said in words, by Status.
//
// A step's way through the runner; what is in brackets is on the disk, double lines wait for a sync:
//
//	frame ──admit──▶ [accepted] ──report──▶ permit ──Plan, Sync══▶ [started] ──▶ child ──▶ out ══▶ [finished] ──POST──▶ verdict
//	  │ │                 │                   │                                             │                      │
//	  │ └─ refused ─▶ report, until answered  │ stop: gone ─▶ dropped                       └ kept, parked, posted ┘
//	  └─ a repeat: nothing, or its result     └ too late ─▶ [finished] step_timeout           again until then
//
//	after a crash:   [accepted] is held, and its permit repeated   [started] ends outcome_unknown   [finished] is posted
//
// The connection:
//
//	             PUT runner     first report       GET dispatches                          409: another process
//	connecting ────────────▶ epoch ────────▶ reconciled ────────▶ online ─────────────────────────▶ superseded ──5 min──▶
//	   ▲   ▲                               │ 404                   │   │ silent, reset, slept, providers changed
//	   │   └─── backoff with jitter ◀──────┼───────────────────────┼───┘
//	   │                                   └─▶ plain host          └─ no byte after the headers: short streams
//	   └── paired anew ◀── unpaired ◀── 401 after a renewal, refresh token refused
//
// The owner's word and the end:
//
//	ready ◀──pause, drain / resume──▶ paused, draining (until resumed)
//	  └── ctx ends ──▶ draining ── steps end, or are ended after the grace ──▶ last words, 5 s ──▶ Run returns
//
// Run is five loops: probe (inventory.go), connect with its reader and reporter (session.go, report.go), deliver (outbox.go),
// noticeSleep, and the local socket. They share the desk, which has the steps in hand, under one mutex. Locks are taken in
// the order desk, runner, journal. Decisions about a frame are a pure function, admit.
//
// # Decisions
//
// Accepts are repeated, as held steps in the phase accepted, until a permit or a stop answers them: nothing depends on which
// report arrived.
//
// A repeat of a frame is answered by what is known of its run and step, whatever its seq: nothing while it is under way, the
// stored result once it has ended, outcome_unknown when that was delivered and is gone. A refusal proves that a step was not
// started, so a step that is known to have started is never refused, only ignored.
//
// The gateway's cursor is adopted only by a journal that is new or was damaged. Any other knows better: the gateway's counts
// offers that may still be on their way here.
//
// Time that a permit leaves is counted from when the report was sent, not from when its answer came: of two clocks the
// runner's is the one that must never believe in time that is not there.
//
// The record that is registered names every provider that is set up, ready or not, and the inventory says which are ready.
// So a login that expires and comes back needs no new connection. To a plain host, which has the record alone, only those
// that are ready are named.
//
// Before a new connection the old epoch is asked for once: whether it was another process that took over can be seen there
// and nowhere else, and two processes must not throw each other out in turn.
//
// Partial output waits in memory, 256 KiB a step, and not on the disk: the result has all of it.
//
// The whole of stopping fits into wire.Drain, so steps get 50 of its 60 seconds.
package runner
