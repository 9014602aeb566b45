// Package engine decides what a run does next, and nothing else: no clock, no I/O, no goroutine. A run's state is a fold of
// its events; state and one input give new events and effects, which the caller persists in one transaction and then acts
// on (design, section 3). So any gateway can take the next input, a restart loses nothing, and a replay is the same function
// without effects.
//
//	           +--------------------------- Decide ---------------------------+
//	Workflow --|                                                              |--> Events  (appended, then folded)
//	State -----|  created, step done, step failed, progress, timer, cancel    |--> Effects (dispatch, timer, stop)
//	Input -----|                                                              |
//	           +--------------------------------------------------------------+
package engine
