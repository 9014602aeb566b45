// Package journal is what must survive a crash of the runner: which steps it accepted, which it started, and the results
// that the gateway has not acknowledged (the outbox). It promises:
//
//   - A step whose Start returned nil is never offered for starting again, whatever is lost or damaged afterwards. Opened
//     with no result, it gets one that says outcome_unknown.
//   - A result whose Finish returned nil is there, byte for byte, until Ack; it is never delivered changed (faults S05, S06).
//   - A frame is accepted only when there is room on the disk for a result of the largest size (faults S02).
//   - Once a sync has failed nothing is acknowledged any more: every later call fails with ErrBroken (faults S03).
//   - One process at a time: a second Open fails with ErrInUse (faults S12). A folder that others may enter is refused with
//     ErrPermissions (faults S13).
//
// The life of a step here, by the pair of run and step; double lines are synced before the call returns:
//
//	          Accept             Start               Finish             Ack
//	(none) ───────────▶ accepted ═══════▶ started ═══════════▶ finished ─────▶ settled
//	   ▲                │  │ ▲                 └── Open: outcome_unknown ──▲    │
//	   └───── Drop ─────┘  └─┘ Accept again,                               │    │
//	                          under a newer seq       Finish, newer seq ───┴────┘
//
// The file is one append-only log of records, each with a header (magic, kind, length, CRC32C), a payload with its CRC32C, and
// an end mark that is never zero. Behind the last record the file is zeros, already allocated.
//
//   - A torn tail (the file ends early, or zeros follow where the end mark should be) was never synced: it is dropped.
//   - Anything else that does not check is damage. The old file is kept beside the new one as journal.damaged, what still
//     checks is carried over, and since a lost record may have been a start, every step that was accepted before the damage
//     counts as started.
//
// # Decisions
//
// A synced append-only file, not SQLite: the runner needs three lookups by key and no query, one fdatasync into zeros that
// are already allocated is the cheapest durable write there is (0.13 ms against 0.3 to 0.9 ms for a commit of WAL), it saves 6 MB of
// program and 3 MB of memory in a daemon that idles all day, and it can be proven by cutting and flipping bytes.
//
// Outbox and steps share one log, so that a result is one record and one sync, and never disagrees with the step's state. A
// file per result was weighed: it needs a sync of the file and one of the folder.
//
// Accepting is not synced, only written: after a killed process the step is still held and its permit is repeated; after a
// power loss it is missing from the first report and ends unknown, as if the accept had been lost with the link.
//
// Zeros are written, not only allocated: an unwritten extent costs a metadata commit at its first write, and file systems
// that cannot allocate ahead would leave S02 unproven.
package journal
