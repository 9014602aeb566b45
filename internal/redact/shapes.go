package redact

import "slices"

// A candidate is a place that may become a token.
type candidate struct {
	shape *shape
	start int64 // of the secret, never while it has not begun
	part  int
	count int
}

// advance takes the next symbol and reports whether the place may still become a token.
func (c *candidate) advance(x symbol) bool {
	if p := c.shape.parts[c.part]; p.class[x.b] && c.count < p.max {
		c.count++
	} else {
		if c.count < p.min || c.part+1 == len(c.shape.parts) || !c.shape.parts[c.part+1].class[x.b] {
			return false
		}
		c.part, c.count = c.part+1, 1
	}
	if c.part == c.shape.secret && c.start == never {
		c.start = x.from
	}
	return true
}

func (c *candidate) whole() bool {
	last := len(c.shape.parts) - 1
	return c.part == last && c.count >= c.shape.parts[last].min
}

// maxCandidates bounds how many places are followed at once. More than a few need a text that is made of prefixes.
const maxCandidates = 8

// shapes looks for tokens in the symbols of a lane.
type shapes struct {
	scan    *scanner
	table   *shapeTable
	decoded bool // the lane is the one without escapes
	prefix  tracker
	recent  uint64 // the last eight symbols
	from    int64  // of the last one
	to      int64
	busy    bool // more than the last symbol counts
	open    []candidate

	token  *shape // a token that goes on, nil for none
	start  int64
	dashes int // of a private key's end
	groups int
}

// take takes the next symbol. Its owner notes the symbol in recent, and calls take when more than that is needed.
func (s *shapes) take(x symbol) {
	auto := s.table.auto
	if s.token != nil && s.proceed(x) || len(s.open) > 0 && s.follow(x) {
		s.busy = s.token != nil
		return
	}
	if s.prefix.at == 0 && uint8(s.recent>>8) != 0 { // the first byte of a pair was let pass
		s.prefix.step(auto, symbol{byte(s.recent >> 8), s.from, s.to})
	}
	s.look(s.prefix.step(auto, x))
	s.busy = s.token != nil || len(s.open) > 0 || s.prefix.at != 0
}

// look opens a candidate where a prefix ends.
func (s *shapes) look(state *state) {
	s.prefix.before = 0
	if state.found < 0 {
		return
	}
	if found := &s.table.list[state.found]; s.admits(found) {
		c := candidate{shape: found, start: never}
		if found.secret == 0 {
			c.start = s.prefix.start(int32(len(found.prefix)))
		}
		s.open = append(s.open, c)
	}
}

// follow advances the candidates and reports whether one of them has become a token.
func (s *shapes) follow(x symbol) bool {
	kept := s.open[:0]
	for _, c := range s.open {
		if !c.advance(x) {
			continue
		}
		if c.whole() {
			s.found(c, x)
			return true
		}
		kept = append(kept, c)
	}
	s.open = kept
	return false
}

// admits reports whether a token of this shape may begin where its prefix was found.
func (s *shapes) admits(found *shape) bool {
	if len(s.open) == maxCandidates || found.raw && s.decoded {
		return false
	}
	if !found.word {
		return true
	}
	before := byte(s.recent >> (8 * len(found.prefix)))
	if !letterOrDigit(before) && before != '_' {
		return true
	}
	// In JSON and the like the letter may belong to an escape, which is no part of the word.
	return byte(s.recent>>(8*len(found.prefix)+8)) == '\\' && slices.Contains([]byte("nrtbf"), before)
}

func (s *shapes) found(c candidate, x symbol) {
	s.open = s.open[:0]
	s.prefix.drop()
	if c.shape.until {
		s.scan.hitShape(c.shape, c.start, x.from)
		return
	}
	s.token, s.start, s.dashes, s.groups = c.shape, c.start, 0, 0
	s.scan.hitShape(c.shape, c.start, x.to)
}

// proceed takes a symbol that may belong to the token that goes on.
func (s *shapes) proceed(x symbol) bool {
	tail := s.token.tail
	if tail == nil {
		tail = s.token.parts[len(s.token.parts)-1].class
	}
	if !tail[x.b] {
		s.token = nil
		return false
	}
	s.scan.hitShape(s.token, s.start, x.to)
	if s.token.pem {
		if s.dashes++; x.b != '-' {
			s.dashes = 0
		}
		if s.dashes == 5 {
			s.dashes = 0
			if s.groups++; s.groups == 2 {
				s.token = nil
			}
		}
	}
	return true
}

// hold is where the earliest thing began that may still become a token. A token that goes on holds nothing of itself back: it
// is known, and masked as it comes.
func (s *shapes) hold() int64 {
	h := s.prefix.hold(s.table.auto, &s.table.first)
	switch {
	case s.token != nil:
		h = min(h, s.to) // what is not seen may be inside
	case s.table.first[byte(s.recent)]:
		h = min(h, s.from)
	}
	for _, c := range s.open {
		h = min(h, c.start)
	}
	return h
}

// partial calls hit for each candidate that the end of the source cuts off.
func (s *shapes) partial(hit func(start int64)) {
	for _, c := range s.open {
		if c.start != never {
			hit(c.start)
		}
	}
}

func (s *shapes) clone(other *shapes) {
	auto := s.table.auto
	s.prefix.clone(&other.prefix, auto)
	s.recent, s.from, s.to, s.busy = other.recent, other.from, other.to, other.busy
	s.token, s.start, s.dashes, s.groups = other.token, other.start, other.dashes, other.groups
	s.open = append(s.open[:0], other.everywhere()...)
}

// resume goes on with a token that other has found.
func (s *shapes) resume(other *shapes) {
	s.token, s.start, s.dashes, s.groups = other.token, other.start, other.dashes, other.groups
	s.from, s.to, s.busy = other.from, other.to, true
}

// same reports whether both will do the same from here on, but for the shapes that only a raw lane looks for.
func (s *shapes) same(decoded *shapes) bool {
	if s.recent != decoded.recent || s.token != decoded.token || s.groups != decoded.groups || s.dashes != decoded.dashes ||
		s.token != nil && s.start != decoded.start || !s.prefix.same(&decoded.prefix, s.table.auto) {
		return false
	}
	return slices.Equal(s.everywhere(), decoded.everywhere())
}

// everywhere gives the candidates of shapes that both kinds of lane look for.
func (s *shapes) everywhere() []candidate {
	if i := slices.IndexFunc(s.open, func(c candidate) bool { return c.shape.raw }); i < 0 {
		return s.open
	}
	return slices.DeleteFunc(slices.Clone(s.open), func(c candidate) bool { return c.shape.raw })
}

func (s *shapes) reset() {
	s.prefix.drop()
	s.recent, s.busy, s.open, s.token = 0, false, s.open[:0], nil
}
