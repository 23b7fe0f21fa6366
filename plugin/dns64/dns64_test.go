package dns64

import (
	"net/netip"
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

func handler(t *testing.T, text string, m *Metrics) *DNS64 {
	t.Helper()
	o, err := Parse(plugintest.Input(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return New(o, m)
}

// zone is Answers with an SOA record for names without the type.
type zone struct{ *plugintest.Answers }

func (z zone) Answer(r *server.Reply, q *server.Query) server.Verdict {
	v := z.Answers.Answer(r, q)
	if v == server.Done && r.Count(server.Answer) == 0 && string(q.Name.Label(0)) == "short" {
		name := []byte(wire.MustCanonical("example.org"))
		r.SOA(server.Authority, name, 7, &server.SOA{MName: name, RName: name})
	}
	return v
}

func TestTranslation(t *testing.T) {
	t.Parallel()
	back := zone{plugintest.NewAnswers(t,
		"four.example.org. 900 IN A 192.0.2.33", "four.example.org. 30 IN A 192.0.2.34",
		"both.example.org. 60 IN A 192.0.2.1", "both.example.org. 60 IN AAAA 2001:db8::1",
		"alias.example.org. 60 IN CNAME four.example.org.", "text.example.org. 60 IN TXT x",
		"short.example.org. 60 IN A 192.0.2.1", "mapped.example.org. 60 IN AAAA ::ffff:192.0.2.1", "mapped.example.org. 60 IN A 192.0.2.1")}
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	const v4, v6 = "192.0.2.200", "2001:db8::99"
	for _, c := range []struct{ text, client, ask, want string }{
		{"dns64", v6, "Four.example.org. AAAA", "NOERROR\nFour.example.org. 600 IN AAAA 64:ff9b::c000:221\nFour.example.org. 30 IN AAAA 64:ff9b::c000:222"},
		{"dns64", v4, "four.example.org. AAAA", "NOERROR"},
		{"dns64 {\nallow_ipv4\n}", v4, "both.example.org. AAAA", "NOERROR\nboth.example.org. 60 IN AAAA 2001:db8::1"},
		{"dns64 {\nallow_ipv4\n}", v4, "short.example.org. AAAA", "NOERROR\nshort.example.org. 7 IN AAAA 64:ff9b::c000:201"},
		{"dns64", v6, "four.example.org. A", "NOERROR\nfour.example.org. 900 IN A 192.0.2.33\nfour.example.org. 30 IN A 192.0.2.34"},
		{"dns64", v6, "both.example.org. AAAA", "NOERROR\nboth.example.org. 60 IN AAAA 2001:db8::1"},
		{"dns64 {\ntranslate_all\n}", v6, "both.example.org. AAAA", "NOERROR\nboth.example.org. 60 IN AAAA 64:ff9b::c000:201"},
		{"dns64", v6, "mapped.example.org. AAAA", "NOERROR\nmapped.example.org. 60 IN AAAA 64:ff9b::c000:201"},
		{"dns64", v6, "alias.example.org. AAAA", "NOERROR\nalias.example.org. 60 IN CNAME four.example.org.\nfour.example.org. 600 IN AAAA 64:ff9b::c000:221\nfour.example.org. 30 IN AAAA 64:ff9b::c000:222"},
		{"dns64", v6, "text.example.org. AAAA", "NOERROR"},
		{"dns64", v6, "no.example.org. AAAA", "NXDOMAIN"},
		{"dns64 64:1337::/96", v6, "short.example.org. AAAA", "NOERROR\nshort.example.org. 7 IN AAAA 64:1337::c000:201"},
		{"dns64 {\nprefix 64:1337::/96\n}", v6, "short.example.org. AAAA", "NOERROR\nshort.example.org. 7 IN AAAA 64:1337::c000:201"},
	} {
		name, typ, _ := strings.Cut(c.ask, " ")
		plugintest.Check(t, c.text+": "+c.ask+" from "+c.client, plugintest.Ask(t, c.client, plugintest.Question(name, typ), handler(t, c.text, m), back), c.want)
	}
	want := "# HELP coredns_dns64_requests_translated_total Queries that were answered with AAAA records made of A records.\n" +
		"# TYPE coredns_dns64_requests_translated_total counter\ncoredns_dns64_requests_translated_total{server=\"dns://:53\"} 7\n"
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	check := plugintest.Question("four.example.org.", "AAAA")
	check.CheckingDisabled = true
	check.IsEdns0().SetDo()
	plugintest.Check(t, "a client that validates", plugintest.Ask(t, v6, check, handler(t, "dns64", nil), back), "NOERROR")
}

// TestPrefixes are the examples of RFC 6052 2.4.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"2001:db8::/32":         "2001:db8:c000:221::",
		"2001:db8:100::/40":     "2001:db8:1c0:2:21::",
		"2001:db8:122::/48":     "2001:db8:122:c000:2:2100::",
		"2001:db8:122:300::/56": "2001:db8:122:3c0:0:221::",
		"2001:db8:122:344::/64": "2001:db8:122:344:c0:2:2100::",
		"2001:db8:122:344::/96": "2001:db8:122:344::192.0.2.33",
	} {
		got, _ := netip.AddrFromSlice(Embed(netip.MustParsePrefix(prefix), [4]byte{192, 0, 2, 33}))
		if got != netip.MustParseAddr(want) {
			t.Errorf("%s: %v, want %s", prefix, got, want)
		}
	}
}

func TestNoAllocs(t *testing.T) {
	b := servertest.Block(".", plugintest.Stage(handler(t, "dns64", nil)), plugintest.Stage(plugintest.NewAnswers(t, "b. 1 IN A 192.0.2.1")))
	servertest.NoAllocs(t, servertest.Query("b.", dns.TypeA, 1232), b)
	servertest.NoAllocs(t, servertest.Query("b.", dns.TypeAAAA, 1232), b)
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"dns64 10.0.0.0/8":          "is not an IPv6 prefix",
		"dns64 64:ff9b::":           "is not an IPv6 prefix",
		"dns64 2001:db8::/33":       "is not 32, 40, 48, 56, 64 or 96",
		"dns64 a b":                 "takes one prefix",
		"dns64 {\nprefix\n}":        "needs more arguments",
		"dns64 {\nexclude ::/96\n}": `unknown option "exclude"; known are prefix, translate_all, allow_ipv4`,
	} {
		_, err := Parse(plugintest.Input(t, strings.Replace(text, "dns64 a b", "dns64 64:ff9b::/96 64:ff9b::/96", 1)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "dns64", append(plugintest.Names(Rows()), "64:ff9b::/96", "coredns_dns64_requests_translated_total")...)
}
