package forward

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/clusterdns/clusterdns/server/wire"
)

// key is what makes two questions the same: all that the reply depends on. name is a hash with a seed of the process's own, so that nobody can
// make names that meet; those that do by chance are told apart by comparing them.
type key struct {
	name   uint64
	opts   uint64 // hash of the EDNS options, 0 without
	typ    wire.Type
	class  wire.Class
	flags  wire.Flags
	do     bool
	stream bool
}

// flightShards is how many locks the questions in flight are spread over.
const flightShards = 32

// flights are the questions in flight, so that identical ones share an exchange.
type flights struct {
	seed   maphash.Seed
	shards [flightShards]flightShard
}

type flightShard struct {
	sync.Mutex
	m map[key]*exchange
}

func (f *flights) init() {
	f.seed = maphash.MakeSeed()
	for i := range f.shards {
		f.shards[i].m = map[key]*exchange{}
	}
}

// join lets c wait for the exchange of the same question, if that is in flight already, and says so. Otherwise x is in flight until land.
func (f *flights) join(x *exchange, c call) bool {
	s := &f.shards[x.key.name%flightShards]
	s.Lock()
	defer s.Unlock()
	y := s.m[x.key]
	if y == nil {
		s.m[x.key] = x
		return false
	}
	n := y.question.qend - 4
	if n != x.question.qend-4 || !sameName(x.question.msg[wire.HeaderLen:n], y.question.msg[wire.HeaderLen:n]) {
		return false // another name with the same hash: x goes alone
	}
	y.waiters = append(y.waiters, c)
	return true
}

// leave takes out the one that x was begun for, if others wait for it as well, and says so. Otherwise nobody joins x any more. x has not landed.
func (f *flights) leave(x *exchange) bool {
	s := &f.shards[x.key.name%flightShards]
	s.Lock()
	defer s.Unlock()
	if len(x.waiters) == 1 {
		s.end(x)
		return false
	}
	x.waiters = slices.Delete(x.waiters, 0, 1)
	return true
}

// land ends the flight of x and gives those who wait for it. The first is the one that it was begun for, if that is still among them.
func (f *flights) land(x *exchange) []call {
	s := &f.shards[x.key.name%flightShards]
	s.Lock()
	defer s.Unlock()
	s.end(x)
	return x.waiters
}

// end lets nobody join x any more. The caller holds the lock.
func (s *flightShard) end(x *exchange) {
	if s.m[x.key] == x {
		delete(s.m, x.key)
	}
}
