package membus_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"runnerd/gateway/bus"
	"runnerd/gateway/bus/bustest"
	"runnerd/gateway/bus/membus"
	"runnerd/gateway/store"
)

func TestBus(t *testing.T) {
	bustest.Run(t, func(t *testing.T) bus.Bus {
		b := membus.New()
		t.Cleanup(func() { b.Close() })
		return b
	})
}

func TestRingIsHeardBeforeItReturns(t *testing.T) {
	b := membus.New()
	wake, stop := b.Listen("a")
	defer stop()
	b.Ring("a")
	select {
	case <-wake:
	default:
		t.Error("the bell was not heard")
	}
}

func TestListenersHearOneBellForManyRings(t *testing.T) {
	b := membus.New()
	wake, stop := b.Listen("a", "b")
	defer stop()
	for range 5 {
		b.Ring("a", "b")
	}
	<-wake
	select {
	case <-wake:
		t.Error("a second bell was pending")
	default:
	}
}

func TestRingAllocatesNothing(t *testing.T) {
	b := membus.New()
	for range 3 {
		_, stop := b.Listen("a")
		defer stop()
	}
	topics := []store.Topic{"a", "nobody"}
	if n := testing.AllocsPerRun(100, func() { b.Ring(topics...) }); n > 0 {
		t.Errorf("%v allocations a ring", n)
	}
}

// BenchmarkRing rings one of many topics, each with a listener, from all processors at once: what a ring costs must not
// depend on how many listen to other topics.
func BenchmarkRing(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("listeners=%d", n), func(b *testing.B) {
			bus := membus.New()
			topics := make([]store.Topic, n)
			for i := range topics {
				topics[i] = store.RunnerTopic(store.RunnerID(fmt.Sprint(i)))
				_, stop := bus.Listen(topics[i])
				defer stop()
			}
			var next atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					bus.Ring(topics[int(next.Add(1))%n])
				}
			})
		})
	}
}
