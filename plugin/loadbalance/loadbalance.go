// Package loadbalance decides which of several records comes first: the loadbalance directive. Random order of addresses costs nothing
// here, since the server writes them that way (server.Options.Shuffle); what is done by this package is the order of MX records, weights,
// and preferred networks, on the finished reply.
package loadbalance

import (
	"bytes"
	"cmp"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Balance is the handler. It answers nothing.
type Balance struct {
	opts    Options
	log     *slog.Logger
	weights atomic.Pointer[weights]
	loaded  []byte // content of the file that weights came from; only Load and Run touch it
}

// New makes the handler. With weights, it has none until Load or Run has read them: then all addresses weigh the same.
func New(o Options, log *slog.Logger) *Balance { return &Balance{opts: o, log: log} }

// Answer registers what is to be done with the reply.
func (b *Balance) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if q.Followed() {
		return server.Pass // the whole reply is put in order once
	}
	t := q.QuestionType()
	transfer := t == wire.TypeAXFR || t == wire.TypeIXFR
	if t == wire.TypeMX || t == wire.TypeANY || !transfer && (b.opts.File != "" || len(b.opts.Prefer) > 0) {
		r.OnFinish(b, 0)
	}
	return server.Pass
}

// Finish puts the records of the reply in order.
func (b *Balance) Finish(r *server.Reply, _ *server.Query, _ uint64) {
	if r.Dropped() || r.Count(server.Answer) < 2 && r.Count(server.Additional) < 2 {
		return
	}
	err := r.Edit(func(rrs []server.Record) []server.Record {
		for _, s := range [...]server.Section{server.Answer, server.Additional} {
			b.arrange(section(rrs, s))
		}
		return rrs
	})
	if err != nil {
		r.Fault(err)
	}
}

// section is the part of rrs that belongs to s.
func section(rrs []server.Record, s server.Section) []server.Record {
	from := slices.IndexFunc(rrs, func(rr server.Record) bool { return rr.Section == s })
	if from < 0 {
		return nil
	}
	to := from
	for to < len(rrs) && rrs[to].Section == s {
		to++
	}
	return rrs[from:to]
}

// arrange orders the records of one section: CNAMEs first, for stub resolvers that need it, and then each kind within the places that it has.
func (b *Balance) arrange(rrs []server.Record) {
	slices.SortStableFunc(rrs, func(x, y server.Record) int { return cmp.Compare(late(x.Type), late(y.Type)) })
	if b.opts.File == "" {
		within(rrs, wire.TypeMX, wire.TypeMX, shuffle)
	} else {
		within(rrs, wire.TypeA, wire.TypeAAAA, b.pick)
	}
	if len(b.opts.Prefer) > 0 {
		within(rrs, wire.TypeA, wire.TypeAAAA, b.prefer)
	}
}

func late(t wire.Type) int {
	if t == wire.TypeCNAME || t == wire.TypeDNAME {
		return 0
	}
	return 1
}

// within lets f order the records of two types, which take the places that records of these types had.
func within(rrs []server.Record, t, or wire.Type, f func([]server.Record)) {
	var places []int
	var some []server.Record
	for i := range rrs {
		if rrs[i].Type == t || rrs[i].Type == or {
			places, some = append(places, i), append(some, rrs[i])
		}
	}
	if len(some) < 2 {
		return
	}
	f(some)
	for i, p := range places {
		rrs[p] = some[i]
	}
}

func shuffle(rrs []server.Record) {
	rand.Shuffle(len(rrs), func(i, j int) { rrs[i], rrs[j] = rrs[j], rrs[i] })
}

// pick moves one address to the front, each as likely as its share of the weights, and leaves the order of the others.
func (b *Balance) pick(rrs []server.Record) {
	w := b.weights.Load()
	total := 0
	for i := range rrs {
		total += w.of(&rrs[i])
	}
	n := rand.IntN(total)
	for i := range rrs {
		if n -= w.of(&rrs[i]); n < 0 {
			first := rrs[i]
			copy(rrs[1:i+1], rrs[:i])
			rrs[0] = first
			return
		}
	}
}

// prefer moves the addresses of preferred networks to the front, network by network.
func (b *Balance) prefer(rrs []server.Record) {
	slices.SortStableFunc(rrs, func(x, y server.Record) int { return cmp.Compare(b.rank(&x), b.rank(&y)) })
}

// rank is the index of the first preferred network that the address is in.
func (b *Balance) rank(rr *server.Record) int {
	a, _ := netip.AddrFromSlice(rr.Data)
	for i, p := range b.opts.Prefer {
		if p.Contains(a) {
			return i
		}
	}
	return len(b.opts.Prefer)
}

// weights are those of addresses by the name that they stand under. nil has none.
type weights map[wire.Canonical]map[netip.Addr]int

// of is the weight of an address record: 1 if the file has none.
func (w *weights) of(rr *server.Record) int {
	if w == nil || len(*w) == 0 {
		return 1
	}
	owner := bytes.Clone(rr.Owner)
	wire.Fold(owner)
	a, _ := netip.AddrFromSlice(rr.Data)
	return max((*w)[wire.Canonical(owner)][a], 1)
}
