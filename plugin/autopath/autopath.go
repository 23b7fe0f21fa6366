package autopath

import (
	"context"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/plugin/internal/metrics"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Pods knows which Pod a client is.
type Pods interface {
	// PodAt gives the one Pod that has an address. known is false when no Pod has it, and when more than one has, as those on a node's
	// network do: nobody can tell then whose search list it is. It must not wait.
	PodAt(addr netip.Addr) (namespace, name string, known bool)
}

// Source is where search lists come from: either a fixed List, or Pods with the zones of their cluster.
type Source struct {
	Pods  Pods
	Zones []wire.Zone
	// List is the search list of all clients, or what Pods have behind the cluster's domains: the search list of their node.
	List []wire.Canonical
}

// Metrics is the directive's counter.
type Metrics struct{ success *prometheus.CounterVec }

// NewMetrics makes it and registers it, once per process.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	return &Metrics{metrics.Register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "coredns_autopath_success_total", Help: "Queries that were answered by a name further down the client's search list."}, []string{"server"}))}
}

// AutoPath answers queries for names that clients completed by the first domain of their search list.
type AutoPath struct {
	o       Options
	from    Source
	metrics *Metrics
	counts  metrics.PerBlock[prometheus.Counter]
}

// New makes the handler. m may be nil.
func New(o Options, from Source, m *Metrics) *AutoPath {
	h := &AutoPath{o: o, from: from, metrics: m}
	h.counts.Resolve = func(b *server.Block) prometheus.Counter { return m.success.WithLabelValues(b.Server) }
	return h
}

// Answer says Wait for names that end with the first domain of the client's search list, and passes all others.
func (h *AutoPath) Answer(_ *server.Reply, q *server.Query) server.Verdict {
	if q.Transport == server.Internal || q.Followed() || !h.o.Zones.Contains(&q.Name) {
		return server.Pass
	}
	var mine bool
	if h.from.Pods == nil {
		mine = len(h.from.List) > 0 && completed(&q.Name, h.from.List[0]) > 0
	} else {
		mine = h.ofPod(q)
	}
	if mine {
		return server.Wait
	}
	return server.Pass
}

// ofPod says whether the name ends with NAMESPACE.svc.ZONE, and the client is one Pod of that namespace.
func (h *AutoPath) ofPod(q *server.Query) bool {
	for _, z := range h.from.Zones {
		labels, ok := q.Name.Cut(z)
		if !ok {
			continue
		}
		if labels < 3 || string(q.Name.Label(labels-1)) != "svc" {
			return false
		}
		namespace, _, known := h.from.Pods.PodAt(q.Client.Addr().Unmap())
		return known && string(q.Name.Label(labels-2)) == namespace
	}
	return false
}

// completed is how many labels stand before a domain at the end of a name, 0 if it does not stand there.
func completed(n *wire.Name, domain wire.Canonical) int {
	labels, _ := n.Cut(wire.NewZone(domain))
	return labels
}

// list is the search list of a client whose query Answer said Wait to, its first domain included, the root at its end.
func (h *AutoPath) list(q *server.Query) []wire.Canonical {
	var out []wire.Canonical
	for _, z := range h.from.Zones {
		if labels, ok := q.Name.Cut(z); ok && h.from.Pods != nil {
			out = append(out, wire.Canonical(q.Name.Suffix(labels-2)), wire.Canonical(q.Name.Suffix(labels-1)))
			if z.Labels() > 0 {
				out = append(out, z.Name())
			}
			break
		}
	}
	return append(append(out, h.from.List...), wire.Root)
}

// found is a name of the search list that exists.
type found struct {
	name  []byte
	reply *server.Packed
}

// AwaitAnswer asks the handlers behind for the name under each domain of the list until one exists.
func (h *AutoPath) AwaitAnswer(ctx context.Context, r *server.Reply, q *server.Query) server.Verdict {
	list := h.list(q)
	labels := completed(&q.Name, list[0])
	base := q.Name.Bytes()[:q.Name.Offset(labels)]
	var first *server.Packed
	for i, domain := range list {
		if len(base)+len(domain) > wire.MaxName {
			continue
		}
		f := found{name: append(append([]byte(nil), base...), domain...)}
		if i == 0 {
			f.name = q.Name.Bytes()
		}
		f.reply = h.ask(ctx, q, f.name, q.Type)
		if first == nil {
			first = f.reply
		}
		if f.reply.RCode() == wire.RCodeNXDomain && !h.otherFamily(ctx, q, &f) {
			continue
		}
		if i == 0 {
			break // what the client asked for is there; or it failed, which says nothing about the other domains
		}
		if h.metrics != nil {
			h.counts.Of(q).Inc()
		}
		return answer(r, &f)
	}
	return pass(r, first)
}

func (h *AutoPath) ask(ctx context.Context, q *server.Query, name []byte, t wire.Type) *server.Packed {
	return q.Rest().Exchange(ctx, q.OnBehalf(name, t))
}

// otherFamily asks for the addresses of the other family of a name that is said not to exist: there are servers that say so of names that
// have no addresses of one family. A client gets the same name for both of its questions then.
func (h *AutoPath) otherFamily(ctx context.Context, q *server.Query, f *found) bool {
	var t wire.Type
	switch q.Type {
	case wire.TypeA:
		t = wire.TypeAAAA
	case wire.TypeAAAA:
		t = wire.TypeA
	default:
		return false
	}
	p := h.ask(ctx, q, f.name, t)
	return p.RCode() == wire.RCodeNoError && len(p.Msg) > 0 && p.Msg[6]|p.Msg[7] != 0
}

// pass gives the client the reply to the very name that it asked for.
func pass(r *server.Reply, p *server.Packed) server.Verdict {
	note(r, p)
	if err := r.Splice(p.Msg, server.Splice{Flags: wire.FlagAA | wire.FlagRA | wire.FlagAD}); err != nil {
		return r.Fail(err)
	}
	return server.Done
}

// answer gives the client the reply to another name, behind a CNAME that leads there.
func answer(r *server.Reply, f *found) server.Verdict {
	note(r, f.reply)
	rrs, err := server.Records(f.reply.Msg)
	if err != nil {
		return r.Fail(err)
	}
	ttl := uint32(0)
	if len(rrs) > 0 {
		ttl = rrs[0].TTL
	}
	r.CNAME(server.Owner, ttl, f.name)
	for i := range rrs {
		r.Record(&rrs[i])
	}
	r.SetFlags(wire.Flags(uint16(f.reply.Msg[2])<<8|uint16(f.reply.Msg[3])) & (wire.FlagAA | wire.FlagRA))
	if rc := f.reply.RCode(); rc != wire.RCodeNXDomain {
		r.SetRCode(rc)
	}
	return server.Done
}

// note takes over what went wrong on the way to a reply of our own.
func note(r *server.Reply, p *server.Packed) {
	for _, err := range p.Faults {
		r.Fault(err)
	}
	for _, e := range p.EDE {
		r.AddEDE(e.Code, e.Text)
	}
}
