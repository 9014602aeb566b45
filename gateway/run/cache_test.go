package run

import (
	"fmt"
	"testing"
)

func TestCacheKeepsWhatWasUsedLast(t *testing.T) {
	c := cache[string, int]{limit: 100}
	for i := range 5 {
		c.put(fmt.Sprint(i), i, 20, nil)
	}
	c.get("0")
	c.put("5", 5, 20, nil)
	for k, want := range map[string]bool{"0": true, "1": false, "2": true, "5": true} {
		if _, ok := c.get(k); ok != want {
			t.Errorf("%s is there: %v", k, ok)
		}
	}
	c.put("huge", 9, 26, nil) // a quarter of the limit is enough for anyone
	if _, ok := c.get("huge"); ok || c.weight > c.limit {
		t.Errorf("huge is there: %v; weight %d", ok, c.weight)
	}
}

func TestCachePrefersTheNewer(t *testing.T) {
	c := cache[string, int]{limit: 100}
	newer := func(v int) func(int) bool { return func(old int) bool { return old > v } }
	c.put("a", 2, 10, newer(2))
	c.put("a", 1, 10, newer(1))
	if v, _ := c.get("a"); v != 2 {
		t.Errorf("got %d", v)
	}
	c.put("a", 3, 20, newer(3))
	if v, _ := c.get("a"); v != 3 || c.weight != 20 || c.order.Len() != 1 {
		t.Errorf("got %d, weight %d, %d entries", v, c.weight, c.order.Len())
	}
}
