package membus

import (
	"fmt"
	"testing"

	"runnerd/gateway/store"
)

func TestStoppedListenersLeaveNothing(t *testing.T) {
	b := New()
	for i := range 1000 {
		_, stop := b.Listen(store.Topic(fmt.Sprint(i)), "all")
		stop()
		stop()
	}
	for i := range b.shard {
		if n := len(b.shard[i].listeners); n > 0 {
			t.Errorf("shard %d keeps %d topics", i, n)
		}
	}
}
