package acl

import (
	"net/netip"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/plugin/internal/metrics"
	"github.com/clusterdns/clusterdns/plugin/internal/zones"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Metrics are the directive's counters.
type Metrics struct {
	allowed *prometheus.CounterVec
	others  [Drop + 1]*prometheus.CounterVec // by action; none for Allow
}

// NewMetrics makes them and registers them, once per process.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return metrics.Register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "coredns_acl_" + name + "_requests_total", Help: help}, labels))
	}
	m := &Metrics{allowed: vec("allowed", "Queries that acl let pass.", "server", "view")}
	m.others[Block] = vec("blocked", "Queries that acl answered with REFUSED.", "server", "zone", "view")
	m.others[Filter] = vec("filtered", "Queries that acl answered with nothing.", "server", "zone", "view")
	m.others[Drop] = vec("dropped", "Queries that acl did not answer.", "server", "zone", "view")
	return m
}

// counters are those of one server block.
type counters struct {
	allowed prometheus.Counter
	others  [Drop + 1]map[wire.Zone]prometheus.Counter
}

// ACL judges queries by all acl directives of a server block.
//
// It stands in the chain twice. The handler itself stands before everything that changes what is looked for, and judges the name that the
// client asked. Final stands behind rewrite and autopath and before all that answers, the cache included, and judges the name
// that came of it. The target of a CNAME restarts the chain, and questions of a handler's own run through its rest on behalf
// of the client, so both are judged as well.
type ACL struct {
	rules   []rule
	metrics *Metrics
	counts  metrics.PerBlock[*counters]
}

type rule struct {
	zones    zones.Set
	policies []matcher
}

// matcher is a Policy made ready for looking up.
type matcher struct {
	Policy
	lengths [2][]int // the prefix lengths of IPv4 and of IPv6
	nets    map[netip.Prefix]bool
}

// New makes the handler of all acl directives of a server block, in their order. m may be nil.
func New(all []Options, m *Metrics) *ACL {
	h := &ACL{metrics: m}
	for _, o := range all {
		ru := rule{zones: o.Zones}
		for _, p := range o.Policies {
			ru.policies = append(ru.policies, newMatcher(p))
		}
		h.rules = append(h.rules, ru)
	}
	h.counts.Resolve = h.resolve
	return h
}

func newMatcher(p Policy) matcher {
	m := matcher{Policy: p, nets: map[netip.Prefix]bool{}}
	for _, n := range p.Nets {
		m.nets[n] = true
		if f := &m.lengths[family(n.Addr())]; !slices.Contains(*f, n.Bits()) {
			*f = append(*f, n.Bits())
		}
	}
	return m
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

func (m *matcher) matches(q *server.Query, client netip.Addr) bool {
	if len(m.Types) > 0 && !slices.Contains(m.Types, q.Type) {
		return false
	}
	if len(m.Nets) == 0 {
		return true
	}
	for _, bits := range m.lengths[family(client)] {
		if p, err := client.Prefix(bits); err == nil && m.nets[p] {
			return true
		}
	}
	return false
}

func (h *ACL) resolve(b *server.Block) *counters {
	c := &counters{allowed: h.metrics.allowed.WithLabelValues(b.Server, b.View)}
	for a := Block; a <= Drop; a++ {
		c.others[a] = map[wire.Zone]prometheus.Counter{}
		for _, ru := range h.rules {
			for _, z := range ru.zones {
				c.others[a][z] = h.metrics.others[a].WithLabelValues(b.Server, z.String(), b.View)
			}
		}
	}
	return c
}

// judge gives the action of the first line that is for the query, and the zone that it was found by.
func (h *ACL) judge(q *server.Query) (Action, wire.Zone) {
	client := q.Client.Addr().Unmap()
	for i := range h.rules {
		ru := &h.rules[i]
		z, _, ok := ru.zones.Find(&q.Name)
		if !ok {
			continue
		}
		for k := range ru.policies {
			if m := &ru.policies[k]; m.matches(q, client) {
				return m.Action, z
			}
		}
	}
	return Allow, wire.Zone{}
}

// Answer judges what the client asked.
func (h *ACL) Answer(r *server.Reply, q *server.Query) server.Verdict {
	a, zone := h.judge(q)
	if a == Allow && h.metrics != nil && !q.Followed() {
		h.counts.Of(q).allowed.Inc()
	}
	return h.act(r, q, a, zone)
}

func (h *ACL) act(r *server.Reply, q *server.Query, a Action, zone wire.Zone) server.Verdict {
	if a == Allow {
		return server.Pass
	}
	if h.metrics != nil {
		h.counts.Of(q).others[a][zone].Inc()
	}
	switch a {
	case Block:
		r.SetRCode(wire.RCodeRefused)
		r.AddEDE(server.EDEBlocked, "")
	case Filter:
		r.AddEDE(server.EDEFiltered, "")
	case Drop:
		return server.Drop
	}
	return server.Done
}

// Final is the second place in the chain, for what the query has become.
func (h *ACL) Final() server.Handler { return final{h} }

type final struct{ *ACL }

// Answer judges what is looked for unless that is still what was asked, and so judged before.
func (f final) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if q.Transport != server.Internal && q.Type == q.QuestionType() && asked(q) {
		return server.Pass
	}
	a, zone := f.judge(q)
	return f.act(r, q, a, zone)
}

// asked says whether the name that is looked for is the question's.
func asked(q *server.Query) bool {
	question := q.Question()
	var b [wire.MaxName]byte
	name := b[:copy(b[:], question[:len(question)-4])]
	wire.Fold(name)
	return string(name) == string(q.Name.Folded())
}
