package engine

import (
	"encoding/json"

	"runnerd/internal/wire"
)

// A stream is what of a step's text went out as output.chunk already: enough to tell a repeat, and to see at the end whether
// the whole text is a continuation of it.
type stream struct {
	n      int64 // of the last progress
	chunks int
	bytes  int
	sum    uint64 // FNV-1a; only the step's own runner could gain from a collision, and only its own text
}

// maxChunks and wire.MaxResult bound what one step may stream; past them the text comes whole with the last chunk.
const maxChunks = 10_000

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func sum(h uint64, text string) uint64 {
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * fnvPrime
	}
	return h
}

func (s *stream) fold(payload json.RawMessage) error {
	var c struct {
		Chunk string `json:"chunk"`
		N     int64  `json:"n"`
	}
	if err := decode(payload, &c); err != nil {
		return err
	}
	if s.chunks == 0 {
		s.sum = fnvOffset
	}
	s.chunks++
	s.n = max(s.n, c.N)
	s.bytes += len(c.Chunk)
	s.sum = sum(s.sum, c.Chunk)
	return nil
}

// takes reports whether a progress is new and there is room. Once there is none there never is again, so that what went out
// stays a beginning of the text.
func (s *stream) takes(p Progress) bool {
	return p.N > s.n && p.Delta != "" && s.chunks < maxChunks && s.bytes < wire.MaxResult
}

// rest is what of the text has not gone out; nothing when the text does not continue what has.
func (s *stream) rest(text string) string {
	switch {
	case s.chunks == 0:
		return text
	case s.bytes <= len(text) && s.sum == sum(fnvOffset, text[:s.bytes]):
		return text[s.bytes:]
	}
	return ""
}
