package autopath

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// pods are the Pods of a cluster by their addresses; those with two have "" for a namespace.
type pods map[netip.Addr]string

func (p pods) PodAt(a netip.Addr) (string, string, bool) {
	ns := p[a]
	return ns, "pod", ns != ""
}

func handler(t *testing.T, text string, from Source, m *Metrics) *AutoPath {
	t.Helper()
	o, err := Parse(plugintest.Input(t, text, "."))
	if err != nil {
		t.Fatal(err)
	}
	return New(o, from, m)
}

func cluster() Source {
	return Source{
		Pods:  pods{netip.MustParseAddr("10.0.0.1"): "shop", netip.MustParseAddr("10.0.0.2"): "", netip.MustParseAddr("2001:db8::1"): "shop"},
		Zones: []wire.Zone{wire.NewZone(wire.MustCanonical("cluster.local"))},
		List:  []wire.Canonical{wire.MustCanonical("node.example")},
	}
}

// broken fails for one name, and says NXDOMAIN where it should say NODATA for another.
type broken struct{ *plugintest.Answers }

func (b broken) Answer(r *server.Reply, q *server.Query) server.Verdict {
	switch name := q.Name.Canonical().String(); {
	case name == "fails.svc.cluster.local.":
		return r.Fail(nil)
	case name == "odd.example.com." && q.Type == wire.TypeAAAA:
		r.SetRCode(wire.RCodeNXDomain)
		return server.Done
	}
	return b.Answers.Answer(r, q)
}

