package k8sexternal

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// lab is a cluster of fixed Services.
type lab struct {
	notReady bool
	stale    string
	services map[ServiceName]Service
}

func (l lab) Ready() bool                { return !l.notReady }
func (l lab) HasNamespace(n string) bool { return n == "default" || n == "empty" }
func (l lab) Serial() uint32             { return 7 }
func (l lab) Staleness() string          { return l.stale }
func (l lab) ExternalServers() []netip.Addr {
	return []netip.Addr{netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("2001:db8::1")}
}

func (l lab) NamespaceNames() []string { return []string{"default", "empty"} }

func (l lab) ServiceNames(ns string) (out []string) {
	for n := range l.services {
		if n.Namespace == ns {
			out = append(out, n.Name)
		}
	}
	slices.Sort(out)
	return out
}

func (l lab) ExternalService(ns, name string) (Service, bool) {
	s, ok := l.services[ServiceName{ns, name}]
	return s, ok
}

func (l lab) ExternalServicesAt(addr netip.Addr) (out []ServiceName) {
	for n, s := range l.services {
		if contains(s.Addrs, addr) {
			out = append(out, n)
		}
	}
	return out
}

func addrs(s ...string) (out []netip.Addr) {
	for _, a := range s {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func cluster() lab {
	http, dnsUDP := Port{"http", "tcp", 80}, Port{"dns", "udp", 53}
	return lab{services: map[ServiceName]Service{
		{"default", "web"}:      {Addrs: addrs("192.0.2.1", "192.0.2.2", "2001:db8::2", "192.0.2.1"), Ports: []Port{http, dnsUDP}},
		{"default", "internal"}: {Ports: []Port{http}, Endpoints: []Endpoint{{"one", netip.MustParseAddr("10.0.0.9"), []Port{http}}}},
		{"default", "plain"}:    {Addrs: addrs("192.0.2.9")},
		{"default", "db"}: {Headless: true, Ports: []Port{http}, Endpoints: []Endpoint{
			{"db-0", netip.MustParseAddr("10.0.0.1"), []Port{http}}, {"db-1", netip.MustParseAddr("10.0.0.2"), []Port{http}}}},
		{"default", "both"}: {Headless: true, Addrs: addrs("192.0.2.7"), Ports: []Port{http}, Endpoints: []Endpoint{{"x", netip.MustParseAddr("10.0.0.3"), nil}}},
	}}
}

const soa = "example.org. 5 IN SOA ns1.dns.example.org. hostmaster.example.org. 7 14400 3600 604800 5"

func TestAnswers(t *testing.T) {
	t.Parallel()
	none := "NXDOMAIN\nns " + soa
	empty := "NOERROR\nns " + soa
	plain, headless := "k8s_external example.org 192.0.2.0/24", "k8s_external example.org {\nheadless\n}"
	one := "k8s_external example.org 192.0.2.1/32"
	back := plugintest.NewAnswers(t, "www.other. 1 IN A 198.51.100.1", "no.default.example.org. 1 IN A 198.51.100.2")
	for _, c := range []struct{ text, ask, want string }{
		{plain, "www.other. A", "NOERROR\nwww.other. 1 IN A 198.51.100.1"},
		{plain, "example.org. SOA", "NOERROR\n" + soa},
		{plain, "example.org. NS", "NOERROR\nexample.org. 5 IN NS ns1.dns.example.org.\nextra ns1.dns.example.org. 5 IN A 203.0.113.1\nextra ns1.dns.example.org. 5 IN AAAA 2001:db8::1"},
		{plain, "example.org. A", empty},
		{plain, "dns.example.org. A", empty},
		{plain, "ns1.dns.example.org. A", "NOERROR\nns1.dns.example.org. 5 IN A 203.0.113.1"},
		{plain, "ns1.dns.example.org. AAAA", "NOERROR\nns1.dns.example.org. 5 IN AAAA 2001:db8::1"},
		{plain, "ns2.dns.example.org. A", none},
		{plain, "Web.default.example.org. A", "NOERROR\nWeb.default.example.org. 5 IN A 192.0.2.1\nWeb.default.example.org. 5 IN A 192.0.2.2"},
		{plain, "web.default.example.org. AAAA", "NOERROR\nweb.default.example.org. 5 IN AAAA 2001:db8::2"},
		{plain, "web.default.example.org. TXT", empty},
		{plain, "_http._tcp.web.default.example.org. SRV", "NOERROR\n_http._tcp.web.default.example.org. 5 IN SRV 0 100 80 web.default.example.org." +
			"\nextra web.default.example.org. 5 IN A 192.0.2.1\nextra web.default.example.org. 5 IN A 192.0.2.2\nextra web.default.example.org. 5 IN AAAA 2001:db8::2"},
		{plain, "plain.default.example.org. SRV", empty},
		{plain, "_https._tcp.web.default.example.org. SRV", none},
		{plain, "_tcp.web.default.example.org. SRV", empty},
		{plain, "_sctp.web.default.example.org. SRV", none},
		{plain, "x.web.default.example.org. A", none},
		{plain, "a.b.c.web.default.example.org. A", none},
		{plain, "default.example.org. A", empty},
		{plain, "nowhere.example.org. A", none},
		{plain, "web.nowhere.example.org. A", none},
		{plain, "web.empty.example.org. A", none},
		{plain, "internal.default.example.org. A", none},
		{plain, "db.default.example.org. A", none},
		{plain, "1.2.0.192.in-addr.arpa. PTR", "NOERROR\n1.2.0.192.in-addr.arpa. 5 IN PTR web.default.example.org."},
		{plain, "1.2.0.192.in-addr.arpa. A", "NOERROR\nns 2.0.192.in-addr.arpa. 5 IN SOA ns1.dns.2.0.192.in-addr.arpa. hostmaster.2.0.192.in-addr.arpa. 7 14400 3600 604800 5"},
		{one, "1.2.0.192.in-addr.arpa. PTR", "NOERROR\n1.2.0.192.in-addr.arpa. 5 IN PTR web.default.example.org."},
		{one, "1.2.0.192.in-addr.arpa. SOA", "NOERROR\n1.2.0.192.in-addr.arpa. 5 IN SOA ns1.dns.1.2.0.192.in-addr.arpa. hostmaster.1.2.0.192.in-addr.arpa. 7 14400 3600 604800 5"},
		{one, "1.2.0.192.in-addr.arpa. A", "NOERROR\nns 1.2.0.192.in-addr.arpa. 5 IN SOA ns1.dns.1.2.0.192.in-addr.arpa. hostmaster.1.2.0.192.in-addr.arpa. 7 14400 3600 604800 5"},
		{plain, "5.2.0.192.in-addr.arpa. A", "NXDOMAIN\nns 2.0.192.in-addr.arpa. 5 IN SOA ns1.dns.2.0.192.in-addr.arpa. hostmaster.2.0.192.in-addr.arpa. 7 14400 3600 604800 5"},
		{plain, "5.2.0.192.in-addr.arpa. PTR", "NXDOMAIN\nns 2.0.192.in-addr.arpa. 5 IN SOA ns1.dns.2.0.192.in-addr.arpa. hostmaster.2.0.192.in-addr.arpa. 7 14400 3600 604800 5"},
		{headless, "db.default.example.org. A", "NOERROR\ndb.default.example.org. 5 IN A 10.0.0.1\ndb.default.example.org. 5 IN A 10.0.0.2"},
		{headless, "db-1.db.default.example.org. A", "NOERROR\ndb-1.db.default.example.org. 5 IN A 10.0.0.2"},
		{headless, "one.internal.default.example.org. A", "NOERROR\none.internal.default.example.org. 5 IN A 10.0.0.9"},
		{headless, "db-7.db.default.example.org. A", none},
		{headless, "both.default.example.org. A", "NOERROR\nboth.default.example.org. 5 IN A 192.0.2.7"},
		{headless, "_http._tcp.db.default.example.org. SRV", "NOERROR\n_http._tcp.db.default.example.org. 5 IN SRV 0 50 80 db-0.db.default.example.org." +
			"\n_http._tcp.db.default.example.org. 5 IN SRV 0 50 80 db-1.db.default.example.org.\nextra db-0.db.default.example.org. 5 IN A 10.0.0.1\nextra db-1.db.default.example.org. 5 IN A 10.0.0.2"},
		{"k8s_external example.org {\nttl 60\napex name\n}", "example.org. NS", "NOERROR\nexample.org. 60 IN NS ns1.name.example.org.\nextra ns1.name.example.org. 60 IN A 203.0.113.1\nextra ns1.name.example.org. 60 IN AAAA 2001:db8::1"},
		{"k8s_external example.org {\nfallthrough\n}", "no.default.example.org. A", "NOERROR\nno.default.example.org. 1 IN A 198.51.100.2"},
		{"k8s_external example.org {\nfallthrough\n}", "web.default.example.org. TXT", empty},
		{"k8s_external example.org {\nfallthrough example.net\n}", "no.default.example.org. A", none},
	} {
		o, err := Parse(plugintest.Input(t, c.text, "."))
		if err != nil {
			t.Fatal(err)
		}
		name, typ, _ := strings.Cut(c.ask, " ")
		r := plugintest.Ask(t, "", plugintest.Question(name, typ), New(o, cluster()), back)
		plugintest.Check(t, c.text+": "+c.ask, r, c.want)
		if !r.Authoritative {
			t.Errorf("%s: AA is not set", c.ask)
		}
	}
}

func TestTransferZone(t *testing.T) {
	t.Parallel()
	o, err := Parse(plugintest.Input(t, "k8s_external example.org 192.0.2.0/24 {\nheadless\n}", "."))
	if err != nil {
		t.Fatal(err)
	}
	h := New(o, cluster())
	all, serial, ok := h.TransferZone(o.Primary)
	if !ok || serial != 7 {
		t.Fatalf("serial %d, %v", serial, ok)
	}
	var got []string
	for rr := range all {
		b := append([]byte(nil), rr.Owner...)
		b = append(b, byte(rr.Type>>8), byte(rr.Type), 0, 1, 0, 0, 0, byte(rr.TTL), 0, byte(len(rr.Data)))
		out, _, err := dns.UnpackRR(append(b, rr.Data...), 0)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.ReplaceAll(out.String(), "\t", " "))
	}
	want := []string{soa, "example.org. 5 IN NS ns1.dns.example.org.", "ns1.dns.example.org. 5 IN A 203.0.113.1", "ns1.dns.example.org. 5 IN AAAA 2001:db8::1",
		"both.default.example.org. 5 IN A 192.0.2.7", "_http._tcp.both.default.example.org. 5 IN SRV 0 100 80 both.default.example.org.",
		"db.default.example.org. 5 IN A 10.0.0.1", "db.default.example.org. 5 IN A 10.0.0.2", "db-0.db.default.example.org. 5 IN A 10.0.0.1",
		"db-1.db.default.example.org. 5 IN A 10.0.0.2", "_http._tcp.db.default.example.org. 5 IN SRV 0 50 80 db-0.db.default.example.org.",
		"_http._tcp.db.default.example.org. 5 IN SRV 0 50 80 db-1.db.default.example.org.", "plain.default.example.org. 5 IN A 192.0.2.9",
		"web.default.example.org. 5 IN A 192.0.2.1", "web.default.example.org. 5 IN A 192.0.2.2", "web.default.example.org. 5 IN AAAA 2001:db8::2",
		"_http._tcp.web.default.example.org. 5 IN SRV 0 100 80 web.default.example.org.", "_dns._udp.web.default.example.org. 5 IN SRV 0 100 53 web.default.example.org."}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, _, ok := h.TransferZone(o.Zones[0]); ok != (o.Zones[0] == o.Primary) {
		t.Error("a reverse zone can be transferred")
	}
	if _, _, ok := New(o, lab{notReady: true}).TransferZone(o.Primary); ok {
		t.Error("a zone can be transferred before the cluster is known")
	}
}

func TestBeforeTheClusterIsKnown(t *testing.T) {
	t.Parallel()
	o, err := Parse(plugintest.Input(t, "k8s_external example.org {\nfallthrough\n}", "."))
	if err != nil {
		t.Fatal(err)
	}
	plugintest.Check(t, "not ready", plugintest.Ask(t, "", plugintest.Question("web.default.example.org.", "A"), New(o, lab{notReady: true})), "SERVFAIL")
}

// TestStale: what is answered from a snapshot is marked, denials included, and what is passed on is not.
func TestStale(t *testing.T) {
	t.Parallel()
	o, err := Parse(plugintest.Input(t, "k8s_external example.org {\nfallthrough\n}", "."))
	if err != nil {
		t.Fatal(err)
	}
	fixed := cluster()
	for _, why := range []string{"", "from a snapshot"} {
		fixed.stale = why
		next := plugintest.NewAnswers(t, "www.example.org. 1 IN A 198.51.100.1")
		s := servertest.Start(t, servertest.Block(".", plugintest.Stage(New(o, fixed)), plugintest.Stage(next)))
		for name, marked := range map[string]bool{
			"web.default.example.org.": true, "plain.default.example.org.": true, "empty.example.org.": true, "example.org.": true, "ns1.dns.example.org.": true,
			"www.example.org.": false, "www.other.": false,
		} {
			m := s.Ask(t, name, dns.TypeA)
			if got := strings.Contains(m.String(), "EDE: 3 (Stale Answer): (from a snapshot)"); got != (marked && why != "") {
				t.Errorf("%s while it is %q: %v", name, why, m)
			}
		}
	}
}

func TestNoAllocs(t *testing.T) {
	o, err := Parse(plugintest.Input(t, "k8s_external example.org", "."))
	if err != nil {
		t.Fatal(err)
	}
	b := servertest.Block(".", plugintest.Stage(New(o, cluster())), plugintest.Stage(plugintest.NewAnswers(t, "www.other. 1 IN A 198.51.100.1")))
	servertest.NoAllocs(t, servertest.Query("www.other.", dns.TypeA, 1232), b)
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"k8s_external a..b":                       "has an empty label",
		"k8s_external 10.0.0.0/8":                 "needs a zone that is no reverse zone",
		"k8s_external example.org {\nttl 3601\n}": "3601 is not within 0 and 3600",
		"k8s_external example.org {\napex a.b\n}": "is not one label",
		"k8s_external example.org {\nheadles\n}":  `unknown option "headles"; did you mean "headless"?`,
	} {
		if _, err := Parse(plugintest.Input(t, text, ".")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "k8s_external", plugintest.Names(Rows())...)
}
