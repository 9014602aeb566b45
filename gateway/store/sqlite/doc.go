// Package sqlite is the store in one file, for a gateway on one machine. It promises what package store promises, and that
//
//   - a commit is on the disk (write-ahead log, synchronous=FULL) before anybody hears of it;
//   - a disk that is full, or a database that is locked, refuses what was asked and nothing else; a sync that did not work
//     ends the store, because a later one that does proves nothing;
//   - no second gateway opens the file, and none of an older version; the file is for its owner's eyes;
//   - what a dispatch costs does not grow with the runners, runs and events that there are: every statement finds its rows
//     by an index, which a test asks SQLite about.
//
// # Who does what
//
//	Update ──▶ queue ──▶ writer:  BEGIN IMMEDIATE
//	                              for each that waits, up to 256:  [SAVEPOINT] fn [RELEASE, or ROLLBACK TO]
//	                              COMMIT ──▶ ring ──▶ answer all ──▶ look after the log
//	View ────▶ one of a few reading connections:  BEGIN, fn, ROLLBACK
//	                      copier:  brings the log into the database, beside the writer
//
// # Decisions
//
// One writer, and one commit for all that wait: a sync costs the same for one row and for a thousand (performance.md). The
// writer never waits for more to come, so a lone write pays nothing for it.
//
// Functions run on the writer's goroutine. To lend the transaction to the caller's costs two wake-ups a function, a third of
// the throughput with 64 writers. What it would have given for nothing is done by hand: a panic comes out of Update, and so
// does the end of the goroutine.
//
// Each function has a savepoint, set at its first write, so that it can be undone alone. If the commit fails, everybody in
// the group is told so, those whose function failed too: it may have failed over a row that never was.
//
// Rows that move (a run's status, a step's state, a runner's cursor) are kept apart from the documents beside them: a move
// then writes some hundred bytes, not the inputs once more. An event's key is its run's number and its sequence in one
// integer, so a log lies together and needs no index beside it.
//
// Lists are read whole before the first is given, so a function may write, and ask the same again, while it walks one. Their
// callers state limits where there may be many.
//
// The log is copied into the database beside the writer, in a goroutine of its own: done between two commits, the copy of
// 4 MB and its syncs make the slowest commit in a thousand about twice as slow. Only what came meanwhile is left to the
// writer, because the log can start anew only when all of it was copied. A reader that stays keeps it from that; then the
// writer asks again, for 50 ms, each time the log has grown by 2 MB.
//
// Statements are text beside the method that runs them, prepared once for each connection; no mapper stands between. What
// RETURNING would give is asked for otherwise where that is cheaper: SQLite builds a table of its own for it.
//
// The clock is a row, written with a commit once a second and once a minute when nothing else is (design, section 5).
package sqlite
