package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"runnerd/internal/wire"
)

// A Phase is how far a step came on this machine.
type Phase int

// The phases, in the order of a step's life. Settled means that the gateway has acknowledged the result, which is gone.
const (
	None Phase = iota
	Accepted
	Started
	Finished
	Settled
)

func (p Phase) String() string {
	return [...]string{"none", "accepted", "started", "finished", "settled"}[p]
}

// A Hash tells the work of one frame from another's.
type Hash [16]byte

// HashOf is the hash of what a frame asks for: everything but which offer it is.
func HashOf(d wire.Dispatch) Hash {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(d.Kind), []byte(d.Provider), []byte(d.Model), []byte(d.Tool), d.Inputs} {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	return Hash(h.Sum(nil)[:len(Hash{})])
}

func (h Hash) text() string {
	if h == (Hash{}) {
		return ""
	}
	return hex.EncodeToString(h[:])
}

func parseHash(s string) (h Hash) {
	if b, err := hex.DecodeString(s); err == nil && len(b) == len(h) {
		h = Hash(b)
	}
	return h
}

// keyOf names a pair of run and step in the memory of settled steps.
func keyOf(run, step string) Hash {
	s := sha256.Sum256([]byte(run + "\x00" + step))
	return Hash(s[:len(Hash{})])
}

// next is the life of a step: the phase after a record of kind k for the offer seq, when the step is in phase p under the
// offer now. It refuses what would lead to a second start or a lost result.
func next(p Phase, now int64, k kind, seq int64) (Phase, bool) {
	switch k {
	case kindAccepted:
		return Accepted, p == None || p == Accepted && seq > now
	case kindDropped:
		return None, p == Accepted && seq == now
	case kindStarted:
		return Started, p == Accepted && seq == now
	case kindFinished: // from None and Accepted: a failure before the start; from Finished and Settled: the answer to a repeat
		return Finished, p == None || p == Settled || seq == now || p == Finished && seq > now
	case kindAcked:
		return Settled, p == Finished && seq == now
	}
	return p, false
}

// recovered is next for a file of which records may be lost: a record tells what was, so it is believed, but a step never
// goes back to where it could be started.
func recovered(p Phase, now int64, k kind, seq int64) (Phase, bool) {
	if to, ok := next(p, now, k, seq); ok {
		return to, true
	}
	switch k {
	case kindStarted:
		return Started, p < Started
	case kindFinished:
		return Finished, true
	case kindAcked:
		return Settled, p < Finished
	}
	return p, false
}
