package natsbus

import (
	"errors"

	"github.com/nats-io/nats.go"

	"runnerd/gateway/store"
)

// take wakes who listens to what other gateways ring.
func (b *Bus) take() {
	for {
		select {
		case m := <-b.taken:
			if m.Subject == look {
				b.wakeAll()
			} else {
				b.wakeSubject(m.Subject)
			}
		case <-b.done:
			return
		}
	}
}

func (b *Bus) wakeSubject(s string) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return
	}
	for l := range b.listeners[s] {
		l.ring()
	}
}

// send sends what rang here. A server that does not read holds up nobody but this loop.
func (b *Bus) send() {
	for {
		select {
		case <-b.kick:
			b.publish()
		case <-b.done:
			return
		}
	}
}

// publish sends what is unsent, if there is a connection, and says whether there was. What it could not send is unsure.
func (b *Bus) publish() bool {
	if !b.nc.IsConnected() {
		return false // reconnected comes again
	}
	b.sending.Lock()
	topics, unsure := b.unsent, b.unsure
	b.unsent, b.unsure = map[store.Topic]struct{}{}, false
	b.sending.Unlock()
	var err error
	if unsure {
		err = b.nc.Publish(look, nil)
	} else {
		for t := range topics {
			if err = b.nc.Publish(subject(t), nil); err != nil {
				break
			}
		}
	}
	if err != nil {
		b.sending.Lock()
		b.unsure = true
		b.sending.Unlock()
	}
	return err == nil
}

// reconnected has everybody look again: here once the server has the subscriptions again, elsewhere because what was sent
// before the connection broke may not have arrived.
func (b *Bus) reconnected() {
	b.log.Info("connected to the bus again")
	b.sending.Lock()
	b.unsure = true
	b.sending.Unlock()
	b.hurry()
	if b.nc.FlushTimeout(2*pingEvery) == nil { // or the connection breaks again, and comes here again
		b.wakeAll()
	}
}

func (b *Bus) failed(err error) {
	if errors.Is(err, nats.ErrSlowConsumer) {
		b.log.Warn("bells came faster than they could be taken")
		b.wakeAll()
		return
	}
	b.log.Warn("the bus refused something", "err", err)
}
