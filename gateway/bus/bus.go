// Package bus rings bells between the parts of a gateway, and between gateways. It promises little on purpose: whoever
// listens looks again at the store, so a lost ring costs a moment and never an event (design, section 3).
package bus

import "runnerd/gateway/store"

// A Bus carries rings. Its twins are held by bustest.
type Bus interface {
	// Ring wakes everybody who listens to one of the topics. It never blocks.
	Ring(topics ...store.Topic)
	// Listen gives a channel that holds at most one pending ring for any of the topics. stop must be called once.
	Listen(topics ...store.Topic) (wake <-chan struct{}, stop func())
	// Close ends the bus; nothing rings after it.
	Close() error
}
