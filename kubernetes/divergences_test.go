package kubernetes_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// unready is D1: a Service that publishes addresses that are not ready, with slices as controllers and as people write them.
const unready = `
apiVersion: v1
kind: Service
metadata: {name: peers, namespace: prod}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  ports: [{name: peer, port: 7000}]
---
apiVersion: v1
kind: Service
metadata: {name: strict, namespace: prod}
spec: {clusterIP: None, ports: [{name: peer, port: 7000}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: peers-1, namespace: prod, labels: {kubernetes.io/service-name: peers}}
addressType: IPv4
ports: [{name: peer, port: 7000, protocol: TCP}]
endpoints:
- {addresses: [10.0.0.1], hostname: p0, conditions: {ready: true}}
- {addresses: [10.0.0.2], hostname: p1, conditions: {ready: false}}
- {addresses: [10.0.0.3], conditions: {ready: false, serving: true, terminating: true}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: strict-1, namespace: prod, labels: {kubernetes.io/service-name: strict}}
addressType: IPv4
ports: [{name: peer, port: 7000, protocol: TCP}]
endpoints:
- {addresses: [10.0.0.1], hostname: p0, conditions: {ready: true}}
- {addresses: [10.0.0.2], hostname: p1, conditions: {ready: false}}
`

func TestD1PublishNotReady(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, block(cluster(t, "cluster.local in-addr.arpa", unready), nil))
	check(t, s, map[string]string{
		"peers.prod.svc.cluster.local. A": `NOERROR aa
peers.prod.svc.cluster.local. 5 IN A 10.0.0.1
peers.prod.svc.cluster.local. 5 IN A 10.0.0.2
peers.prod.svc.cluster.local. 5 IN A 10.0.0.3`,
		"p1.peers.prod.svc.cluster.local. A":       "NOERROR aa\np1.peers.prod.svc.cluster.local. 5 IN A 10.0.0.2",
		"10-0-0-3.peers.prod.svc.cluster.local. A": "NOERROR aa\n10-0-0-3.peers.prod.svc.cluster.local. 5 IN A 10.0.0.3",
		"_peer._tcp.peers.prod.svc.cluster.local. SRV": `NOERROR aa
_peer._tcp.peers.prod.svc.cluster.local. 5 IN SRV 0 33 7000 10-0-0-3.peers.prod.svc.cluster.local.
_peer._tcp.peers.prod.svc.cluster.local. 5 IN SRV 0 33 7000 p0.peers.prod.svc.cluster.local.
_peer._tcp.peers.prod.svc.cluster.local. 5 IN SRV 0 33 7000 p1.peers.prod.svc.cluster.local.
+ 10-0-0-3.peers.prod.svc.cluster.local. 5 IN A 10.0.0.3
+ p0.peers.prod.svc.cluster.local. 5 IN A 10.0.0.1
+ p1.peers.prod.svc.cluster.local. 5 IN A 10.0.0.2`,
		"2.0.0.10.in-addr.arpa. PTR":          "NOERROR aa\n2.0.0.10.in-addr.arpa. 5 IN PTR p1.peers.prod.svc.cluster.local.",
		"strict.prod.svc.cluster.local. A":    "NOERROR aa\nstrict.prod.svc.cluster.local. 5 IN A 10.0.0.1",
		"p1.strict.prod.svc.cluster.local. A": nxdomain,
	})
}

