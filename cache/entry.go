package cache

import (
	"bytes"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// kind is what an answer says.
type kind uint8

const (
	other   kind = iota // nothing that may be kept
	success             // there is data of the type
	denial              // there is none: NXDOMAIN or NODATA with an SOA (RFC 2308)
	failure             // nobody knows (RFC 9520)
)

// entry is one reply that is kept. Everything but the atomic fields is immutable.
type entry struct {
	msg    []byte // whole, without OPT, the name in its question in lower case, id 0
	ede    *[]server.ExtendedError
	stored int64  // on the clock of the cache
	ttl    uint32 // seconds that it is good for
	qend   uint16 // offset behind the question in msg
	kind   kind
	bits   uint8 // of the key: DO, CD

	hits    atomic.Uint32 // since the last gap: what makes it popular
	lastHit atomic.Int64
	retry   atomic.Int64 // not to be asked for again before this
}

// expires is when it stops being fresh.
func (e *entry) expires() int64 { return e.stored + int64(e.ttl)*int64(time.Second) }

func (e *entry) fresh(now int64) bool { return now < e.expires() }

// left is what remains of the TTL in seconds; at least 1 as long as the entry is fresh.
func (e *entry) left(now int64) uint32 {
	age := uint32(max(now-e.stored, 0) / int64(time.Second))
	return e.ttl - min(age, e.ttl)
}

// perEntry is what an entry takes besides its message: itself, the element of the LRU list (80 bytes), and its place in the map (about
// 24 bytes for a key and a pointer at the usual fill).
const perEntry = int64(unsafe.Sizeof(entry{})) + 80 + 24

func (e *entry) size() int64 {
	n := perEntry + int64(cap(e.msg))
	if e.ede != nil {
		for i := range *e.ede {
			n += int64(unsafe.Sizeof((*e.ede)[i])) + int64(len((*e.ede)[i].Text))
		}
	}
	return n
}

// popular counts a hit and says whether there have been amount of them without a gap.
func (e *entry) popular(now int64, p *Prefetch) bool {
	last := e.lastHit.Swap(now)
	if last == 0 || now-last >= int64(p.Gap) {
		e.hits.Store(1)
		return p.Amount <= 1
	}
	return e.hits.Add(1) >= uint32(p.Amount)
}

// key is what entries are found by. The name stays in the query: it is compared on a hit.
type key struct {
	hash  uint64
	name  []byte // folded; aliases the query
	typ   wire.Type
	class wire.Class
	bits  uint8
}

// The bits of a key.
const (
	bitDO = 1 << iota
	bitCD
)

func (s *store) key(q *server.Query) key {
	k := key{name: q.Name.Folded(), typ: q.Type, class: q.Class}
	if q.EDNS.DO {
		k.bits |= bitDO
	}
	if q.CD() {
		k.bits |= bitCD
	}
	k.hash = s.hash(&k)
	return k
}

func (s *store) hash(k *key) uint64 {
	var buf [wire.MaxName + 5]byte
	n := copy(buf[:], k.name)
	n += copy(buf[n:], []byte{byte(k.typ >> 8), byte(k.typ), byte(k.class >> 8), byte(k.class), k.bits})
	return maphash.Bytes(s.seed, buf[:n])
}

// is says whether e answers k's question.
func (e *entry) is(k *key) bool {
	q := e.msg[wire.HeaderLen:e.qend]
	n := len(k.name)
	return e.bits == k.bits && len(q) == n+4 && bytes.Equal(q[:n], k.name) &&
		q[n] == byte(k.typ>>8) && q[n+1] == byte(k.typ) && q[n+2] == byte(k.class>>8) && q[n+3] == byte(k.class)
}

// shards is how many parts the store has, each behind its own lock. A lookup holds one for some 50 ns, so the handful of workers that a
// machine has hardly ever meet; more shards would only make them unevenly full.
const shards = 64

// bytesPerEntry bounds the memory of a shard by its capacity. Usual replies are of 100 to 300 bytes, so this stops only a flood of huge
// ones, which would otherwise take 640 MB at the default capacity.
const bytesPerEntry = 1 << 10

// store holds the entries. It outlives changes of everything but the options that it was made with.
type store struct {
	seed   maphash.Seed
	stale  int64 // how long expired entries are of use
	prefer bool  // see Stale.PreferPositive
	parts  [shards]shard
}

type shard struct {
	mu      sync.Mutex
	success lru
	denial  lru // failures too
	flights map[uint64]*flight
	_       [24]byte // each shard on cache lines of its own
}

// lru is one kind's entries of a shard.
type lru struct {
	*simplelru.LRU[uint64, *entry]
	bytes  int64
	budget int64
}

func (l *lru) init(capacity int) error {
	n, err := simplelru.NewLRU(capacity, func(_ uint64, e *entry) { l.bytes -= e.size() })
	if err != nil {
		return err
	}
	l.LRU, l.budget = n, int64(capacity)*bytesPerEntry
	return nil
}

// put stores e and gives how many entries had to go for it. One too big for the budget is not stored.
func (l *lru) put(hash uint64, e *entry) (evicted uint64) {
	size := e.size()
	l.Remove(hash)
	if size > l.budget {
		return 0
	}
	l.bytes += size
	if l.Add(hash, e) {
		evicted++
	}
	for l.bytes > l.budget {
		l.RemoveOldest()
		evicted++
	}
	return evicted
}

// get gives the entry for k if it is one that may still be served.
func (l *lru) get(k *key) *entry {
	e, ok := l.Get(k.hash)
	if !ok || !e.is(k) {
		return nil
	}
	return e
}

func newStore(o *Options) *store {
	s := &store{seed: maphash.MakeSeed(), stale: int64(o.Stale.UpTo), prefer: o.Stale.PreferPositive}
	for i := range s.parts {
		p := &s.parts[i]
		p.flights = map[uint64]*flight{}
		for _, l := range [...]struct {
			l *lru
			n int
		}{{&p.success, o.Success.Capacity}, {&p.denial, o.Denial.Capacity}} {
			if err := l.l.init(max(l.n/shards, 1)); err != nil {
				panic(err) // a capacity of one or more is never an error
			}
		}
	}
	return s
}

func (s *store) part(hash uint64) *shard { return &s.parts[hash%shards] }

// found is the entry that answers a question.
type found struct {
	*entry
	stale  bool
	denied bool // it is stale data, and a fresh denial is known
}

// find gives the entry to answer with; its entry is nil when there is none.
func (s *store) find(k *key, now int64) found {
	p := s.part(k.hash)
	p.mu.Lock()
	defer p.mu.Unlock()
	pos := p.success.get(k)
	if pos != nil && pos.fresh(now) {
		return found{entry: pos}
	}
	neg := p.denial.get(k)
	old := s.usable(pos, now)
	switch {
	case neg != nil && neg.fresh(now) && !(s.prefer && old):
		return found{entry: neg}
	case old:
		return found{entry: pos, stale: true, denied: neg != nil && neg.fresh(now)}
	case s.usable(neg, now) && neg.kind == denial:
		return found{entry: neg, stale: true}
	}
	return found{}
}

// usable says whether e is fresh, or stale but not too old.
func (s *store) usable(e *entry, now int64) bool {
	return e != nil && now < e.expires()+s.stale
}

// insert stores e. An answer replaces what was known, but for data that PreferPositive keeps; a failure replaces nothing that is of use.
// before is the entry whose refresh e is, so that its popularity goes on; nil for none. It gives how many entries of e's kind had to go for it.
func (s *store) insert(k *key, e, before *entry, now int64) (evicted uint64) {
	if before != nil {
		e.hits.Store(before.hits.Load())
		e.lastHit.Store(before.lastHit.Load())
	}
	p := s.part(k.hash)
	p.mu.Lock()
	defer p.mu.Unlock()
	pos, neg := p.success.get(k), p.denial.get(k)
	switch e.kind {
	case success:
		p.denial.Remove(k.hash)
		return p.success.put(k.hash, e)
	case failure:
		if s.usable(pos, now) || s.usable(neg, now) && neg.kind == denial {
			return 0
		}
	default:
		if !s.prefer || !s.usable(pos, now) {
			p.success.Remove(k.hash)
		}
	}
	return p.denial.put(k.hash, e)
}

// forget takes e out if it has expired and nothing has replaced it.
func (s *store) forget(k *key, e *entry, now int64) {
	if e.fresh(now) {
		return
	}
	p := s.part(k.hash)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range [...]*lru{&p.success, &p.denial} {
		if l.get(k) == e {
			l.Remove(k.hash)
		}
	}
}

// sums are the sizes of the whole store.
type sums struct {
	entries [2]int // success, denial
	bytes   [2]int64
}

func (s *store) sums() (t sums) {
	for i := range s.parts {
		p := &s.parts[i]
		p.mu.Lock()
		t.entries[0] += p.success.Len()
		t.entries[1] += p.denial.Len()
		t.bytes[0] += p.success.bytes
		t.bytes[1] += p.denial.bytes
		p.mu.Unlock()
	}
	return t
}
