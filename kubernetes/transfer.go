package kubernetes

import (
	"iter"
	"net/netip"
	"slices"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// TransferZone gives what a transfer of a zone consists of: its serial and all records, the SOA record first and once. It asks the
// handler itself for every name that there is, so that a transfer says what answers say. Pods, whose names anybody can make up, are
// left out. ok is false for reverse zones, for zones of others, and before the cluster is known. It allocates much.
func (k *Kubernetes) TransferZone(origin wire.Zone) (all iter.Seq[server.Record], serial uint32, ok bool) {
	if !slices.Contains(k.zones, origin) || isReverse(origin) || !k.Ready() {
		return nil, 0, false
	}
	return func(yield func(server.Record) bool) {
		w := newWalk(k, origin, yield)
		w.apex()
		for _, ns := range k.NamespaceNames() {
			for _, name := range k.ServiceNames(ns) {
				if !w.more {
					return
				}
				w.service(ns, name)
			}
		}
	}, k.Serial(), true
}

// walk is one transfer.
type walk struct {
	k      *Kubernetes
	origin wire.Zone
	direct *server.Direct
	yield  func(server.Record) bool
	more   bool
}

func newWalk(k *Kubernetes, origin wire.Zone, yield func(server.Record) bool) *walk {
	b := &server.Block{Zone: origin, ZoneName: origin.String(), Chain: []server.Stage{{Name: "kubernetes", Handler: k}}}
	return &walk{k, origin, server.New(server.DefaultLimits(), server.Hooks{}).Direct([]*server.Block{b}), yield, true}
}

// ask yields the records of one name and type.
func (w *walk) ask(labels string, t wire.Type) {
	msg := append(make([]byte, wire.HeaderLen, 64), labels...)
	msg = append(msg, w.origin.Name()...)
	msg = append(msg, byte(t>>8), byte(t), 0, byte(wire.ClassIN))
	wire.PutHeader(msg, wire.Header{QDCount: 1})
	name := string(msg[wire.HeaderLen : len(msg)-4])
	reply, _ := w.direct.Answer(msg, netip.AddrPortFrom(netip.IPv6Loopback(), 0), server.TCP)
	rrs, err := server.Records(reply)
	if err != nil {
		return
	}
	for _, rr := range rrs {
		// What follows a CNAME is another name's, and comes when that is asked for.
		if rr.Section == server.Answer && rr.Type == t && string(rr.Owner) == name && w.more {
			w.more = w.yield(rr)
		}
	}
}

// apex yields what the zone itself has, and the addresses of its servers.
func (w *walk) apex() {
	w.ask("", wire.TypeSOA)
	w.ask("", wire.TypeNS)
	w.addrs("\x02ns\x03dns")
	w.ask("\x0bdns-version", wire.TypeTXT)
}

func (w *walk) addrs(labels string) {
	w.ask(labels, wire.TypeA)
	w.ask(labels, wire.TypeAAAA)
}

// service yields what a Service has: a CNAME or addresses, SRV records of its named ports, and the names of a headless one's endpoints.
func (w *walk) service(namespace, name string) {
	base, ok := wireLabels(name)
	if !ok {
		return
	}
	ns, ok := wireLabels(namespace)
	if !ok {
		return
	}
	base += ns + "\x03svc"
	w.ask(base, wire.TypeCNAME)
	w.addrs(base)
	v, _ := w.k.ExternalService(namespace, name)
	ports := v.Ports
	seen := map[string]bool{}
	for _, e := range v.Endpoints {
		if !v.Headless {
			break // their names are answered, but nothing leads to them
		}
		ports = append(ports, e.Ports...)
		if host, ok := wireLabels(e.Host); ok && !seen[e.Host] {
			seen[e.Host] = true
			w.addrs(host + base)
		}
	}
	for _, p := range ports {
		labels := "_" + p.Name + "._" + p.Protocol.String()
		if l, ok := wireLabels(labels); ok && p.Name != "" && !seen[labels] {
			seen[labels] = true
			w.ask(l+base, wire.TypeSRV)
		}
	}
}
