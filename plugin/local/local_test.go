package local

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server/servertest"
)

func TestAnswers(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	h := New(Options{LocalhostPrefix: true}, NewMetrics(reg))
	soa := func(zone string) string { return zone + " 604800 IN SOA localhost. root.localhost. 1 0 0 0 604800" }
	back := plugintest.NewAnswers(t, "www.example.org. 1 IN A 192.0.2.1")
	for ask, want := range map[string]string{
		"localhost. A":                "NOERROR\nlocalhost. 604800 IN A 127.0.0.1",
		"LocalHost. AAAA":             "NOERROR\nLocalHost. 604800 IN AAAA ::1",
		"localhost. TXT":              "NOERROR\nns " + soa("localhost."),
		"localhost. SOA":              "NOERROR\n" + soa("localhost."),
		"localhost. NS":               "NOERROR\nlocalhost. 604800 IN NS localhost.",
		"app.localhost. A":            "NOERROR\napp.localhost. 604800 IN A 127.0.0.1",
		"localhost.example.org. A":    "NOERROR\nlocalhost.example.org. 604800 IN A 127.0.0.1",
		"localhost.example.org. MX":   "NOERROR\nns " + soa("localhost.example.org."),
		"0.in-addr.arpa. SOA":         "NOERROR\n" + soa("0.in-addr.arpa."),
		"255.in-addr.arpa. A":         "NOERROR\nns " + soa("255.in-addr.arpa."),
		"1.0.0.127.in-addr.arpa. PTR": "NOERROR\n1.0.0.127.in-addr.arpa. 604800 IN PTR localhost.",
		"1.0.0.127.in-addr.arpa. A":   "NOERROR\nns " + soa("127.in-addr.arpa."),
		"0.0.127.in-addr.arpa. PTR":   "NOERROR\nns " + soa("127.in-addr.arpa."),
		"2.0.0.127.in-addr.arpa. PTR": "NXDOMAIN\nns " + soa("127.in-addr.arpa."),
		"7.0.in-addr.arpa. PTR":       "NXDOMAIN\nns " + soa("0.in-addr.arpa."),
		"www.example.org. A":          "NOERROR\nwww.example.org. 1 IN A 192.0.2.1",
		"1.2.0.192.in-addr.arpa. PTR": "NXDOMAIN",
	} {
		name, typ, _ := strings.Cut(ask, " ")
		plugintest.Check(t, ask, plugintest.Ask(t, "", plugintest.Question(name, typ), h, back), want)
	}
	want := "# HELP coredns_local_localhost_requests_total Queries for localhost with a domain behind it, or for names under localhost.\n" +
		"# TYPE coredns_local_localhost_requests_total counter\ncoredns_local_localhost_requests_total 3\n"
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestNoPrefix has only what RFC 6761 6.3 reserves taken for the machine itself.
func TestNoPrefix(t *testing.T) {
	t.Parallel()
	o, err := Parse(plugintest.Input(t, "local {\nlocalhost_prefix off\n}"))
	if err != nil {
		t.Fatal(err)
	}
	h, back := New(o, nil), plugintest.NewAnswers(t, "localhost.example.org. 1 IN A 192.0.2.1")
	for ask, want := range map[string]string{
		"localhost.example.org.": "NOERROR\nlocalhost.example.org. 1 IN A 192.0.2.1",
		"localhost.":             "NOERROR\nlocalhost. 604800 IN A 127.0.0.1",
		"app.localhost.":         "NOERROR\napp.localhost. 604800 IN A 127.0.0.1",
	} {
		plugintest.Check(t, ask, plugintest.Ask(t, "", plugintest.Question(ask, "A"), h, back), want)
	}
}

func TestNoAllocs(t *testing.T) {
	b := servertest.Block(".", plugintest.Stage(New(Options{LocalhostPrefix: true}, NewMetrics(nil))), plugintest.Stage(plugintest.NewAnswers(t, "b. 1 IN A 192.0.2.1")))
	servertest.NoAllocs(t, servertest.Query("b.", dns.TypeA, 1232), b)
	servertest.NoAllocs(t, servertest.Query("localhost.", dns.TypeA, 1232), b)
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"local": true, "local {\n}": true, "local {\nlocalhost_prefix on\n}": true,
		"local host": false, "local {\nx y\n}": false, "local {\nlocalhost_prefix\n}": false, "local {\nlocalhost_prefix no\n}": false,
	} {
		if _, err := Parse(plugintest.Input(t, text)); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "local", "localhost_prefix", "coredns_local_localhost_requests_total")
}