// external has ExternalName Services of every sort.
const external = `
{"apiVersion": "v1", "kind": "List", "items": [
 {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "prod"}, "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]}},
 {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "out", "namespace": "prod"}, "spec": {"type": "ExternalName", "externalName": "www.Example.org"}},
 {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "gone", "namespace": "prod"}, "spec": {"type": "ExternalName", "externalName": "gone.example.org."}},
 {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "fails", "namespace": "prod"}, "spec": {"type": "ExternalName", "externalName": "fail.example.org"}},
 {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "in", "namespace": "prod"}, "spec": {"type": "ExternalName", "externalName": "web.prod.svc.cluster.local"}},
 {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "nowhere", "namespace": "prod"}, "spec": {"type": "ExternalName", "externalName": "no.prod.svc.cluster.local"}},
 {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "chain", "namespace": "prod"}, "spec": {"type": "ExternalName", "externalName": "out.prod.svc.cluster.local"}},
 {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "self", "namespace": "prod"}, "spec": {"type": "ExternalName", "externalName": "self.prod.svc.cluster.local"}},
 {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "ping", "namespace": "prod"}, "spec": {"type": "ExternalName", "externalName": "pong.prod.svc.cluster.local"}},
 {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "pong", "namespace": "prod"}, "spec": {"type": "ExternalName", "externalName": "ping.prod.svc.cluster.local"}},
 {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "number", "namespace": "prod"}, "spec": {"type": "ExternalName", "externalName": "192.0.2.1"}}
]}`

func TestExternalName(t *testing.T) {
	t.Parallel()
	world := next{"www.example.org. TXT": "hello", "www.example.org. MX": "x"}
	s := servertest.Start(t, block(cluster(t, "cluster.local", external), world))
	const rootSOA = "\n~ . 60 IN SOA . . 0 0 0 0 0"
	check(t, s, map[string]string{
		// D2: the target does not exist.
		"gone.prod.svc.cluster.local. A":    "NXDOMAIN aa\ngone.prod.svc.cluster.local. 5 IN CNAME gone.example.org." + rootSOA,
		"nowhere.prod.svc.cluster.local. A": "NXDOMAIN aa\nnowhere.prod.svc.cluster.local. 5 IN CNAME no.prod.svc.cluster.local." + soa,
		// D3: it exists without the type.
		"out.prod.svc.cluster.local. A":   "NOERROR aa\nout.prod.svc.cluster.local. 5 IN CNAME www.Example.org." + rootSOA,
		"in.prod.svc.cluster.local. AAAA": "NOERROR aa\nin.prod.svc.cluster.local. 5 IN CNAME web.prod.svc.cluster.local." + soa,
		"in.prod.svc.cluster.local. A":    "NOERROR aa\nin.prod.svc.cluster.local. 5 IN CNAME web.prod.svc.cluster.local.\nweb.prod.svc.cluster.local. 5 IN A 10.96.0.1",
		// D4: other types.
		"out.prod.svc.cluster.local. TXT": "NOERROR aa\nout.prod.svc.cluster.local. 5 IN CNAME www.Example.org.\nwww.Example.org. 60 IN TXT \"hello\"",
		"in.prod.svc.cluster.local. SRV": `NOERROR aa
in.prod.svc.cluster.local. 5 IN CNAME web.prod.svc.cluster.local.
web.prod.svc.cluster.local. 5 IN SRV 0 100 80 web.prod.svc.cluster.local.
+ web.prod.svc.cluster.local. 5 IN A 10.96.0.1`,
		"out.prod.svc.cluster.local. CNAME": "NOERROR aa\nout.prod.svc.cluster.local. 5 IN CNAME www.Example.org.",
		"out.prod.svc.cluster.local. ANY":   "NOERROR aa\nout.prod.svc.cluster.local. 5 IN CNAME www.Example.org.",
		// D5: the upstream fails.
		"fails.prod.svc.cluster.local. A": "SERVFAIL aa\nfails.prod.svc.cluster.local. 5 IN CNAME fail.example.org.",
		// D6: circles.
		"self.prod.svc.cluster.local. A": "SERVFAIL aa\nself.prod.svc.cluster.local. 5 IN CNAME self.prod.svc.cluster.local.",
		"ping.prod.svc.cluster.local. A": "SERVFAIL aa\nping.prod.svc.cluster.local. 5 IN CNAME pong.prod.svc.cluster.local.\npong.prod.svc.cluster.local. 5 IN CNAME ping.prod.svc.cluster.local.",
		// Chains are followed.
		"chain.prod.svc.cluster.local. TXT": `NOERROR aa
chain.prod.svc.cluster.local. 5 IN CNAME out.prod.svc.cluster.local.
out.prod.svc.cluster.local. 5 IN CNAME www.Example.org.
www.Example.org. 60 IN TXT "hello"`,
		// An address is no name, and nothing stands below an ExternalName Service.
		"number.prod.svc.cluster.local. A":         nxdomain,
		"x.out.prod.svc.cluster.local. A":          nxdomain,
		"_http._tcp.out.prod.svc.cluster.local. A": nxdomain,
	})
}

