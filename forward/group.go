package forward

import (
	"crypto/tls"
	"errors"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// errAllDown is the cause when failfast_all_unhealthy_upstreams answers.
var errAllDown = errors.New("all upstream servers are down")

// errNotLoaded is the cause while the files that name upstreams have not been read yet.
var errNotLoaded = errors.New("upstream servers are not known yet")

// errPanic is what those who share an exchange see if that fails in a way that it should not.
var errPanic = errors.New("internal error")

// group is one forward line at work.
type group struct {
	opts     Options
	metrics  *Metrics
	log      *slog.Logger
	dial     dialer
	failover rcodeSet
	next     rcodeSet

	ups    atomic.Pointer[[]*upstream]
	loaded chan struct{} // closed once ups has been set from all of To
	turn   atomic.Uint32 // round_robin
	tls    *tls.Config   // set before ups

	waiting   atomic.Int64
	flights   flights
	exchanges sync.Pool // of *exchange
	buffers   sync.Pool // of *message
	outgoings sync.Pool // of *outgoing
	turns     sync.Pool // of *server.Turn

	life *lifetime
}

func newGroup(o Options, m *Metrics, log *slog.Logger, dial dialer, life *lifetime) *group {
	g := &group{opts: o, metrics: m, log: log, dial: dial, life: life, loaded: make(chan struct{})}
	g.failover, g.next = newRCodeSet(o.Failover), newRCodeSet(o.Next)
	g.buffers.New = func() any { return &message{make([]byte, 0, bufferLen)} }
	g.flights.init()
	none := []*upstream{}
	g.ups.Store(&none)
	g.installFixed()
	return g
}

// takes says whether a name is this line's to forward.
func (g *group) takes(q *server.Query) bool {
	for i := range g.opts.From {
		if _, ok := q.Name.Cut(g.opts.From[i]); ok {
			return !g.spares(q)
		}
	}
	return false
}

func (g *group) spares(q *server.Query) bool {
	for i := range g.opts.Except {
		if _, ok := q.Name.Cut(g.opts.Except[i]); ok {
			return true
		}
	}
	return false
}

// full says whether max_concurrent queries wait.
func (g *group) full() bool {
	return g.opts.MaxConcurrent > 0 && g.waiting.Load() >= int64(g.opts.MaxConcurrent)
}

// over is the protocol to ask an upstream by; stream says that the client came by one.
func (g *group) over(u *upstream, stream bool) proto {
	switch {
	case u.target.tls:
		return overTLS
	case g.opts.ForceTCP, stream && !g.opts.PreferUDP:
		return overTCP
	}
	return overUDP
}

func (g *group) buffer() *message { return g.buffers.Get().(*message) }

// recycle takes a buffer back. Long ones, which came by stream, are left to the collector.
func (g *group) recycle(m *message) {
	if m != nil && cap(m.b) == bufferLen {
		g.buffers.Put(m)
	}
}

// fill makes x ask what q asks.
func (x *exchange) fill(q *server.Query) {
	x.question.set(q.Name.Bytes(), q.Type, q.Class, q.Flags, q.EDNS.DO, q.ToUpstream)
	if x.group.opts.RandomCase {
		x.question.randomizeCase()
	}
	x.stream = q.Transport != server.UDP && q.Transport != server.Internal && !x.group.opts.PreferUDP && !x.group.opts.ForceTCP
	x.key = key{
		name:   maphash.Bytes(x.group.flights.seed, q.Name.Folded()),
		typ:    q.Type,
		class:  q.Class,
		flags:  q.Flags & (wire.FlagRD | wire.FlagCD),
		do:     q.EDNS.DO,
		stream: x.stream,
	}
	if len(q.ToUpstream) > 0 {
		x.key.opts = maphash.Bytes(x.group.flights.seed, q.ToUpstream)
	}
}

// known says whether the upstreams are: the files that name them have been read.
func (g *group) known() bool {
	if len(*g.ups.Load()) > 0 {
		return true
	}
	select {
	case <-g.loaded:
		return true
	default:
		return false
	}
}

// order puts the upstreams into the order of asking: by policy, the well ones before the others. It is an error if there are none to
// ask.
func (g *group) order(x *exchange) error {
	ups := g.usable()
	if len(ups) == 0 {
		return &unreachable{last: g.unusable()}
	}
	n, first := len(ups), 0
	switch g.opts.Policy {
	case Random:
		first = rand.IntN(n)
	case RoundRobin:
		first = int((g.turn.Add(1) - 1) % uint32(n))
	}
	sick := false
	for i := range n {
		x.ups[i] = ups[(first+i)%n]
		sick = sick || x.ups[i].ailing.Load()
	}
	x.nups, x.budget = n, g.attempts(n)
	if g.opts.Policy == Random && n > 2 { // two are shuffled by where they begin
		rand.Shuffle(n, func(i, j int) { x.ups[i], x.ups[j] = x.ups[j], x.ups[i] })
	}
	if sick && !g.triage(x) {
		return &unreachable{last: errAllDown}
	}
	return nil
}

// triage sorts the upstreams of x by health and else leaves their order. It says false if all are down and failfast is on.
func (g *group) triage(x *exchange) bool {
	ups := x.ups[:x.nups]
	for i := 1; i < len(ups); i++ { // few, and mostly in order
		for j := i; j > 0 && ups[j].rank() < ups[j-1].rank(); j-- {
			ups[j], ups[j-1] = ups[j-1], ups[j]
		}
	}
	if !ups[0].down.Load() {
		return true
	}
	g.metrics.broken.Inc()
	return !g.opts.FailFast
}

// attempts is how many attempts a query may have with n upstreams.
func (g *group) attempts(n int) int {
	switch m := g.opts.MaxConnectAttempts; {
	case m == DefaultAttempts:
		return max(3, 2*n)
	case m > 0:
		return min(m, maxAttempts)
	}
	return maxAttempts
}

// sweep closes what has not been used for long.
func (g *group) sweep(now time.Time, all bool) {
	for _, u := range *g.ups.Load() {
		u.sweep(now, all)
	}
}
