// Package engine decides what a run does next, and nothing else: no clock, no I/O, no goroutine. A run's state is a fold of
// its events; state and one input give new events and effects, which the caller persists in one transaction and then acts
// on (design, section 3). So any gateway can take the next input, a restart loses nothing, and a replay is the same function
// without effects.
//
//	           +--------------------------- Decide ---------------------------+
//	Workflow --|                                                              |--> Events  (appended, then folded)
//	State -----|  created, step done, step failed, progress, timer, cancel,   |--> Effects (dispatch, timer, stop,
//	           |  answer, pause, resume, child ended                          |             start and stop a child)
//	Input -----|                                                              |
//	           +--------------------------------------------------------------+
//
// It promises that a run has one terminal event and that it is the last; that a node starts only when its edges' rules are
// met; that a step is asked for again only when it is certain that no runner began it, and then under the same id; that no
// input keeps a run from its end; and that a state folded from the log decides as the one that was kept.
//
//	           Created                +--> completed   nothing is left to do
//	pending -----------------> running+--> failed      a failure that no edge takes, a ceiling, a type that is not here
//	                         ^ |  ^   +--> cancelled   Cancel
//	            Pause, Resume| v  | an interrupt is open, answered
//	                      paused  waiting-*
//
// A node, with what it waits for while it is running:
//
//	         rules met             +-------------- running --------------+
//	pending -----------------------> [queued] <-----> [accepted]         |--> completed
//	   |                           |    |     StepPhase                  |--> failed
//	   | rules can never be met,   |    | not_started, policy            |--> cancelled   the run failed or was cancelled
//	   | or disabled               |    v                                |
//	   v                           |  [retry] --timer--> next attempt    |
//	skipped                        |  [timer] --timer--> the node's end  |
//	                               |  [suspended] --answer--> its end    |
//	                               |  [child] --child ended--> its end   |
//	                               +-------------------------------------+
//
// # Types of node
//
// nodetype.go has the table. Every type is a few pure functions: start looks at a call and gives an act (done, a problem,
// sleep, a step, suspend, a child, or one of our own); wake does the same after a sleep, and resume after an answer; outputs
// shapes what a step returned. Types of our own are "runnerd.tool", which calls the tool that config.tool names with
// config.arguments and its inputs, and "runnerd.agent", which is a model's node that must name an agent.
//
// # Decisions
//
// Trigger rules stand on edges. A node whose edges have different rules starts when each rule is met by the edges that have
// it. any_success and any_failed do not wait for the other edges. An edge whose condition does not hold counts as one from a
// skipped node. Conditions compare values (equals, notEquals, contains, regex), or are expressions.
//
// Expressions, in conditions and as inputs, are in the language of expr-lang/expr, less what depends on the clock or on chance
// and what cannot be bounded. They know "variables", "nodes" (by id, what the node put out), the run's variables by their bare
// names, and in a condition "output" and "status" of the edge's source. They say by name what they read, so that order, trust
// and secrecy follow from the definition. Their work is counted and not timed (meter.go): a run that is replayed, or decided
// again from its log, gets the same answer. What cannot be an expression is refused with the definition; one without a value
// fails its node as expression_failed.
//
// A failure fails the run at once, and stops what runs beside it, unless an edge of rule any_success, all_complete or
// any_failed leads from the node to one that has not been skipped. Letting the rest finish was weighed: it could not change
// the outcome and may cost money.
//
// A type that is not in the table, or a runtime capability that the host lacks, fails the run with capability_not_provided
// (wire 5.1 and 11.2: never the create). It does so before the first node starts, so that nothing is paid for a run that
// could not end well; a node that is disabled does not matter.
//
// The run's outputs are those of the node that no edge leaves; where there are several, an object by node id.
//
// A connection must lead to a node from which edges lead to its own, or what it reads would depend on timing. An edge carries
// a value only if it names a port; a binding of the same port comes first.
//
// Trust (wire section 13) is kept by output. What a run was started with, and what stands in a definition, is trusted; what a
// runner returned is not, nor is anything composed with it. Untrusted values go into a model's messages through package
// fence alone, and choose neither tool, provider, model nor format.
//
// An interrupt (gate.go, resolve.go) is answered by the input Resolve and by nothing else, so no output can advance a gate. The
// engine counts votes, checks values, correlation and deadlines; who may answer is for the caller to say, in Resolve.Authorized
// and Resolve.By. Where approvers are listed a vote counts under the caller's own name, since a name in a body proves nothing;
// elsewhere under the name that it gives (wire 7.2). A rejection fails the node unless an edge leaves it whose sourceOutput is
// "reject"; then that edge alone goes on. refine opens the gate anew, under another id; ask puts a clarification on top of the
// gate, which keeps its votes and its deadline. What is said by token alone, and every external event, is untrusted. A run is
// called waiting as soon as one interrupt is open, whatever else goes on: that is what somebody has to know.
//
// A pause waits for what is active (runnerd.run.pausing says that it does), or cuts it. A run that only waits for somebody is
// not paused: it would be as it is. A drained run is paused also when nothing is left to do, since that was promised. What was
// cut starts again with a fresh node.started, and a step under the next try: somebody may have begun the one that was cut, and
// to resume the run is a person's word that it be done again (design, section 5). Answers that come during a pause are kept,
// and their nodes go on with the run; a deadline passes all the same.
//
// A child run (child.go) is a run of its own, whose id follows from its parent's, so that the same decision starts the same
// run. Trust and sensitivity go with its inputs and come back with its result. Its time counts once, when it ends; a tree of
// runs is bounded by shares of one number, so that no node has to know of another's children.
//
// A fork (fork.go) begins with events of its source, the same but for their identity. Where it comes from stands on the
// envelope of its run.started, so that payloads stay equal: with it a fold knows where history ends, and that nothing which the
// source had outstanding there is. From there nodes go on in the middle of what they did, without a second node.started, but
// for what a pause or the source's end had cut. Pauses, the parent and the runner asked for do not go along.
//
// A replay (replay.go) is answered from its source's log: events of a node with an effect are written again as they were, from
// the attempt of the same number among those that ended, and what nobody recorded fails as replay_source_missing. What was
// asked of people is in the log again, asked and answered at once. Acts other than to end, to fail and to wait count as
// effects, so that a type that is added later cannot be forgotten; and a Dispatch or StartChild that would come of it all the
// same is a broken invariant. Payloads name no run of their own and no time that was not recorded, so two replays of one source
// are the same list; where the source ended otherwise, run.failed does not say how long it took.
//
// The protocol's types for tests and its mock provider are off unless Env says otherwise. A run that asks for a mock where there
// is none fails; it does not ask a real model instead. How many tokens were said is what the log has as chunks.
//
// An agent (agent.go, toolcall.go) is a loop inside one node: a model step, its tool calls one after the other, their results
// into the next model step, until the model answers or comes to a ceiling. One step is out at a time, so a node's step stays
// one thing: call counts up, and everything about steps (queue, retry, pause, fork) holds for each. The manifest comes in with
// each decision and is not in the log; what was said is, in runnerd.agent.step, since the protocol's events about tools are
// free of content. That event comes first and agent.toolReturned after it, so that a history which ends between the two still
// knows the result. A tool that the agent may not call, that a person did not allow or that nobody allowed in time is an answer
// to the model and not the end of the node. A call that needs a person is asked about with a profile that a token alone does
// not answer. A node is an agent's loop if it is a model's node (or runnerd.agent) and names an agent; on other types the agent
// is shown and does nothing, as the protocol's own fixture wants it.
//
// What a log may not hold is not in it: sensitive variables, and the runner that a run asks for (wire 14.10: copied history
// carries no runner id). State.Reveal gives both back from the request that the store keeps, and until then Decide says
// ErrMasked. A sensitive variable can be passed on whole; made part of something else, or put out by a runner under
// outputSensitivity, it is not kept, and binding it fails the node.
//
// The run's clock (clock.go) counts store time while something other than a queued step is going on; the wait for another
// attempt counts. It starts and stops only at events that carry the store's time, as the envelope member "clock". Its timer
// is set only if the run's limit could come before the steps' own. The id of a timer holds its turn or attempt, so that one
// that was overtaken is ErrStale.
//
// Besides the protocol's events there are two of our own, runnerd.step.accepted and runnerd.step.queued: when a step's time
// begins to count must be in the log. Payloads carry a few members that the schemas leave room for: masked on run.started,
// untrusted and sensitive on node.completed, outputs on node.failed, n on output.chunk. The payload of provider.usage is
// closed.
//
// attempt counts from 1 on node.started (wire section 12; the schema says from 0), and node.retried names the attempt that
// comes. An event's id is its run's and its sequence, so that a decision taken twice gives the same documents.
package engine
