package redact

import "math/bits"

// An automaton finds many needles in one pass (Aho and Corasick, 1975): a trie whose states know where to go on when the
// next symbol does not fit. States with one child keep it beside them; those with more, the root always, have a table in
// which the detours are resolved already. So it takes about 28 bytes a state and amortised constant time a symbol.
type automaton struct {
	states []state
	tables [][256]int32 // the first is not used: 0 in a state says that it has none
}

type state struct {
	fail  int32 // the state of the longest proper suffix that is a state
	next  int32 // the only child, 0 for none
	table int32
	found int32 // the longest needle that ends here, -1 for none
	some  int32 // a needle that begins like this
	depth int32
	label byte // of next
}

// newAutomaton builds the automaton of needles, which are not empty. Of equal ones the first counts.
func newAutomaton(needles [][]byte) *automaton {
	a := &automaton{states: []state{{found: -1, table: 1}}, tables: make([][256]int32, 2)}
	for i, needle := range needles {
		at := int32(0)
		for _, b := range needle {
			at = a.child(at, b, int32(i))
		}
		if a.states[at].found < 0 {
			a.states[at].found = int32(i)
		}
	}
	a.link()
	return a
}

// child gives the state behind b, which it makes if need be.
func (a *automaton) child(at int32, b byte, needle int32) int32 {
	s := &a.states[at]
	switch {
	case s.table != 0:
		if to := a.tables[s.table][b]; to != 0 {
			return to
		}
	case s.next != 0 && s.label == b:
		return s.next
	}
	to := int32(len(a.states))
	switch {
	case s.table != 0:
		a.tables[s.table][b] = to
	case s.next == 0:
		s.next, s.label = to, b
	default: // a second child
		s.table = int32(len(a.tables))
		var t [256]int32
		t[s.label], t[b] = s.next, to
		a.tables = append(a.tables, t)
	}
	a.states = append(a.states, state{found: -1, some: needle, depth: s.depth + 1})
	return to
}

// link sets the detours, breadth first: those of a state need only those of shorter ones.
func (a *automaton) link() {
	queue := []int32{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		s := a.states[at]
		reach := func(b byte, to int32) {
			child := &a.states[to]
			if at != 0 {
				child.fail = a.step(s.fail, b)
			}
			if child.found < 0 {
				child.found = a.states[child.fail].found
			}
			queue = append(queue, to)
		}
		if s.table == 0 {
			if s.next != 0 {
				reach(s.label, s.next)
			}
			continue
		}
		for b, to := range a.tables[s.table] {
			if to != 0 {
				reach(byte(b), to)
			} else if at != 0 {
				a.tables[s.table][b] = a.step(s.fail, byte(b))
			}
		}
	}
}

// step gives the state after one more symbol: the longest start of a needle with which the text now ends.
func (a *automaton) step(at int32, b byte) int32 {
	for {
		s := &a.states[at]
		if s.table != 0 {
			return a.tables[s.table][b]
		}
		if s.next != 0 && s.label == b {
			return s.next
		}
		at = s.fail
	}
}

// A tracker follows one stream of symbols through an automaton and remembers where in the source its partial match began.
// While there is none it only keeps the last symbol: its owner steps when two symbols begin a needle.
type tracker struct {
	at    int32
	last  int64   // where the last symbol ended in the source
	from  []int64 // where the last symbols began, a ring of a power of two
	count int
	one   symbol // the last symbol, 0 for none; only while at is 0

	// What was before the last symbol, for undo.
	before      int32
	beforeCount int
	two         symbol
}

// pass takes a symbol that, with the one before, begins nothing.
func (t *tracker) pass(x symbol) {
	t.two, t.one, t.before, t.last = t.one, x, 0, x.to
}

// step takes a symbol and gives the state that it leads to.
func (t *tracker) step(a *automaton, x symbol) *state {
	t.before, t.beforeCount, t.last = t.at, t.count, x.to
	t.at = a.step(t.at, x.b)
	t.one.b, t.two.b = 0, 0
	s := &a.states[t.at]
	if t.at == 0 {
		return s
	}
	if int(s.depth) >= len(t.from) { // one more than the depth, so that undo finds what was there
		t.grow()
	}
	t.from[t.count&(len(t.from)-1)] = x.from
	t.count++
	return s
}

func (t *tracker) grow() {
	old := t.from
	t.from = make([]int64, max(16, 2*len(old)))
	for i := max(0, t.count-len(old)); i < t.count; i++ {
		t.from[i&(len(t.from)-1)] = old[i&(len(old)-1)]
	}
}

// start is where the last n symbols begin.
func (t *tracker) start(n int32) int64 { return t.from[(t.count-int(n))&(len(t.from)-1)] }

// keep makes undo take nothing back, for what it would take back came after the last symbol.
func (t *tracker) keep() { t.before, t.beforeCount, t.two = t.at, t.count, t.one }

// undo takes the last symbol back. It does so once: a second one finds nothing to undo.
func (t *tracker) undo() {
	t.at, t.count, t.one = t.before, t.beforeCount, t.two
	t.keep()
}

// drop forgets the partial match.
func (t *tracker) drop() { t.at, t.before, t.one.b, t.two.b = 0, 0, 0, 0 }

// hold is where the earliest partial match began that can still become whole, one that undo would bring back included.
func (t *tracker) hold(a *automaton, first *[256]bool) int64 {
	h := never
	if t.at != 0 {
		h = t.start(a.states[t.at].depth)
	}
	if t.before != 0 {
		h = min(h, t.from[(t.beforeCount-int(a.states[t.before].depth))&(len(t.from)-1)])
	}
	if t.one.b != 0 && first[t.one.b] {
		h = min(h, t.one.from)
	}
	if t.two.b != 0 && first[t.two.b] {
		h = min(h, t.two.from)
	}
	return h
}

// clone makes t the same as other, with a ring of its own that has what may still be asked for.
func (t *tracker) clone(other *tracker, a *automaton) {
	ring := t.from
	*t = *other
	need := 1 + int(max(a.states[t.at].depth, a.states[t.before].depth))
	if t.from = ring; len(ring) < need {
		t.from = make([]int64, max(16, 1<<bits.Len(uint(need))))
	}
	if t.at == 0 && t.before == 0 {
		return
	}
	for i := max(0, t.count-need); i < t.count; i++ {
		t.from[i&(len(t.from)-1)] = other.from[i&(len(other.from)-1)]
	}
}

// same reports whether both will do the same from here on.
func (t *tracker) same(other *tracker, a *automaton) bool {
	if t.at != other.at || t.before != other.before || t.one != other.one || t.two != other.two {
		return false
	}
	if t.before != 0 && t.hold(a, &[256]bool{}) != other.hold(a, &[256]bool{}) {
		return false
	}
	return t.at == 0 || t.last == other.last && t.start(a.states[t.at].depth) == other.start(a.states[t.at].depth)
}
