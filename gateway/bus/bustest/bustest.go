// Package bustest holds the buses to one behaviour. A bus rings across processes, so the suite waits for bells, within
// reason, and never demands that one is heard at once.
package bustest

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"runnerd/gateway/bus"
	"runnerd/gateway/store"
)

// An Open gives a fresh bus, which it closes in t.Cleanup.
type Open func(*testing.T) bus.Bus

const (
	patience = 5 * time.Second       // a bell that was not heard by then is lost
	silence  = 50 * time.Millisecond // a bell that must not ring would have been heard by then
)

// cases are named by the method they are about.
var cases = map[string]func(*testing.T, bus.Bus){
	"Ring/wakes everybody who listens to the topic": func(t *testing.T, b bus.Bus) {
		one, stopOne := b.Listen("a")
		two, stopTwo := b.Listen("b", "a")
		defer stopOne()
		defer stopTwo()
		b.Ring("a")
		hears(t, one)
		hears(t, two)
	},
	"Ring/wakes nobody else": func(t *testing.T, b bus.Bus) {
		other, stop := b.Listen("a/b", "A", "")
		defer stop()
		b.Ring("a", "a/", "a/b/c")
		hearsNothing(t, other)
	},
	"Ring/without listeners or topics is nothing": func(_ *testing.T, b bus.Bus) {
		b.Ring("a")
		b.Ring()
	},
	"Ring/never waits for a listener": func(t *testing.T, b bus.Bus) {
		_, stop := b.Listen("a") // and never looks
		defer stop()
		for range 10_000 {
			b.Ring("a")
		}
	},
	"Ring/before a look is heard at the look": func(t *testing.T, b bus.Bus) {
		wake, stop := b.Listen("a")
		defer stop()
		b.Ring("a")
		hears(t, wake)
		b.Ring("a") // while the listener works
		hears(t, wake)
	},
	"Ring/carries every topic a store rings": func(t *testing.T, b bus.Bus) {
		for _, topic := range []store.Topic{
			store.RunTopic("acme", "0190-run"), store.RunnerTopic("k1"), store.SubjectTopic("acme/work/ann@example.com"),
			store.QueueTopic("acme/ann.b_c-d"), store.RevokedTopic, store.RunTopic("a", "with space * > . and ä"),
		} {
			wake, stop := b.Listen(topic)
			b.Ring(topic)
			hears(t, wake)
			stop()
		}
	},
	"Ring/from many sides loses no last bell": testLastBell,

	"Listen/holds one pending ring": func(t *testing.T, b bus.Bus) {
		wake, stop := b.Listen("a", "b")
		defer stop()
		b.Ring("a")
		hears(t, wake)
		for range 5 {
			b.Ring("a", "b")
		}
		// A bus between processes may bring the five one after the other, but never more than five; nothing stays for ever.
		for range 10 {
			select {
			case <-wake:
			case <-time.After(silence):
				return
			}
		}
		t.Error("ten wakes for ten rings: they were queued")
	},
	"Listen/ends with stop": func(t *testing.T, b bus.Bus) {
		wake, stop := b.Listen("a")
		kept, stopKept := b.Listen("a")
		defer stopKept()
		stop()
		b.Ring("a")
		hears(t, kept)
		hearsNothing(t, wake)
	},
	"Listen/to the same topic twice is once": func(t *testing.T, b bus.Bus) {
		wake, stop := b.Listen("a", "a")
		b.Ring("a")
		hears(t, wake)
		stop()
		b.Ring("a")
		hearsNothing(t, wake)
	},
	"Listen/does not keep the caller's slice": func(t *testing.T, b bus.Bus) {
		topics := []store.Topic{"a"}
		wake, stop := b.Listen(topics...)
		defer stop()
		topics[0] = "b"
		b.Ring("b")
		hearsNothing(t, wake)
		b.Ring("a")
		hears(t, wake)
	},

	"Close/ends the ringing": func(t *testing.T, b bus.Bus) {
		wake, stop := b.Listen("a")
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b.Ring("a")
		hearsNothing(t, wake)
		stop()
		if err := b.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	},
}

// Run runs every case on a fresh bus. It fails when a method has no case.
func Run(t *testing.T, open Open) {
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, open(t))
		})
	}
	for m := range reflect.TypeFor[bus.Bus]().Methods() {
		covered := false
		for name := range cases {
			covered = covered || strings.HasPrefix(name, m.Name+"/")
		}
		if !covered {
			t.Errorf("no case for Bus.%s", m.Name)
		}
	}
}

// testLastBell is what the whole design rests on: whoever looks again after every bell sees, in the end, what the last
// writer wrote before it rang.
func testLastBell(t *testing.T, b bus.Bus) {
	const writers, listeners, writes = 8, 4, 200
	var mu sync.Mutex
	truth := map[store.Topic]int{}
	topic := func(w int) store.Topic { return store.Topic(fmt.Sprint("t/", w%3)) }

	var wg sync.WaitGroup
	for l := range listeners {
		watched := topic(l)
		want := 0
		for w := range writers {
			if topic(w) == watched {
				want += writes
			}
		}
		wake, stop := b.Listen(watched) // before the first look, so nothing falls between
		wg.Go(func() {
			defer stop()
			for {
				mu.Lock()
				seen := truth[watched]
				mu.Unlock()
				if seen == want {
					return
				}
				select {
				case <-wake:
				case <-time.After(patience):
					t.Errorf("%s: the last bell was lost at %d of %d", watched, seen, want)
					return
				}
			}
		})
	}
	for w := range writers {
		wg.Go(func() {
			for range writes {
				mu.Lock()
				truth[topic(w)]++
				mu.Unlock()
				b.Ring(topic(w))
			}
		})
	}
	wg.Wait()
}

func hears(t *testing.T, wake <-chan struct{}) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(patience):
		t.Error("the bell was not heard")
	}
}

func hearsNothing(t *testing.T, wake <-chan struct{}) {
	t.Helper()
	select {
	case <-wake:
		t.Error("a bell was heard")
	case <-time.After(silence):
	}
}