func TestD7ExternalNameFallsThrough(t *testing.T) {
	t.Parallel()
	world := next{"no.prod.svc.cluster.local. TXT": "from elsewhere"}
	s := servertest.Start(t, block(cluster(t, "cluster.local\nfallthrough", external), world))
	check(t, s, map[string]string{
		"nowhere.prod.svc.cluster.local. TXT": `NOERROR aa
no.prod.svc.cluster.local. 60 IN TXT "from elsewhere"
nowhere.prod.svc.cluster.local. 5 IN CNAME no.prod.svc.cluster.local.`,
	})
}

// ports has Services of both forms with ports, one slice of them twice, and an orphan slice.
const ports = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: prod}
spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}, {name: dns, port: 53, protocol: UDP}, {port: 9, protocol: SCTP}]}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: prod}
spec: {clusterIP: None, ports: [{name: sql, port: 3306}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, namespace: prod, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: sql, port: 3306, protocol: TCP}]
endpoints:
- {addresses: [10.0.0.1], hostname: db-0}
- {addresses: [10.0.0.2]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-2, namespace: prod, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: sql, port: 3306, protocol: TCP}]
endpoints:
- {addresses: [10.0.0.1], hostname: db-0}
- {addresses: [10.0.0.3]}
- {addresses: [10.0.0.4]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: lost, namespace: prod, labels: {kubernetes.io/service-name: no-such-service}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.60]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: unlabelled, namespace: prod}
addressType: IPv4
endpoints: [{addresses: [10.0.0.61]}]
`

func TestD8EmptyNonTerminals(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, block(cluster(t, "cluster.local\nzonal", ports), nil))
	check(t, s, map[string]string{
		"_tcp.web.prod.svc.cluster.local. A":       nodata,
		"_udp.web.prod.svc.cluster.local. SRV":     nodata,
		"_UDP.web.prod.svc.cluster.local. TXT":     nodata,
		"_sctp.web.prod.svc.cluster.local. A":      nxdomain, // its port has no name
		"_tcp.db.prod.svc.cluster.local. A":        nodata,
		"_udp.db.prod.svc.cluster.local. A":        nxdomain,
		"tcp.web.prod.svc.cluster.local. A":        nxdomain,
		"_zone.db.prod.svc.cluster.local. A":       nodata,
		"pin._zone.db.prod.svc.cluster.local. A":   nodata,
		"other._zone.db.prod.svc.cluster.local. A": nxdomain,
		"_zone.web.prod.svc.cluster.local. A":      nxdomain,
	})
}

func TestD9MixedCaseApex(t *testing.T) {
	t.Parallel()
	o := options(t, "cluster.local")
	k := kubernetes.New(o, nil, kubernetes.Deps{Local: func() []netip.Addr {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("2001:db8::53")}
	}})
	sync(k)
	s := servertest.Start(t, block(k, nil))
	check(t, s, map[string]string{
		"cluster.local. NS": `NOERROR aa
cluster.local. 5 IN NS ns.dns.cluster.local.
+ ns.dns.cluster.local. 5 IN A 192.0.2.53
+ ns.dns.cluster.local. 5 IN AAAA 2001:db8::53`,
		"Cluster.LOCAL. NS": `NOERROR aa
