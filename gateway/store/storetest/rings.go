package storetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"runnerd/gateway/store"
)

var ringCases = map[string]func(*testing.T, Open){
	"Publish/rings once for a topic, before Update returns": func(t *testing.T, open Open) {
		var heard bells
		s := open(t, heard.ring)
		write(t, s, func(tx store.Tx) error {
			tx.Publish("b")
			tx.Publish("a")
			tx.Publish("b")
			if got := heard.all(); len(got) > 0 {
				t.Errorf("rang %v before the commit", got)
			}
			return tx.PutMeta("k", nil)
		})
		if got, want := heard.all(), []store.Topic{"b", "a"}; !slices.Equal(got, want) {
			t.Errorf("rang %v, want %v", got, want)
		}
	},
	"Publish/does not ring for a function that failed": func(t *testing.T, open Open) {
		var heard bells
		s := open(t, heard.ring)
		refused(t, s, errOurs, func(tx store.Tx) error { tx.Publish("a"); return all(tx.PutMeta("k", nil), errOurs) })
		if got := heard.all(); len(got) > 0 {
			t.Errorf("rang %v", got)
		}
	},
	"Publish/rings after the commit and in commit order": testRings,
}

// bells notes what rang.
type bells struct {
	mu    sync.Mutex
	heard []store.Topic
}

func (b *bells) ring(topics ...store.Topic) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard = append(b.heard, topics...)
}

func (b *bells) all() []store.Topic {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.heard)
}

// testRings has many writers take a cursor value and ring with it. Whoever hears a bell must find what it is for, and hear
// them in the order of the values, for that is the order in which a stream may send them.
func testRings(t *testing.T, open Open) {
	var s store.Store
	var last int64
	ring := func(topics ...store.Topic) { // by one goroutine at a time
		for _, topic := range topics {
			var seq int64
			if _, err := fmt.Sscanf(string(topic), "seq/%d", &seq); err != nil {
				t.Error(err)
			}
			if seq <= last {
				t.Errorf("%d rang after %d", seq, last)
			}
			last = seq
			err := s.View(t.Context(), func(v store.Reader) error { _, err := v.Meta(string(topic)); return err })
			if err != nil {
				t.Errorf("%s rang before it could be read: %v", topic, err)
			}
		}
	}
	s = open(t, ring)
	write(t, s, func(tx store.Tx) error { return tx.CreateRunner(aRunner(ann, "k1", 1)) })
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 20 {
				err := s.Update(t.Context(), func(tx store.Tx) error {
					seq, err := tx.NextSeq(ann, "k1")
					if err != nil {
						return err
					}
					topic := store.Topic(fmt.Sprintf("seq/%d", seq))
					tx.Publish(topic)
					if (g+i)%7 == 0 {
						return errOurs
					}
					return tx.PutMeta(string(topic), nil)
				})
				if err != nil && err != errOurs {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if last == 0 {
		t.Error("nothing rang")
	}
}
