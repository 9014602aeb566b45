// Package run carries out what package engine decides. It promises that an input, the events and effects that follow from
// it, and whatever brought it, are one transaction: an offer, a result or a cancel is durable together with what the run
// made of it, or not at all. Nothing lives as long as a run: any gateway can take its next input from the store.
//
//	            one store.Update
//	+------------------------------------------------------------+
//	| input ──▶ row + definition + log ──▶ engine.Decide         |
//	|   ▲                                     │                  |
//	|   │                          events ◀───┴──▶ effects       |
//	|   │                             │               │          |
//	|   │                           Append        Dispatch ──▶ dispatch.Enqueue (match, offer)
//	|   │                             │           Stop     ──▶ dispatch.Abandon
//	|   │                          run's bell     timers   ──▶ PutTimer, DeleteTimer
//	|   └── a step that no frame could carry ends at once        |
//	+------------------------------------------------------------+
//
// # Decisions
//
// Folded states are kept in memory, by run and last sequence, so that the next input reads only what came since. A state is
// kept only after the commit that made it, and used only as the beginning of what the row says the log is; so a lost commit
// or another gateway's write costs a read, never a wrong decision.
//
// A log that the engine cannot go on from (a broken invariant, of our own making) must not take the runner's whole channel
// with it, since the same input would come again for ever. The run is failed as internal_error, with the cause in the log
// only, and the input counts as taken.
//
// A built-in workflow cannot be shadowed by a tenant's of the same id: the page relies on what it does.
package run
