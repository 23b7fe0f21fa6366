package kubernetes

import (
	"hash/maphash"
	"sync/atomic"
)

// table is a hash table from byte strings to values that any number of goroutines read without locks or allocation while one at a time writes.
// A Go map would need a lock, and sync.Map a string made of the key for every look-up.
type table[T any] struct {
	seed  maphash.Seed
	slots atomic.Pointer[[]atomic.Pointer[node[T]]]
	gone  *node[T] // stands where a value was deleted, so that probing goes on
	live  int      // values; the writer's
	used  int      // slots that are not empty; the writer's
}

// node is a value with its key. It is immutable.
type node[T any] struct {
	key string
	val T
}

// minSlots is the size of an empty table. Sizes are powers of two.
const minSlots = 16

func newTable[T any]() *table[T] {
	t := &table[T]{seed: maphash.MakeSeed(), gone: new(node[T])}
	s := make([]atomic.Pointer[node[T]], minSlots)
	t.slots.Store(&s)
	return t
}

// get gives the value of a key, which must not be empty, or nil.
func (t *table[T]) get(key []byte) *T {
	s := *t.slots.Load()
	mask := uint64(len(s) - 1)
	for i := maphash.Bytes(t.seed, key); ; i++ {
		n := s[i&mask].Load()
		if n == nil {
			return nil
		}
		if n.key == string(key) {
			return &n.val
		}
	}
}

// put sets the value of a key and gives where it stands.
func (t *table[T]) put(key string, val T) *T {
	n := &node[T]{key, val}
	s, _ := t.find(key)
	if s == nil {
		t.reserve()
		_, s = t.find(key)
		t.live++
		if s.Load() == nil {
			t.used++
		}
	}
	s.Store(n)
	return &n.val
}

// delete removes a key if it is there.
func (t *table[T]) delete(key string) {
	if s, _ := t.find(key); s != nil {
		s.Store(t.gone)
		t.live--
	}
}

// find gives the slot of a key or nil, and else the slot where it would go.
func (t *table[T]) find(key string) (at, free *atomic.Pointer[node[T]]) {
	s := *t.slots.Load()
	mask := uint64(len(s) - 1)
	for i := maphash.String(t.seed, key); ; i++ {
		p := &s[i&mask]
		switch n := p.Load(); {
		case n == nil:
			if free == nil {
				free = p
			}
			return nil, free
		case n == t.gone:
			if free == nil {
				free = p
			}
		case n.key == key:
			return p, nil
		}
	}
}

// reserve makes room for one more: a table is at most three quarters full, deleted slots counted.
func (t *table[T]) reserve() {
	old := *t.slots.Load()
	if (t.used+1)*4 <= len(old)*3 {
		return
	}
	s := make([]atomic.Pointer[node[T]], slotsFor(t.live+1))
	mask := uint64(len(s) - 1)
	for i := range old {
		n := old[i].Load()
		if n == nil || n == t.gone {
			continue
		}
		at := maphash.String(t.seed, n.key)
		for s[at&mask].Load() != nil {
			at++
		}
		s[at&mask].Store(n)
	}
	t.used = t.live
	t.slots.Store(&s)
}

// slotsFor is the size of a table for n values: at most five eighths full, so that it takes some more before it is made anew.
func slotsFor(n int) int {
	size := minSlots
	for n*8 > size*5 {
		size *= 2
	}
	return size
}

// addrTable finds the items that have an address: at 8 bytes a slot it costs a tenth of a map. An item may have many addresses and an
// address many items. It may name an item that has the address no more, or not yet: whoever reads it looks at the item.
// Reading and writing are as with table.
type addrTable[T any] struct {
	seed  maphash.Seed
	slots atomic.Pointer[[]atomic.Uint64] // 0: empty; otherwise id+1 in the upper and the hash in the lower half; id+1 of 0: deleted
	items atomic.Pointer[[]atomic.Pointer[T]]
	ids   int      // given out so far; the writer's, like what follows
	free  []uint32 // of them, given back
	live  int
	used  int
}