Cluster.LOCAL. 5 IN NS ns.dns.Cluster.LOCAL.
+ ns.dns.Cluster.LOCAL. 5 IN A 192.0.2.53
+ ns.dns.Cluster.LOCAL. 5 IN AAAA 2001:db8::53`,
		"ns.DNS.cluster.local. A":    "NOERROR aa\nns.DNS.cluster.local. 5 IN A 192.0.2.53",
		"NS.dns.cluster.local. AAAA": "NOERROR aa\nNS.dns.cluster.local. 5 IN AAAA 2001:db8::53",
		"ns.dns.cluster.local. MX":   nodata,
	})
}

// sync fills a Kubernetes with objects, and with nothing of the kinds that have none.
func sync(k *kubernetes.Kubernetes, objects ...kubernetes.Object) {
	for kind := range kubernetes.KindPod + 1 {
		k.Replace(kind, func(yield func(kubernetes.Object) bool) {
			for _, o := range objects {
				if o.Kind() == kind && !yield(o) {
					return
				}
			}
		})
	}
}

func TestApexNamesTheService(t *testing.T) {
	t.Parallel()
	for _, headless := range []bool{false, true} {
		k := kubernetes.New(options(t, "cluster.local"), nil, kubernetes.Deps{Local: func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("10.0.0.53")} }})
		svc := &kubernetes.Service{Namespace: "kube-system", Name: "kube-dns", ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.10")}}
		want := `NOERROR aa
cluster.local. 5 IN NS kube-dns.kube-system.svc.cluster.local.
+ kube-dns.kube-system.svc.cluster.local. 5 IN A 10.96.0.10`
		if headless {
			svc = &kubernetes.Service{Namespace: "kube-system", Name: "kube-dns", Headless: true}
			want = `NOERROR aa
