// Package natsbus is the bus of many gateways, over a NATS server. It promises that Ring never blocks, whatever the server
// does; that a ring is heard at once within the gateway and soon in every other; that it reconnects for ever; and that
// whoever listens is woken once after anything that may have swallowed a ring, so that a lost one costs a moment:
//
//	connection lost and found again    all listeners of this gateway, and of all others, look again
//	more rings than can be sent        likewise, once they can be
//	more rings than can be taken       all listeners of this gateway look again
//
// # Decisions
//
// Core publish and subscribe, no streams: the store holds what happened, and a bell that is heard a day later says nothing.
//
// A gateway subscribes to the topics that somebody of it listens to, one subscription for each, so what others ring costs it
// nothing. Listen comes back when the server has the subscription: a ring between that and the listener's first look at the
// store would be lost otherwise.
//
// Rings wait in a set, not in a queue: a topic that rings twice before it is sent rings once.
package natsbus
