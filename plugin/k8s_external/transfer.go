package k8sexternal

import (
	"iter"
	"net/netip"
	"strings"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// TransferZone gives what a transfer of a zone consists of (see transfer): its serial and all records, the SOA record first and once. It asks
// the handler itself for every name that there is, so that a transfer says what answers say. Reverse zones cannot be transferred.
func (e *External) TransferZone(origin wire.Zone) (all iter.Seq[server.Record], serial uint32, ok bool) {
	if !e.has(origin) || strings.HasSuffix("."+origin.String(), ".arpa.") || !e.cluster.Ready() {
		return nil, 0, false
	}
	return func(yield func(server.Record) bool) {
		b := &server.Block{Zone: origin, ZoneName: origin.String(), Chain: []server.Stage{{Name: "k8s_external", Handler: e}}}
		w := &walk{origin, server.New(server.DefaultLimits(), server.Hooks{}).Direct([]*server.Block{b}), yield, true}
		w.ask(wire.TypeSOA)
		w.ask(wire.TypeNS)
		w.addrs("ns1", e.o.Apex)
		for _, ns := range e.cluster.NamespaceNames() {
			for _, name := range e.cluster.ServiceNames(ns) {
				if s, known := e.cluster.ExternalService(ns, name); known && w.more {
					w.service(ns, name, &s)
				}
			}
		}
	}, e.cluster.Serial(), true
}

func (e *External) has(origin wire.Zone) bool {
	for _, z := range e.o.Zones {
		if z == origin {
			return true
		}
	}
	return false
}

// walk is one transfer.
type walk struct {
	origin wire.Zone
	direct *server.Direct
	yield  func(server.Record) bool
	more   bool
}

// ask yields the records of one type of a name under the zone.
func (w *walk) ask(t wire.Type, labels ...string) {
	name := strings.Join(append(labels, w.origin.String()), ".")
	b, err := wire.ParseName(strings.Replace(name, "..", ".", 1)) // the root zone has no labels of its own
	if err != nil || !w.more {
		return
	}
	msg := append(make([]byte, wire.HeaderLen, 64), b...)
	msg = append(msg, byte(t>>8), byte(t), 0, byte(wire.ClassIN))
	wire.PutHeader(msg, wire.Header{QDCount: 1})
	reply, _ := w.direct.Answer(msg, netip.AddrPortFrom(netip.IPv6Loopback(), 0), server.TCP)
	rrs, err := server.Records(reply)
	if err != nil {
		return
	}
	for _, rr := range rrs {
		if rr.Section == server.Answer && rr.Type == t && w.more {
			w.more = w.yield(rr)
		}
	}
}

func (w *walk) addrs(labels ...string) {
	w.ask(wire.TypeA, labels...)
	w.ask(wire.TypeAAAA, labels...)
}

// service yields what a Service has: its addresses, SRV records of its named ports, and the names of a headless one's endpoints.
func (w *walk) service(namespace, name string, s *Service) {
	w.addrs(name, namespace)
	ports := s.Ports
	seen := map[string]bool{}
	for _, e := range s.Endpoints {
		if !s.Headless || len(s.Addrs) > 0 {
			break
		}
		ports = append(ports, e.Ports...)
		if !seen[e.Host] {
			seen[e.Host] = true
			w.addrs(e.Host, name, namespace)
		}
	}
	for _, p := range ports {
		if key := "_" + p.Name + "._" + p.Protocol; p.Name != "" && !seen[key] {
			seen[key] = true
			w.ask(wire.TypeSRV, "_"+p.Name, "_"+p.Protocol, name, namespace)
		}
	}
}
