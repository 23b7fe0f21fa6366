package kubernetes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTableIsAMap compares a table with a map through many insertions, deletions and sizes.
func TestTableIsAMap(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	tab, want := newTable[int](), map[string]int{}
	for step := range 100_000 {
		key := fmt.Sprint(rnd.IntN(1 + step/20))
		if rnd.IntN(3) == 0 {
			tab.delete(key)
			delete(want, key)
		} else {
			tab.put(key, step)
			want[key] = step
		}
		key = fmt.Sprint(rnd.IntN(1 + step/20))
		got := tab.get([]byte(key))
		if w, ok := want[key]; ok != (got != nil) || ok && *got != w {
			t.Fatalf("step %d: %q is %v, want %d, %t", step, key, got, w, ok)
		}
		if tab.live != len(want) {
			t.Fatalf("step %d: %d values, want %d", step, tab.live, len(want))
		}
	}
	for key := range want {
		tab.delete(key)
	}
	tab.put("last", 1)
	if n := len(*tab.slots.Load()); n > 1<<15 {
		t.Errorf("%d slots for one value", n)
	}
}

// TestAddrTableIsAMultimap does the same with addresses, items that have several, and ids that are given again.
func TestAddrTableIsAMultimap(t *testing.T) {
	t.Parallel()
	type owner struct{ id uint32 }
	rnd := rand.New(rand.NewPCG(3, 4))
	tab, want := newAddrTable[owner](), map[[16]byte][]*owner{}
	var owners []*owner
	for step := range 50_000 {
		addr := [16]byte{15: byte(rnd.IntN(50)), 14: byte(rnd.IntN(1 + step/1000))}
		switch n := rnd.IntN(10); {
		case n < 2:
			o := new(owner)
			o.id = tab.enter(o)
			owners = append(owners, o)
		case n < 6 && len(owners) > 0:
			if o := owners[rnd.IntN(len(owners))]; !slices.Contains(want[addr], o) {
				tab.add(&addr, o.id)
				want[addr] = append(want[addr], o)
			}
		case n < 9 && len(want[addr]) > 0:
			o := want[addr][0]
			tab.remove(&addr, o.id)
			want[addr] = want[addr][1:]
		case len(owners) > 20:
			o := owners[0]
			owners = owners[1:]
			for a, all := range want {
				if i := slices.Index(all, o); i >= 0 {
					tab.remove(&a, o.id)
					want[a] = slices.Delete(all, i, i+1)
				}
			}
			tab.leave(o.id)
		}
		var got []*owner
		for p := tab.find(&addr); ; {
			o := p.next()
			if o == nil {
				break
			}
			got = append(got, o)
		}
		for _, o := range want[addr] {
			if !slices.Contains(got, o) {
				t.Fatalf("step %d: %v lacks an item", step, addr)
			}
		}
		if len(got) > len(want[addr]) { // a hash that collides would be allowed, but is not to be expected
			t.Fatalf("step %d: %v has %d items, want %d", step, addr, len(got), len(want[addr]))
		}
	}
}