// deletedAddr marks a deleted slot.
const deletedAddr = 1

func newAddrTable[T any]() *addrTable[T] {
	t := &addrTable[T]{seed: maphash.MakeSeed()}
	s, items := make([]atomic.Uint64, minSlots), make([]atomic.Pointer[T], minSlots)
	t.slots.Store(&s)
	t.items.Store(&items)
	return t
}

// enter gives an item an id.
func (t *addrTable[T]) enter(item *T) uint32 {
	var id uint32
	if n := len(t.free); n > 0 {
		id, t.free = t.free[n-1], t.free[:n-1]
	} else {
		id = uint32(t.ids)
		t.ids++
	}
	items := *t.items.Load()
	if int(id) >= len(items) {
		grown := make([]atomic.Pointer[T], 2*len(items))
		for i := range items {
			grown[i].Store(items[i].Load())
		}
		items = grown
		t.items.Store(&items)
	}
	items[id].Store(item)
	return id
}

// leave takes an id back, whose addresses have all been removed.
func (t *addrTable[T]) leave(id uint32) {
	(*t.items.Load())[id].Store(nil)
	t.free = append(t.free, id)
}

func (t *addrTable[T]) hash(addr *[16]byte) uint32 {
	return uint32(maphash.Bytes(t.seed, addr[:]))
}

// add notes that an item has an address, which it has not been noted to have.
func (t *addrTable[T]) add(addr *[16]byte, id uint32) {
	t.reserve()
	s := *t.slots.Load()
	h := t.hash(addr)
	i := h
	for s[i&uint32(len(s)-1)].Load()>>32 != 0 {
		i++
	}
	p := &s[i&uint32(len(s)-1)]
	if p.Load() == 0 {
		t.used++
	}
	p.Store(uint64(id+1)<<32 | uint64(h))
	t.live++
}

// remove is the reverse of add.
func (t *addrTable[T]) remove(addr *[16]byte, id uint32) {
	s := *t.slots.Load()
	h := t.hash(addr)
	want := uint64(id+1)<<32 | uint64(h)
	for i := h; ; i++ {
		p := &s[i&uint32(len(s)-1)]
		switch p.Load() {
		case want:
			p.Store(deletedAddr)
			t.live--
			return
		case 0:
			return
		}
	}
}

func (t *addrTable[T]) reserve() {
	old := *t.slots.Load()
	if (t.used+1)*4 <= len(old)*3 {
		return
	}
	s := make([]atomic.Uint64, slotsFor(t.live+1))
	mask := uint32(len(s) - 1)
	for i := range old {
		v := old[i].Load()
		if v>>32 == 0 {
			continue
		}
		at := uint32(v)
		for s[at&mask].Load() != 0 {
			at++
		}
		s[at&mask].Store(v)
	}
	t.used = t.live
	t.slots.Store(&s)
}

// probe is a walk over the items that may have an address.
type probe[T any] struct {
	slots []atomic.Uint64
	items []atomic.Pointer[T]
	hash  uint32
	at    uint32
}

func (t *addrTable[T]) find(addr *[16]byte) probe[T] {
	h := t.hash(addr)
	slots := *t.slots.Load() // before items: an id in it is then in items too
	return probe[T]{slots: slots, items: *t.items.Load(), hash: h, at: h}
}

// next is the next item, or nil at the end.
func (p *probe[T]) next() *T {
	for {
		v := p.slots[p.at&uint32(len(p.slots)-1)].Load()
		if v == 0 {
			return nil
		}
		p.at++
		if v>>32 == 0 || uint32(v) != p.hash {
			continue
		}
		if id := uint32(v>>32) - 1; int(id) < len(p.items) {
			if item := p.items[id].Load(); item != nil {
				return item
			}
		}
	}
}
