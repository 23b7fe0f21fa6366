package kubernetes_test

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server/servertest"
)

// TestNoAllocs holds the common answers to no memory at all, with and without EDNS.
func TestNoAllocs(t *testing.T) { //nolint:paralleltest // it counts allocations of the whole process
	k := cluster(t, "cluster.local in-addr.arpa ip6.arpa\npods verified\nzonal", ports+"---"+pods+"---"+unready+`
---
apiVersion: v1
kind: Service
metadata: {name: dual, namespace: prod}
spec: {clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7, "fd00::7"], ports: [{name: http, port: 80}, {name: https, port: 443}]}
`)
	b := block(k, nil)
	b.Options.Shuffle = true
	for _, q := range []struct {
		name string
		typ  uint16
	}{
		{"web.prod.svc.cluster.local.", dns.TypeA},
		{"WEB.prod.svc.Cluster.Local.", dns.TypeA},
		{"web.prod.svc.cluster.local.", dns.TypeAAAA}, // NODATA
		{"web.prod.svc.cluster.local.", dns.TypeSRV},
		{"_http._tcp.dual.prod.svc.cluster.local.", dns.TypeSRV},
		{"dual.prod.svc.cluster.local.", dns.TypeAAAA},
		{"db.prod.svc.cluster.local.", dns.TypeA},
		{"db.prod.svc.cluster.local.", dns.TypeSRV},
		{"db-0.db.prod.svc.cluster.local.", dns.TypeA},
		{"10-0-0-3.db.prod.svc.cluster.local.", dns.TypeA},
		{"_sql._tcp.db.prod.svc.cluster.local.", dns.TypeSRV},
		{"1.0.96.10.in-addr.arpa.", dns.TypePTR},
		{"2.0.0.10.in-addr.arpa.", dns.TypePTR},
		{"9.9.9.9.in-addr.arpa.", dns.TypePTR}, // NXDOMAIN
		{"7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa.", dns.TypePTR},
		{"10-0-0-1.prod.pod.cluster.local.", dns.TypeA},
		{"10-0-0-7.prod.pod.cluster.local.", dns.TypeA},           // NXDOMAIN
		{"nosuch.prod.svc.cluster.local.", dns.TypeA},             // NXDOMAIN
		{"www.example.com.prod.svc.cluster.local.", dns.TypeAAAA}, // NXDOMAIN, as search paths ask
		{"www.example.com.svc.cluster.local.", dns.TypeA},         // NXDOMAIN
		{"www.example.com.cluster.local.", dns.TypeA},             // NXDOMAIN
		{"prod.svc.cluster.local.", dns.TypeA},                    // NODATA
		{"cluster.local.", dns.TypeSOA},
		{"dns-version.cluster.local.", dns.TypeTXT},
	} {
		for _, edns := range []uint16{0, 1232} {
			servertest.NoAllocs(t, servertest.Query(q.name, q.typ, edns), b)
		}
	}
}
