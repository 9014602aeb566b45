// Package dispatch brings steps to runners and what became of them back, at most once. It promises:
//
//   - Subject first: a step is looked at by no runner of another subject, not even as a fallback; then the registration
//     record, then the inventory, then capacity (design, section 4).
//   - A step is offered durably before its frame leaves, starts only under a permit that was made durable, and is never
//     offered again once that permit exists (faults.md I1, I2).
//   - Whatever comes from a runner is judged by (runner, seq), the latest offer's, never by epoch or by run and step alone.
//   - Every step has a deadline in every state, and every move of a step is one conditional update with one entry in the
//     subject's audit log, in the same transaction (I7, I11, I12).
//   - A result that comes too late is kept, not lost, and changes nothing.
//
// The life of a step; Next is this picture as a function, and its test is this picture as a table:
//
//	          create                offer                     accept
//	(none) ───────────▶ queued ────────────────▶ offered ────────────────▶ accepted ──result────▶ done
//	   │                ▲ │ │                     │ │ │ │                    │ │ │
//	   │                │ │ │      busy, withdraw │ │ │ │                    │ │ └──failure, lost─▶ failed
//	   │                └─┼─┼─────────────────────┘ │ │ │                    │ │
//	   │                  │ └──expire──▶ failed ◀───┘ │ │ refuse, expire     │ │
//	   │ refuse           │                           │ │                    │ │
//	   └───▶ failed       └──────────cancel───────────┴─┼────────────────────┴─┴─────▶ cancelled
//
//	outcome of a failure: not_started from (none), queued and offered; unknown on lost; the runner's own word on failure.
//	failed as runner_unavailable, not_started ──again──▶ queued: the one way back, taken by a node's retry policy (wire 14.4).
//
// A runner's presence, the one thing that is not read from the store:
//
//	            first report                        stream closed, or no report for 45 s
//	offline ──────────────────▶ online ────────────────────────────────────────────▶ disconnected ──2 min──▶ offline
//	   ▲  stream opened              ▲                         a report on an open stream    │
//	   └─────────────▶ disconnected  └───────────────────────────────────────────────────────┘
//
//	given work: online, last report under 30 s, ready, a free lane; a plain runner while its stream is open
//	steps lost: accepted by a runner that gave no sign of life for 2 min
//
// # Decisions
//
// Between 30 and 45 seconds without a report a runner is shown as it was and gets nothing: it is late, not gone.
//
// Lanes are counted from the steps that the store knows as offered or accepted, and from those that the runner holds though
// they ended here (a cancelled child is not dead yet). The report's own count of free lanes is older than both, so it is
// used for one thing only: a runner that refused a step as busy gets nothing before it says that a lane is free.
//
// A frame that is too large, or whose inputs hold what looks like a credential, fails when the step is created and not when
// it is offered: no runner could change that, and offering stays an operation that cannot fail the step.
//
// A plain RFC 0122 runner cannot refuse a step as busy and takes each as accepted with the first byte. It gets up to
// wire.DefaultMaxStep at once: one would make every fan-out serial, and many would let steps queue where their time runs.
// What it was sent is never sent again, although its own journal should make that harmless.
//
// A result that is refused for what it holds (an extra member, a token's shape, its size) ends its step at once: the
// runner drops it on that verdict, so nothing else would come before the deadline.
package dispatch
