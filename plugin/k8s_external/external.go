package k8sexternal

import (
	"errors"
	"net/netip"

	"github.com/clusterdns/clusterdns/plugin/internal/zones"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Cluster is what the directive needs to know of a cluster. Names are in lower case. Its methods are called concurrently and must not wait;
// what they give is not changed.
type Cluster interface {
	// Ready says whether the cluster's objects have been read. Before that nothing is known not to exist.
	Ready() bool
	// HasNamespace says whether a namespace exists and is one of those that are answered for.
	HasNamespace(name string) bool
	// ExternalService gives what a Service has outside the cluster.
	ExternalService(namespace, name string) (s Service, exists bool)
	// NamespaceNames gives the namespaces that are answered for, and ServiceNames the Services in one: transfers go through them.
	NamespaceNames() []string
	ServiceNames(namespace string) []string
	// ExternalServicesAt gives the Services that have an address outside the cluster.
	ExternalServicesAt(addr netip.Addr) []ServiceName
	// ExternalServers gives the addresses outside the cluster of the Service that this server is behind.
	ExternalServers() []netip.Addr
	// Serial moves whenever anything changes.
	Serial() uint32
	// Staleness is why the objects may not be the cluster's current ones, for clients, or "" if they are.
	Staleness() string
}

// ServiceName is where a Service is.
type ServiceName struct{ Namespace, Name string }

// Service is what a Service has outside the cluster.
type Service struct {
	Addrs     []netip.Addr // external IPs and those of its load balancer
	Ports     []Port
	Headless  bool
	Endpoints []Endpoint // only looked at with the headless option
}

// Port is a port of a Service or an endpoint. Name is "" for an unnamed one; Protocol is tcp, udp or sctp.
type Port struct {
	Name, Protocol string
	Number         uint16
}

// Endpoint is one address of an endpoint.
type Endpoint struct {
	Host  string // its label under the Service's name
	Addr  netip.Addr
	Ports []Port
}

// errNotReady is why names fail before the cluster is known.
var errNotReady = errors.New("k8s_external: the cluster's objects have not been read yet")

// External answers for the zones of Options.
type External struct {
	o       Options
	cluster Cluster
}

// New makes the handler.
func New(o Options, c Cluster) *External { return &External{o, c} }

// Answer answers for names in the zones, and for reverse names of external addresses.
func (e *External) Answer(r *server.Reply, q *server.Query) server.Verdict {
	zone, labels, ok := e.o.Zones.Find(&q.Name)
	if !ok || q.Class != wire.ClassIN && q.Class != wire.ClassANY {
		return server.Pass
	}
	if !e.cluster.Ready() {
		r.AddEDE(server.EDENotReady, "")
		return r.Fail(errNotReady)
	}
	a := asked{External: e, r: r, q: q, zone: zone, labels: labels}
	v := a.answer()
	if why := e.cluster.Staleness(); why != "" && v != server.Pass {
		r.MarkStale(why)
	}
	return v
}

// asked is one question.
type asked struct {
	*External
	r      *server.Reply
	q      *server.Query
	zone   wire.Zone
	labels int // in front of the zone
}

func (a *asked) answer() server.Verdict {
	if addr, ok := zones.Address(&a.q.Name); ok && (a.labels > 0 || a.q.Type == wire.TypePTR) { // a zone may be of one address
		return a.reverse(addr)
	}
	switch {
	case a.labels == 0:
		return a.apex()
	case string(a.q.Name.Label(a.labels-1)) == a.o.Apex:
		return a.servers()
	}
	return a.service()
}

// nothing ends a reply without records for the type: the name exists or does not.
func (a *asked) nothing(exists bool) server.Verdict {
	if !exists {
		if a.o.Fallthrough.For(&a.q.Name) {
			return server.Pass
		}
		a.r.SetRCode(wire.RCodeNXDomain)
	}
	a.r.SetAA()
	a.soa(server.Authority)
	return server.Done
}

// done is nothing if there is no answer.
func (a *asked) done(before int) server.Verdict {
	if a.r.Count(server.Answer) == before {
		return a.nothing(true)
	}
	a.r.SetAA()
	return server.Done
}

// below is a name under the zone.
func (a *asked) below(labels ...string) []byte {
	var out []byte
	for _, l := range labels {
		out = append(append(out, byte(len(l))), l...)
	}
	return append(out, a.zone.Name()...)
}

// soa is the zone's start of authority. Nothing transfers it by its timers, which are those of CoreDNS's documentation.
func (a *asked) soa(s server.Section) {
	a.r.SOA(s, []byte(a.zone.Name()), a.o.TTL, &server.SOA{
		MName: a.below("ns1", a.o.Apex), RName: a.below("hostmaster"), Serial: a.cluster.Serial(),
		Refresh: 14400, Retry: 3600, Expire: 604800, Negative: a.o.TTL,
	})
}

// apex answers for the zone's own name.
func (a *asked) apex() server.Verdict {
	before := a.r.Count(server.Answer)
	switch a.q.Type {
	case wire.TypeSOA:
		a.soa(server.Answer)
	case wire.TypeNS:
		a.r.Begin(server.Answer, server.Owner, wire.TypeNS, a.o.TTL)
		ref := a.r.PutName(a.below("ns1", a.o.Apex))
		a.r.End()
		for _, addr := range a.cluster.ExternalServers() {
			a.r.Addr(server.Additional, ref, a.o.TTL, addr)
		}
	}
	return a.done(before)
}

// servers answers for names under the apex label: ns1 is the one there is.
func (a *asked) servers() server.Verdict {
	if a.labels == 1 {
		return a.nothing(true)
	}
	if a.labels > 2 || string(a.q.Name.Label(0)) != "ns1" {
		return a.nothing(false)
	}
	before := a.r.Count(server.Answer)
	a.addrs(a.cluster.ExternalServers())
	return a.done(before)
}

// addrs answers with the addresses of the family that is asked for, each once.
func (a *asked) addrs(all []netip.Addr) {
	for _, i := range a.r.Order(len(all)) {
		addr := all[i]
		if !wanted(addr, a.q.Type) || contains(all[:i], addr) {
			continue
		}
		a.r.Addr(server.Answer, server.Owner, a.o.TTL, addr)
	}
}

func wanted(addr netip.Addr, t wire.Type) bool {
	return addr.Is4() && t == wire.TypeA || addr.Is6() && t == wire.TypeAAAA
}

func contains(all []netip.Addr, addr netip.Addr) bool {
	for _, a := range all {
		if a == addr {
			return true
		}
	}
	return false
}

// reverse answers for the reverse name of an external address.
func (a *asked) reverse(addr netip.Addr) server.Verdict {
	names := a.cluster.ExternalServicesAt(addr)
	if len(names) == 0 || a.q.Type != wire.TypePTR {
		return a.nothing(len(names) > 0) // NXDOMAIN for another type would deny the PTR record as well (RFC 2308 5)
	}
	zone := a.zone
	a.zone = a.o.Primary
	for _, n := range names {
		a.r.PTR(server.Owner, a.o.TTL, a.below(n.Name, n.Namespace))
	}
	a.zone = zone
	a.r.SetAA()
	return server.Done
}