func TestSearch(t *testing.T) {
	t.Parallel()
	back := broken{plugintest.NewAnswers(t,
		"cart.shop.svc.cluster.local. 5 IN A 10.96.0.1",
		"bank.pay.svc.cluster.local. 5 IN A 10.96.0.2",
		"host.node.example. 30 IN A 192.0.2.1",
		"www.example.com. 60 IN CNAME web.example.com.", "web.example.com. 50 IN A 192.0.2.2",
		"odd.example.com. 60 IN A 192.0.2.3")}
	reg := prometheus.NewRegistry()
	h := handler(t, "autopath cluster.local @kubernetes", cluster(), NewMetrics(reg))
	end := ".shop.svc.cluster.local."
	for _, c := range []struct{ what, client, ask, want string }{
		{"the name itself", "10.0.0.1", "Cart" + end + " A", "NOERROR\nCart" + end + " 5 IN A 10.96.0.1"},
		{"another namespace", "10.0.0.1", "bank.pay" + end + " A", "NOERROR\nbank.pay" + end + " 5 IN CNAME bank.pay.svc.cluster.local.\nbank.pay.svc.cluster.local. 5 IN A 10.96.0.2"},
		{"the cluster's zone", "10.0.0.1", "bank.pay.svc" + end + " A", "NOERROR\nbank.pay.svc" + end + " 5 IN CNAME bank.pay.svc.cluster.local.\nbank.pay.svc.cluster.local. 5 IN A 10.96.0.2"},
		{"the node's list", "10.0.0.1", "host" + end + " A", "NOERROR\nhost" + end + " 30 IN CNAME host.node.example.\nhost.node.example. 30 IN A 192.0.2.1"},
		{"a name outside", "10.0.0.1", "WWW.example.com" + end + " A", "NOERROR\nWWW.example.com" + end + " 60 IN CNAME WWW.example.com.\nWWW.example.com. 60 IN CNAME web.example.com.\nweb.example.com. 50 IN A 192.0.2.2"},
		{"without that type", "10.0.0.1", "www.example.com" + end + " AAAA", "NOERROR\nwww.example.com" + end + " 60 IN CNAME www.example.com.\nwww.example.com. 60 IN CNAME web.example.com."},
		{"IPv6 clients", "2001:db8::1", "host" + end + " AAAA", "NOERROR\nhost" + end + " 0 IN CNAME host.node.example."},
		{"a server that denies one family", "10.0.0.1", "odd.example.com" + end + " AAAA", "NOERROR\nodd.example.com" + end + " 0 IN CNAME odd.example.com."},
		{"a name that is nowhere", "10.0.0.1", "no" + end + " A", "NXDOMAIN"},
		{"a failure on the way", "10.0.0.1", "fails" + end + " A", "SERVFAIL\nfails" + end + " 0 IN CNAME fails.svc.cluster.local."},
		{"the second domain", "10.0.0.1", "bank.shop2.svc.cluster.local. A", "NXDOMAIN"},
		{"another namespace's list", "10.0.0.1", "host.pay.svc.cluster.local. A", "NXDOMAIN"},
		{"a client that two Pods may be", "10.0.0.2", "host" + end + " A", "NXDOMAIN"},
		{"a client that is no Pod", "10.0.0.3", "host" + end + " A", "NXDOMAIN"},
		{"the domain itself", "10.0.0.1", "shop.svc.cluster.local. A", "NXDOMAIN"},
		{"a name elsewhere", "10.0.0.1", "web.example.com. A", "NOERROR\nweb.example.com. 50 IN A 192.0.2.2"},
	} {
		name, typ, _ := strings.Cut(c.ask, " ")
		plugintest.Check(t, c.what, plugintest.Ask(t, c.client, plugintest.Question(name, typ), h, back), c.want)
	}
	want := "# HELP coredns_autopath_success_total Queries that were answered by a name further down the client's search list.\n" +
		"# TYPE coredns_autopath_success_total counter\ncoredns_autopath_success_total{server=\"dns://:53\"} 8\n"
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("nameserver 192.0.2.1\nsearch old.example\nsearch one.example two.example .\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := ReadSearch(file)
	if err != nil || len(list) != 2 {
		t.Fatalf("%q, %v", list, err)
	}
	back := plugintest.NewAnswers(t, "a.two.example. 9 IN A 192.0.2.1", "b. 9 IN A 192.0.2.2")
	h := handler(t, "autopath "+file, Source{List: list}, nil)
	plugintest.Check(t, "second", plugintest.Ask(t, "", plugintest.Question("a.one.example.", "A"), h, back), "NOERROR\na.one.example. 9 IN CNAME a.two.example.\na.two.example. 9 IN A 192.0.2.1")
	plugintest.Check(t, "root", plugintest.Ask(t, "", plugintest.Question("b.one.example.", "A"), h, back), "NOERROR\nb.one.example. 9 IN CNAME b.\nb. 9 IN A 192.0.2.2")
	plugintest.Check(t, "none", plugintest.Ask(t, "", plugintest.Question("a.old.example.", "A"), h, back), "NXDOMAIN")
	if _, err := ReadSearch(file + ".none"); err == nil {
		t.Error("no error for a file that is not there")
	}
}

func TestLongNames(t *testing.T) {
	t.Parallel()
	from := Source{List: []wire.Canonical{wire.MustCanonical("x"), wire.MustCanonical(strings.Repeat("long.", 40))}}
	name := strings.Repeat("abcdefg.", 20) + "x."
	h := handler(t, "autopath /etc/resolv.conf", from, nil)
	plugintest.Check(t, "too long", plugintest.Ask(t, "", plugintest.Question(name, "A"), h, plugintest.NewAnswers(t)), "NXDOMAIN")
}

func TestNoAllocs(t *testing.T) {
	h := handler(t, "autopath @kubernetes", cluster(), NewMetrics(nil))
	b := servertest.Block(".", plugintest.Stage(h), plugintest.Stage(plugintest.NewAnswers(t, "www.example.com. 1 IN A 192.0.2.1", "a.pay.svc.cluster.local. 5 IN A 192.0.2.1")))
	servertest.NoAllocs(t, servertest.Query("www.example.com.", dns.TypeA, 1232), b)
	servertest.NoAllocs(t, servertest.Query("a.pay.svc.cluster.local.", dns.TypeA, 1232), b)
}

func TestParse(t *testing.T) {
	t.Parallel()
	o, err := Parse(plugintest.Input(t, "autopath cluster.local example.org @kubernetes", "."))
	if err != nil || o.From != "kubernetes" || o.File != "" || len(o.Zones) != 2 {
		t.Errorf("%+v, %v", o, err)
	}
	for text, want := range map[string]string{
		"autopath":                       "a file such as /etc/resolv.conf, or @kubernetes, must follow",
		"autopath @etcd":                 "does not know the search lists of clients",
		"autopath a..b @kubernetes":      "has an empty label",
		"autopath @kubernetes {\nx y\n}": "takes no options in braces",
	} {
		if _, err := Parse(plugintest.Input(t, text, ".")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "autopath", "ZONE...", "@kubernetes", "coredns_autopath_success_total")
}
