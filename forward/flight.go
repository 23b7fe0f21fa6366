package forward

import (
	"bytes"
	"hash/maphash"
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
	shards [flightShards]struct {
		sync.Mutex
		m map[key]*exchange
	}
}

// result is a reply for those who share an exchange. It is never changed.
type result struct {
	reply reply
	err   error
}

func (f *flights) init() {
	f.seed = maphash.MakeSeed()
	for i := range f.shards {
		f.shards[i].m = map[key]*exchange{}
	}
}

// join gives the channel by which the reply to the same question comes, if that is in flight already. Otherwise it is nil, and x is in flight
// until land.
func (f *flights) join(x *exchange, k key) <-chan *result {
	s := &f.shards[k.name%flightShards]
	s.Lock()
	defer s.Unlock()
	y := s.m[k]
	if y == nil {
		s.m[k] = x
		return nil
	}
	n := y.question.qend - 4
	if n != x.question.qend-4 || !sameName(x.question.msg[wire.HeaderLen:n], y.question.msg[wire.HeaderLen:n]) {
		return nil // another name with the same hash: x goes alone
	}
	w := make(chan *result, 1)
	y.waiters = append(y.waiters, w)
	return w
}

// land ends the flight of x and gives what came of it to those who joined.
func (f *flights) land(x *exchange, r reply, err error) {
	s := &f.shards[x.key.name%flightShards]
	s.Lock()
	if s.m[x.key] == x {
		delete(s.m, x.key)
	}
	waiters := x.waiters
	x.waiters = nil
	s.Unlock()
	if len(waiters) == 0 {
		return
	}
	res := &result{reply{bytes.Clone(r.msg), r.partial}, err}
	for _, w := range waiters {
		w <- res
	}
}
