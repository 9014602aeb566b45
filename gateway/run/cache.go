package run

import (
	"container/list"
	"sync"
)

// A cache keeps what was used last, within a limit of weight.
type cache[K comparable, V any] struct {
	mu     sync.Mutex
	limit  int
	weight int
	order  list.List // of *entry, the last used in front
	byKey  map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key    K
	value  V
	weight int
}

func (c *cache[K, V]) get(k K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.byKey[k]
	if !ok {
		var none V
		return none, false
	}
	c.order.MoveToFront(el)
	return el.Value.(*entry[K, V]).value, true
}

// put keeps v, unless keep prefers what is there. What weighs more than a quarter of the limit is not kept at all.
func (c *cache[K, V]) put(k K, v V, weight int, keep func(old V) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.byKey[k]; ok {
		if keep != nil && keep(el.Value.(*entry[K, V]).value) {
			return
		}
		c.drop(el)
	}
	if weight > c.limit/4 {
		return
	}
	if c.byKey == nil {
		c.byKey = map[K]*list.Element{}
	}
	c.byKey[k] = c.order.PushFront(&entry[K, V]{k, v, weight})
	for c.weight += weight; c.weight > c.limit; {
		c.drop(c.order.Back())
	}
}

func (c *cache[K, V]) drop(el *list.Element) {
	e := el.Value.(*entry[K, V])
	c.order.Remove(el)
	delete(c.byKey, e.key)
	c.weight -= e.weight
}
