package runner

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"runnerd/internal/wire"
)

// Whatever is lost and repeated on the way, the gateway puts together the text that came, in order; what found no room is
// named where it is missing.
func TestPiecesArriveOnceAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var from trickle
		var sent, got strings.Builder
		var last int64
		now := time.Unix(0, 0)
		ref := wire.StepRef{RunID: "r", StepID: "s", Seq: 1}
		deliver := func(answered bool, room int) {
			pieces := from.pieces(ref, now, wire.ProgressEvery, room)
			for _, p := range pieces {
				if len(p.Delta) > wire.MaxDelta || !utf8.ValidString(p.Delta) {
					t.Fatalf("piece of %d bytes", len(p.Delta))
				}
				if p.N > last {
					if p.N != last+1 {
						t.Fatalf("piece %d after %d", p.N, last)
					}
					last = p.N
					got.WriteString(p.Delta)
				}
			}
			if n := len(pieces); answered && n > 0 {
				from.answered(pieces[n-1].N)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"output": func(t *rapid.T) {
				delta := strings.Repeat(rapid.SampledFrom([]string{"a", "é", "€", "𝄞", "x y"}).Draw(t, "text"), rapid.IntRange(1, 9000).Draw(t, "times"))
				if from.waiting()+len(delta) <= mostWaiting && from.skipped == 0 {
					sent.WriteString(delta)
				} else if from.waiting()+len(delta) <= mostWaiting {
					fmt.Fprintf(&sent, "\n[... %d bytes are not shown here; the result will have them ...]\n%s", from.skipped, delta)
				}
				from.add(delta, now)
			},
			"time passes": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "ms")) * time.Millisecond)
			},
			"report": func(t *rapid.T) {
				deliver(rapid.Bool().Draw(t, "answered"), rapid.SampledFrom([]int{4, 1000, 64 << 10, mostProgress}).Draw(t, "room"))
			},
			"": func(t *rapid.T) {
				if !strings.HasPrefix(sent.String(), got.String()) {
					t.Fatal("what arrived is not the beginning of what was said")
				}
				if from.waiting() > mostWaiting+100 {
					t.Fatalf("%d bytes wait", from.waiting())
				}
			},
		})
		for range 1000 {
			now = now.Add(time.Second)
			deliver(true, mostProgress)
		}
		if got.String() != sent.String() {
			t.Fatalf("%d bytes arrived of %d", got.Len(), sent.Len())
		}
	})
}

func TestTextOfAStepThatEndsAtOnceIsNotSentTwice(t *testing.T) {
	var from trickle
	now := time.Unix(1000, 0)
	from.add("all", now)
	if p := from.pieces(wire.StepRef{}, now, wire.ProgressEvery, mostProgress); len(p) != 0 {
		t.Errorf("sent %+v at once", p)
	}
	if due := from.due(wire.ProgressEvery); due.Sub(now) != settle {
		t.Errorf("due after %v, want %v", due.Sub(now), settle)
	}
}

func TestNewPieceWaitsForItsTurn(t *testing.T) {
	var from trickle
	ref := wire.StepRef{RunID: "r", StepID: "s", Seq: 1}
	begun := time.Unix(1000, 0)
	from.add("one ", begun.Add(-settle))
	if n := len(from.pieces(ref, begun, wire.ProgressEvery, mostProgress)); n != 1 {
		t.Fatalf("%d pieces: the first waits for nothing", n)
	}
	from.answered(1)
	from.add("two ", begun)
	from.add("three", begun)
	if n := len(from.pieces(ref, begun.Add(wire.ProgressEvery-1), wire.ProgressEvery, mostProgress)); n != 0 {
		t.Errorf("%d pieces before it is time", n)
	}
	if due := from.due(wire.ProgressEvery); !due.Equal(begun.Add(wire.ProgressEvery)) {
		t.Errorf("due %v", due)
	}
	if p := from.pieces(ref, begun.Add(wire.ProgressEvery), wire.ProgressEvery, mostProgress); len(p) != 1 || p[0].Delta != "two three" || p[0].N != 2 {
		t.Errorf("pieces %+v, want the two merged", p)
	}
}
