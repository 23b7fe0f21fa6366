package kubernetes_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

func TestTransferZone(t *testing.T) {
	t.Parallel()
	addr := netip.MustParseAddr
	k := kubernetes.New(options(t, "cluster.local in-addr.arpa"), nil, kubernetes.Deps{Local: func() []netip.Addr { return []netip.Addr{addr("10.0.0.53")} }})
	origin := wire.NewZone(wire.MustCanonical("cluster.local"))
	if _, _, ok := k.TransferZone(origin); ok {
		t.Error("a zone can be transferred before it is known")
	}
	sync(k, &kubernetes.Namespace{Name: "prod"},
		&kubernetes.Service{Namespace: "prod", Name: "web", ClusterIPs: []netip.Addr{addr("10.96.0.1"), addr("fd00::1")},
			Ports: []kubernetes.Port{{Name: "http", Number: 80}, {Number: 81}}},
		&kubernetes.Service{Namespace: "prod", Name: "db", Headless: true},
		&kubernetes.Service{Namespace: "prod", Name: "out", Type: kubernetes.ExternalName, ExternalName: "www.example.org"},
		&kubernetes.Service{Namespace: "gone", Name: "x", ClusterIPs: []netip.Addr{addr("10.96.0.9")}},
		&kubernetes.EndpointSlice{Namespace: "prod", Name: "db", Service: "db", Ports: []kubernetes.Port{{Name: "sql", Number: 3306}}, Endpoints: []kubernetes.Endpoint{
			{Addr: addr("10.0.0.1"), Hostname: "db-0", Ready: true}, {Addr: addr("10.0.0.2"), Ready: true}}},
	)
	all, serial, ok := k.TransferZone(origin)
	if !ok || serial != k.Serial() {
		t.Fatalf("serial %d, %v", serial, ok)
	}
	var got []string
	for rr := range all {
		got = append(got, text(t, rr))
	}
	if !strings.Contains(got[0], " SOA ") {
		t.Errorf("the first record is %s", got[0])
	}
	want := strings.Split(strings.TrimSpace(`
_http._tcp.web.prod.svc.cluster.local. 5 IN SRV 0 50 80 web.prod.svc.cluster.local.
_sql._tcp.db.prod.svc.cluster.local. 5 IN SRV 0 50 3306 10-0-0-2.db.prod.svc.cluster.local.
_sql._tcp.db.prod.svc.cluster.local. 5 IN SRV 0 50 3306 db-0.db.prod.svc.cluster.local.
10-0-0-2.db.prod.svc.cluster.local. 5 IN A 10.0.0.2
db-0.db.prod.svc.cluster.local. 5 IN A 10.0.0.1
db.prod.svc.cluster.local. 5 IN A 10.0.0.1
db.prod.svc.cluster.local. 5 IN A 10.0.0.2
dns-version.cluster.local. 28800 IN TXT "1.1.0"
out.prod.svc.cluster.local. 5 IN CNAME www.example.org.
web.prod.svc.cluster.local. 5 IN A 10.96.0.1
web.prod.svc.cluster.local. 5 IN AAAA fd00::1`), "\n")
	rest := slices.DeleteFunc(got, func(s string) bool {
		return strings.Contains(s, " SOA ") || strings.Contains(s, " NS ") || strings.HasPrefix(s, "ns.dns.")
	})
	slices.Sort(rest)
	slices.Sort(want)
	if !slices.Equal(rest, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(rest, "\n"), strings.Join(want, "\n"))
	}
	n := 0
	for range all {
		if n++; n == 3 {
			break // a client that goes away
		}
	}
	if _, _, ok := k.TransferZone(wire.NewZone(wire.MustCanonical("in-addr.arpa"))); ok {
		t.Error("a reverse zone can be transferred")
	}
	if _, _, ok := k.TransferZone(wire.NewZone(wire.MustCanonical("example.org"))); ok {
		t.Error("a zone of others can be transferred")
	}
}

// text is a record as miekg/dns writes it.
func text(t *testing.T, rr server.Record) string {
	t.Helper()
	b := append([]byte(nil), rr.Owner...)
	b = append(b, byte(rr.Type>>8), byte(rr.Type), byte(rr.Class>>8), byte(rr.Class), byte(rr.TTL>>24), byte(rr.TTL>>16), byte(rr.TTL>>8), byte(rr.TTL),
		byte(len(rr.Data)>>8), byte(len(rr.Data)))
	out, _, err := dns.UnpackRR(append(b, rr.Data...), 0)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(out.String(), "\t", " ")
}
