package kubernetes_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// large is a cluster of 8,000 Services with a few endpoints each, and one headless Service of 100.
func large(b *testing.B) *kubernetes.Kubernetes {
	b.Helper()
	k := kubernetes.New(options(b, "cluster.local in-addr.arpa"), nil, kubernetes.Deps{})
	sync(k, &kubernetes.Namespace{Name: "load"})
	for i := range 8000 {
		name := fmt.Sprintf("service-%d", i)
		k.Apply(&kubernetes.Service{
			Namespace: "load", Name: name, ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})},
			Ports: []kubernetes.Port{{Name: "http", Number: 80}},
		})
	}
	k.Apply(&kubernetes.Service{Namespace: "load", Name: "big", Headless: true})
	s := &kubernetes.EndpointSlice{Namespace: "load", Name: "big", Service: "big", Ports: []kubernetes.Port{{Name: "http", Number: 80}}}
	for i := range 100 {
		s.Endpoints = append(s.Endpoints, kubernetes.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), Ready: true})
	}
	k.Apply(s)
	return k
}

// BenchmarkAnswer is the whole way of a query but for the sockets, over names that do not stay in the processor's cache.
func BenchmarkAnswer(b *testing.B) {
	k := large(b)
	for _, c := range []struct {
		name  string
		query string // with %d for a number below 8000
		typ   uint16
	}{
		{"A", "service-%d.load.svc.cluster.local.", dns.TypeA},
		{"AAAA-NODATA", "service-%d.load.svc.cluster.local.", dns.TypeAAAA},
		{"SRV", "_http._tcp.service-%d.load.svc.cluster.local.", dns.TypeSRV},
		{"PTR", "%d.96.10.in-addr.arpa.", dns.TypePTR},
		{"NXDOMAIN", "www-%d.example.com.load.svc.cluster.local.", dns.TypeA},
		{"headless-100", "big.load.svc.cluster.local.", dns.TypeA},
	} {
		b.Run(c.name, func(b *testing.B) {
			blk := block(k, nil)
			blk.Options.Shuffle = true
			d := servertest.Direct(blk)
			queries := make([][]byte, 8000)
			for i := range queries {
				name := c.query
				switch {
				case c.typ == dns.TypePTR:
					name = fmt.Sprintf("%d.%d.96.10.in-addr.arpa.", i&0xFF, i>>8)
				case name != "big.load.svc.cluster.local.":
					name = fmt.Sprintf(c.query, i)
				}
				queries[i] = servertest.Pack(b, servertest.Query(name, c.typ, 0))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				d.Answer(queries[i*2654435761%8000], servertest.Client, server.TCP)
			}
		})
	}
}

// BenchmarkEndpointChange is one endpoint of a Service of 100 becoming ready or not.
func BenchmarkEndpointChange(b *testing.B) {
	k := large(b)
	s := &kubernetes.EndpointSlice{Namespace: "load", Name: "big", Service: "big", Ports: []kubernetes.Port{{Name: "http", Number: 80}}}
	for i := range 100 {
		s.Endpoints = append(s.Endpoints, kubernetes.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), Ready: true})
	}
	b.ReportAllocs()
	for i := range b.N {
		s.Endpoints[i%100].Ready = !s.Endpoints[i%100].Ready
		k.Apply(s)
	}
}