cluster.local. 5 IN NS 10-0-0-53.kube-dns.kube-system.svc.cluster.local.
+ 10-0-0-53.kube-dns.kube-system.svc.cluster.local. 5 IN A 10.0.0.53`
		}
		sync(k, &kubernetes.Namespace{Name: "kube-system"}, svc, &kubernetes.EndpointSlice{
			Namespace: "kube-system", Name: "x", Service: "kube-dns",
			Endpoints: []kubernetes.Endpoint{{Addr: netip.MustParseAddr("10.0.0.53"), Ready: true, Serving: true}},
		})
		check(t, servertest.Start(t, block(k, nil)), map[string]string{"cluster.local. NS": want})
	}
}

// pods has a Pod with two addresses, one on the node's network, and one that is going.
const pods = `
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: prod}
status: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}, {ip: "fd00::1:2"}], phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: b, namespace: prod}
status: {podIPs: [{ip: 10.0.0.2}], phase: Succeeded}
---
apiVersion: v1
kind: Pod
metadata: {name: c, namespace: staging}
status: {podIPs: [{ip: 192.0.2.1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: d, namespace: prod}
status: {podIPs: [{ip: 192.0.2.1}]}
`

func TestD10PodAddresses(t *testing.T) {
	t.Parallel()
	k := cluster(t, "cluster.local\npods verified", pods)
	s := servertest.Start(t, block(k, nil))
	want := map[string]string{
		"10-0-0-1.prod.pod.cluster.local. A":     "NOERROR aa\n10-0-0-1.prod.pod.cluster.local. 5 IN A 10.0.0.1",
		"10-0-0-1.prod.pod.cluster.local. AAAA":  nodata,
		"10-0-0-1.staging.pod.cluster.local. A":  nxdomain,
		"10-0-0-2.prod.pod.cluster.local. A":     nxdomain,
		"192-0-2-1.staging.pod.cluster.local. A": "NOERROR aa\n192-0-2-1.staging.pod.cluster.local. 5 IN A 192.0.2.1",
		"192-0-2-1.prod.pod.cluster.local. A":    "NOERROR aa\n192-0-2-1.prod.pod.cluster.local. 5 IN A 192.0.2.1",
		"fd00--1-2.prod.pod.cluster.local. SRV": `NOERROR aa
fd00--1-2.prod.pod.cluster.local. 5 IN SRV 0 100 0 fd00--1-2.prod.pod.cluster.local.
+ fd00--1-2.prod.pod.cluster.local. 5 IN AAAA fd00::1:2`,
	}
	for _, spelling := range []string{"fd00--1-2", "FD00--1-2", "fd00-0-0-0-0-0-1-2", "fd00-0000--0001-0002", "fd00--0-1-2"} {
		name := spelling + ".prod.pod.cluster.local."
		want[name+" AAAA"] = "NOERROR aa\n" + name + " 5 IN AAAA fd00::1:2"
	}
	for _, wrong := range []string{"fd00---1-2", "fd00--1--2", "fd00-1-2", "fd00--1-2-", "fd00--10000-2", "10-0-0", "10-0-0-01", "1-2-3-4-5-6-7--8"} {
		want[wrong+".prod.pod.cluster.local. AAAA"] = nxdomain
	}
	check(t, s, want)

	for addr, want := range map[string][3]string{
		"10.0.0.1":  {"prod", "a", "yes"},
		"fd00::1:2": {"prod", "a", "yes"},
		"10.0.0.2":  {},
		"192.0.2.1": {}, // two Pods have it
	} {
		ns, name, known := k.PodAt(netip.MustParseAddr(addr))
		if ns != want[0] || name != want[1] || known != (want[2] != "") {
			t.Errorf("PodAt(%s) = %q, %q, %t", addr, ns, name, known)
		}
	}
}

func TestD11Weights(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, block(cluster(t, "cluster.local", ports), nil))
	check(t, s, map[string]string{
		"db.prod.svc.cluster.local. SRV": `NOERROR aa
db.prod.svc.cluster.local. 5 IN SRV 0 25 3306 10-0-0-2.db.prod.svc.cluster.local.
db.prod.svc.cluster.local. 5 IN SRV 0 25 3306 10-0-0-3.db.prod.svc.cluster.local.
db.prod.svc.cluster.local. 5 IN SRV 0 25 3306 10-0-0-4.db.prod.svc.cluster.local.
db.prod.svc.cluster.local. 5 IN SRV 0 25 3306 db-0.db.prod.svc.cluster.local.
+ 10-0-0-2.db.prod.svc.cluster.local. 5 IN A 10.0.0.2
+ 10-0-0-3.db.prod.svc.cluster.local. 5 IN A 10.0.0.3
+ 10-0-0-4.db.prod.svc.cluster.local. 5 IN A 10.0.0.4
+ db-0.db.prod.svc.cluster.local. 5 IN A 10.0.0.1`,
	})
}

func TestD12OrphanSlices(t *testing.T) {
	t.Parallel()
	k := cluster(t, "cluster.local in-addr.arpa", ports)
	const denied = "NXDOMAIN aa\n~ in-addr.arpa. 5 IN SOA ns.dns.in-addr.arpa. hostmaster.in-addr.arpa. 0 7200 1800 86400 5"
	check(t, servertest.Start(t, block(k, nil)), map[string]string{
		"60.0.0.10.in-addr.arpa. PTR": denied,
		"61.0.0.10.in-addr.arpa. PTR": denied,
		"1.0.0.10.in-addr.arpa. PTR":  "NOERROR aa\n1.0.0.10.in-addr.arpa. 5 IN PTR db-0.db.prod.svc.cluster.local.",
		"1.0.96.10.in-addr.arpa. PTR": "NOERROR aa\n1.0.96.10.in-addr.arpa. 5 IN PTR web.prod.svc.cluster.local.",
	})
}

func TestD13BeforeSync(t *testing.T) {
	t.Parallel()
	k := kubernetes.New(options(t, "cluster.local in-addr.arpa\nfallthrough\npods verified"), nil, kubernetes.Deps{})
	s := servertest.Start(t, block(k, next{"1.0.96.10.in-addr.arpa. TXT": "leaked", "web.prod.svc.cluster.local. TXT": "leaked"}))
	denied := func(name string, typ uint16) {
		t.Helper()
		m := s.Ask(t, name, typ)
		if m.Rcode != dns.RcodeServerFailure || len(m.Answer)+len(m.Ns) > 0 {
			t.Errorf("%s: %s", name, answer(m))
		}
		if ede := extended(m); ede == nil || ede.InfoCode != dns.ExtendedErrorCodeNotReady {
			t.Errorf("%s: Extended DNS Error %v, want %d", name, ede, dns.ExtendedErrorCodeNotReady)
		}
	}
	names := []string{"web.prod.svc.cluster.local.", "cluster.local.", "no.such.name.cluster.local.", "1.0.96.10.in-addr.arpa.", "10-0-0-1.prod.pod.cluster.local."}
	none := func(func(kubernetes.Object) bool) {}
	for _, kind := range []kubernetes.Kind{kubernetes.KindService, kubernetes.KindNamespace, kubernetes.KindEndpointSlice} {
		if k.Ready() {
			t.Errorf("ready without %s", kind)
		}
		for _, n := range names {
			denied(n, dns.TypeTXT)
		}
		k.Replace(kind, none)
	}
	check(t, s, map[string]string{"web.prod.svc.cluster.local. TXT": "NOERROR ra\nweb.prod.svc.cluster.local. 60 IN TXT \"leaked\""})
	if k.Ready() {
		t.Error("ready without Pods")
	}
	k.Apply(&kubernetes.Namespace{Name: "prod"})
	denied("10-0-0-1.prod.pod.cluster.local.", dns.TypeA)
	k.Replace(kubernetes.KindPod, none)
	if !k.Ready() {
		t.Error("not ready with everything read")
	}
	<-k.Synced()
}

// extended is the Extended DNS Error of a reply, or nil.
func extended(m *dns.Msg) *dns.EDNS0_EDE {
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok {
				return e
			}
		}
	}
	return nil
}

func TestD14ChangesShowAtOnce(t *testing.T) {
	t.Parallel()
	k := kubernetes.New(options(t, "cluster.local"), nil, kubernetes.Deps{})
	sync(k, &kubernetes.Namespace{Name: "prod"})
	d := servertest.Start(t, block(k, nil))
	for i := range 50 {
		addr := netip.AddrFrom4([4]byte{10, 96, 0, byte(i)})
		k.Apply(&kubernetes.Service{Namespace: "prod", Name: "web", ClusterIPs: []netip.Addr{addr}})
		check(t, d, map[string]string{"web.prod.svc.cluster.local. A": "NOERROR aa\nweb.prod.svc.cluster.local. 5 IN A " + addr.String()})
		k.Delete(kubernetes.KindService, "prod", "web")
		check(t, d, map[string]string{"web.prod.svc.cluster.local. A": nxdomain})
	}
}

func TestRandomOrderIsFair(t *testing.T) {
	t.Parallel()
	const endpoints, rounds = 40, 8000
	k := kubernetes.New(options(t, "cluster.local"), nil, kubernetes.Deps{})
	s := &kubernetes.EndpointSlice{Namespace: "prod", Name: "x", Service: "big"}
	for i := range endpoints {
		s.Endpoints = append(s.Endpoints, kubernetes.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), Ready: true, Serving: true})
	}
	sync(k, &kubernetes.Namespace{Name: "prod"}, &kubernetes.Service{Namespace: "prod", Name: "big", Headless: true}, s)
	b := block(k, nil)
	b.Options.Shuffle = true
	d := servertest.Direct(b)
	q := servertest.Pack(t, servertest.Query("big.prod.svc.cluster.local.", dns.TypeA, 0)) // 512 bytes: only some fit
	first := map[string]int{}
	for range rounds {
		reply, _ := d.Answer(q, servertest.Client, 0)
		var m dns.Msg
		if err := m.Unpack(reply); err != nil {
			t.Fatal(err)
		}
		if !m.Truncated || len(m.Answer) == 0 || len(m.Answer) == endpoints {
			t.Fatalf("%d records, truncated %t", len(m.Answer), m.Truncated)
		}
		first[m.Answer[0].(*dns.A).A.String()]++
	}
	// Each comes first 200 times; six standard deviations are 84.
	counts := make([]int, 0, endpoints)
	for _, n := range first {
		counts = append(counts, n)
	}
	if len(first) != endpoints || slices.Min(counts) < rounds/endpoints-84 || slices.Max(counts) > rounds/endpoints+84 {
		t.Errorf("%d of %d came first, %d to %d times", len(first), endpoints, slices.Min(counts), slices.Max(counts))
	}
}
