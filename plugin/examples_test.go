package plugin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// The zones and hosts of the examples.
var exampleFiles = map[string]string{
	"db.test.example": `$ORIGIN test.example.
$TTL 300
@ SOA ns1 host 7 7200 3600 1209600 60
@ NS ns1
@ MX 10 mail
ns1 A 192.0.2.1
www A 192.0.2.10
www AAAA 2001:db8::10
mail A 192.0.2.25
alias CNAME www
dead CNAME nothing
*.wild A 192.0.2.99
sub NS ns.sub
ns.sub A 192.0.2.53
dn DNAME test.example.
_sip._tcp SRV 1 2 5060 www
a.b.c A 192.0.2.7
zero 0 A 192.0.2.50
`,
	"db.two.example":       "$TTL 300\n@ SOA ns1 host 8 7200 3600 1209600 60\n@ NS ns1\nwww A 192.0.2.88\n",
	"www.db.three.example": "$TTL 300\n@ SOA ns1 host 9 7200 3600 1209600 60\n@ NS ns1\nwww A 192.0.2.89\n",
	"names":                "192.168.1.10 example.com short\n192.168.1.20 *.example.com\n192.168.1.11 a.example.com\nfdfc::1 example.com\n",
}

const (
	nsOf  = "ns test.example. 300 IN NS ns1.test.example."
	soaOf = "ns test.example. 60 IN SOA ns1.test.example. host.test.example. 7 7200 3600 1209600 60"
)

// TestExamples has what CoreDNS's documentation shows of its directives, as this project would tell it: a Corefile, and what clients are answered.
// What is documented to be answered otherwise here is in docs/.
func TestExamples(t *testing.T) {
	t.Parallel()
	serve := "\n file db.test.example test.example\n"
	for _, c := range []struct {
		name, directives string
		cases            []string // "[CLIENT] NAME TYPE [CLASS]", then the reply
	}{
		{"rewrite: parts of names", " rewrite name substring svc.west.test.example test.example\n rewrite name regex (.*)-(west)\\.in\\.example {1}.test.example\n rewrite name suffix .alias.example. .test.example.\n rewrite name prefix old. www." + serve, []string{
			"www.svc.west.test.example. A", "NOERROR\nwww.test.example. 300 IN A 192.0.2.10\n" + nsOf,
			"www-west.in.example. A", "NOERROR\nwww.test.example. 300 IN A 192.0.2.10\n" + nsOf,
			"www.alias.example. A", "NOERROR\nwww.test.example. 300 IN A 192.0.2.10\n" + nsOf,
			"old.test.example. A", "NOERROR\nwww.test.example. 300 IN A 192.0.2.10\n" + nsOf,
			"no.alias.example. A", "NXDOMAIN\n" + soaOf,
		}},
		{"rewrite: answers turned back", " rewrite stop {\n  name suffix .auto.example .test.example answer auto\n }\n rewrite stop {\n  name regex (.*)-(west)\\.in\\.example {1}.test.example\n  answer name (.*)\\.test\\.example {1}-west.in.example\n }\n rewrite name exact exact.example www.test.example\n" +
			" rewrite name regex ^(.*)\\.both\\.example\\.$ {1}.test.example answer name (.*)\\.test\\.example {1}.both.example value (.*)\\.test\\.example {1}.both.example" + serve, []string{
			"www.auto.example. A", "NOERROR\nwww.auto.example. 300 IN A 192.0.2.10\nns test.example. 300 IN NS ns1.auto.example.",
			"alias.auto.example. A", "NOERROR\nalias.auto.example. 300 IN CNAME www.auto.example.\nwww.auto.example. 300 IN A 192.0.2.10\nns test.example. 300 IN NS ns1.auto.example.",
			"www-west.in.example. A", "NOERROR\nwww-west.in.example. 300 IN A 192.0.2.10\n" + nsOf,
			"exact.example. AAAA", "NOERROR\nexact.example. 300 IN AAAA 2001:db8::10\n" + nsOf,
			"_sip._tcp.both.example. SRV", "NOERROR\n_sip._tcp.both.example. 300 IN SRV 1 2 5060 www.both.example.\nns test.example. 300 IN NS ns1.both.example.\nextra www.both.example. 300 IN A 192.0.2.10\nextra www.both.example. 300 IN AAAA 2001:db8::10",
		}},
		{"rewrite: the data of PTR records", " rewrite stop {\n  name suffix .arpa .arpa\n  answer name auto\n  answer value (.*)\\.inner\\.example\\. {1}.outer.example.\n }\n template IN PTR 10.in-addr.arpa {\n  answer \"{{ .Name }} 60 IN PTR host.inner.example.\"\n }\n", []string{
			"30.30.30.10.in-addr.arpa. PTR", "NOERROR\n30.30.30.10.in-addr.arpa. 60 IN PTR host.outer.example.",
		}},
		{"rewrite: TTLs", " rewrite continue {\n  ttl regex (.*)\\.wild\\.test\\.example 15\n }\n rewrite ttl www.test.example. 30-200\n rewrite ttl exact mail.test.example -30\n rewrite ttl suffix .c.test.example 500-\n rewrite ttl zero.test.example 20" + serve, []string{
			"y.wild.test.example. A", "NOERROR\ny.wild.test.example. 15 IN A 192.0.2.99\nns test.example. 15 IN NS ns1.test.example.",
			"www.test.example. A", "NOERROR\nwww.test.example. 200 IN A 192.0.2.10\nns test.example. 200 IN NS ns1.test.example.",
			"mail.test.example. A", "NOERROR\nmail.test.example. 30 IN A 192.0.2.25\nns test.example. 30 IN NS ns1.test.example.",
			"a.b.c.test.example. A", "NOERROR\na.b.c.test.example. 500 IN A 192.0.2.7\nns test.example. 500 IN NS ns1.test.example.",
			"zero.test.example. A", "NOERROR\nzero.test.example. 20 IN A 192.0.2.50\nns test.example. 20 IN NS ns1.test.example.",
		}},
		{"rewrite: response codes", " rewrite rcode regex (.*)\\.bad\\.example SERVFAIL NOERROR\n rewrite rcode suffix .worse.example 3 0\n template ANY ANY bad.example {\n  rcode SERVFAIL\n }\n template ANY ANY worse.example {\n  rcode NXDOMAIN\n }\n", []string{
			"a.bad.example. A", "NOERROR", "bad.example. A", "SERVFAIL", "a.worse.example. A", "NOERROR", "worse.example. A", "NXDOMAIN",
		}},
		{"rewrite: types and classes", " rewrite type ANY HINFO\n rewrite class CH IN\n template IN HINFO . {\n  answer \"{{ .Name }} 60 IN HINFO a b\"\n }\n", []string{
			"q.example. ANY", "NOERROR\nq.example. 60 IN HINFO \"a\" \"b\"",
			"q.example. HINFO CH", "NOERROR\nq.example. 60 IN HINFO \"a\" \"b\"",
		}},
		{"rewrite: another end of a CNAME", " rewrite cname regex (.*).cdn.example. {1}.other.example.\n file db.test.example test.example\n template IN A app.example {\n  answer \"{{ .Name }} 200 IN CNAME app.cdn.example.\"\n }\n template IN A cdn.example {\n  answer \"{{ .Name }} 300 IN A 192.0.2.2\"\n }\n template IN A other.example {\n  answer \"{{ .Name }} 100 IN A 192.0.2.30\"\n }\n", []string{
			"app.example. A", "NOERROR\napp.example. 200 IN CNAME app.other.example.\napp.other.example. 100 IN A 192.0.2.30",
			"x.cdn.example. A", "NOERROR\nx.cdn.example. 300 IN A 192.0.2.2",
		}},
		{"acl: transfers for some", " acl {\n  allow type AXFR net 10.1.0.0/16\n  block type AXFR net *\n }\n transfer test.example {\n  to *\n }" + serve, []string{
			"10.2.0.1 test.example. AXFR", "REFUSED", "10.2.0.1 ns1.test.example. AAAA", "NOERROR\n" + soaOf,
		}},
		{"file", serve, []string{
			"test.example. NS", "NOERROR\ntest.example. 300 IN NS ns1.test.example.\nextra ns1.test.example. 300 IN A 192.0.2.1",
			"www.test.example. MX", "NOERROR\n" + soaOf,
			"no.test.example. A", "NXDOMAIN\n" + soaOf,
			"alias.test.example. A", "NOERROR\nalias.test.example. 300 IN CNAME www.test.example.\nwww.test.example. 300 IN A 192.0.2.10\n" + nsOf,
			"dead.test.example. A", "NXDOMAIN\ndead.test.example. 300 IN CNAME nothing.test.example.\n" + soaOf,
			"q.wild.test.example. A", "NOERROR\nq.wild.test.example. 300 IN A 192.0.2.99\n" + nsOf,
			"wild.test.example. A", "NOERROR\n" + soaOf,
			"h.sub.test.example. A", "NOERROR\nns sub.test.example. 300 IN NS ns.sub.test.example.\nextra ns.sub.test.example. 300 IN A 192.0.2.53",
			"www.dn.test.example. AAAA", "NOERROR\ndn.test.example. 300 IN DNAME test.example.\nwww.dn.test.example. 300 IN CNAME www.test.example.\nwww.test.example. 300 IN AAAA 2001:db8::10\n" + nsOf,
			"www.elsewhere.example. A", "REFUSED", // nobody here serves it
		}},
		{"file: one for several zones", " file db.two.example two.example dos.example\n", []string{
			"www.two.example. A", "NOERROR\nwww.two.example. 300 IN A 192.0.2.88\nns two.example. 300 IN NS ns1.two.example.",
			"www.dos.example. A", "NOERROR\nwww.dos.example. 300 IN A 192.0.2.88\nns dos.example. 300 IN NS ns1.dos.example.",
		}},
		{"file: some names fall through", " file db.test.example test.example {\n  fallthrough wild.test.example\n }\n erratic {\n  drop 0\n }\n", []string{
			"no.test.example. A", "NXDOMAIN\n" + soaOf,
			"no.wild.test.example. TXT", "NOERROR\n" + soaOf,
			"other.example. A", "NOERROR\nother.example. 0 IN A 192.0.2.53",
		}},
		{"auto: file names of another form", " auto example {\n  directory . www\\.db\\.(.*) {1}\n  reload 45s\n }\n", []string{
			"www.three.example. A", "NOERROR\nwww.three.example. 300 IN A 192.0.2.89\nns three.example. 300 IN NS ns1.three.example.",
			"www.two.example. A", "SERVFAIL",
		}},
		{"auto: zones outside its own are not asked for", " auto two.example {\n  directory .\n }\n", []string{
			"www.two.example. A", "NOERROR\nwww.two.example. 300 IN A 192.0.2.88\nns two.example. 300 IN NS ns1.two.example.",
			"www.test.example. A", "SERVFAIL",
		}},
		{"hosts: a file, lines and wildcards", " hosts names example.com {\n  192.168.1.12 b.example.com\n  fallthrough sub.example.com\n }\n template IN TXT sub.example.com {\n  answer \"{{ .Name }} 60 IN TXT fell\"\n }\n", []string{
			"example.com. AAAA", "NOERROR\nexample.com. 3600 IN AAAA fdfc::1",
			"a.example.com. A", "NOERROR\na.example.com. 3600 IN A 192.168.1.11",
			"a.example.com. TXT", "NOERROR",
			"b.example.com. A", "NOERROR\nb.example.com. 3600 IN A 192.168.1.12",
			"apps.example.com. A", "NOERROR\napps.example.com. 3600 IN A 192.168.1.20",
			"deep.apps.example.com. A", "SERVFAIL",
			"12.1.168.192.in-addr.arpa. PTR", "NOERROR\n12.1.168.192.in-addr.arpa. 3600 IN PTR b.example.com.",
		}},
		{"hosts: types that it does not have", " hosts names {\n  ttl 60\n  no_reverse\n  fallthrough\n  fallthrough_unsupported\n }\n whoami\n", []string{
			"a.example.com. A", "NOERROR\na.example.com. 60 IN A 192.168.1.11",
			"a.example.com. AAAA", "NOERROR",
			"127.0.0.1 a.example.com. TXT", "NOERROR\nextra a.example.com. 0 IN A 127.0.0.1\nextra _tcp.a.example.com. 0 IN SRV 0 0 4000 .",
		}},
		{"template: nothing exists", " template ANY ANY {\n  rcode NXDOMAIN\n }\n", []string{"x.example. A", "NXDOMAIN", "x.example. TXT CH", "NXDOMAIN"}},
		{"template: reserved names", " template ANY ANY invalid {\n  rcode NXDOMAIN\n  authority \"invalid. 60 {{ .Class }} SOA ns.invalid. hostmaster.invalid. (1 60 60 60 60)\"\n  ederror 21 \"not here\"\n }\n", []string{
			"x.invalid. A", "NXDOMAIN\nns invalid. 60 IN SOA ns.invalid. hostmaster.invalid. 1 60 60 60 60",
			"x.invalid. A CH", "NXDOMAIN\nns invalid. 60 CH SOA ns.invalid. hostmaster.invalid. 1 60 60 60 60",
		}},
		{"template: search domains that were appended", " template IN ANY corp.example.dc.example {\n  rcode NXDOMAIN\n  authority \"{{ .Zone }} 60 IN SOA ns.corp.example hostmaster.corp.example (1 60 60 60 60)\"\n }\n template IN ANY corp.example {\n  match \"corp\\.example\\.(dc2\\.corp\\.example\\.)$\"\n  rcode NXDOMAIN\n  authority \"{{ index .Match 1 }} 60 IN SOA ns.{{ index .Match 1 }} h.{{ index .Match 1 }} (1 60 60 60 60)\"\n  fallthrough\n }\n", []string{
			"www.corp.example.dc.example. A", "NXDOMAIN\nns corp.example.dc.example. 60 IN SOA ns.corp.example. hostmaster.corp.example. 1 60 60 60 60",
			"www.corp.example.dc2.corp.example. A", "NXDOMAIN\nns dc2.corp.example. 60 IN SOA ns.dc2.corp.example. h.dc2.corp.example. 1 60 60 60 60",
			"www.corp.example. A", "SERVFAIL",
		}},
		{"template: addresses in names", " template IN A ip.example {\n  match (^|[.])ip-(?P<a>[0-9]*)-(?P<b>[0-9]*)-(?P<c>[0-9]*)-(?P<d>[0-9]*)[.]ip[.]example[.]$\n  match \"^(?P<a>[0-9]*)[.](?P<b>[0-9]*)[.](?P<c>[0-9]*)[.](?P<d>[0-9]*)[.]ext[.]ip[.]example[.]$\"\n  answer \"{{ .Name }} 60 IN A {{ .Group.a }}.{{ .Group.b }}.{{ .Group.c }}.{{ .Group.d }}\"\n  authority \"ip.example. 60 IN NS ns0.ip.example.\"\n  additional \"ns0.ip.example. 60 IN A 203.0.113.8\"\n }\n template IN MX ip.example {\n  match ^ip-10-(?P<b>[0-9]*)[.]ip[.]example[.]$\n  answer \"{{ .Name }} 60 IN MX 10 {{ .Name }}\"\n  additional \"{{ .Name }} 60 IN A 10.0.0.{{ .Group.b }}\"\n  fallthrough\n }\n template IN PTR 2.0.192.in-addr.arpa {\n  match ^(?P<d>[0-9]*)[.]2[.]0[.]192[.]in-addr[.]arpa[.]$\n  answer \"{{ .Name }} 60 IN PTR ip-192-0-2-{{ .Group.d }}.ip.example.\"\n }\n template IN A hex.example {\n  match \"^ip0a(?P<b>[a-f0-9]{2})(?P<c>[a-f0-9]{2})(?P<d>[a-f0-9]{2})[.]hex[.]example[.]$\"\n  answer \"{{ .Name }} 60 IN A 10.{{ parseInt .Group.b 16 8 }}.{{ parseInt .Group.c 16 8 }}.{{ parseInt .Group.d 16 8 }}\"\n  fallthrough\n }\n", []string{
			"ip-192-0-2-4.ip.example. A", "NOERROR\nip-192-0-2-4.ip.example. 60 IN A 192.0.2.4\nns ip.example. 60 IN NS ns0.ip.example.\nextra ns0.ip.example. 60 IN A 203.0.113.8",
			"any.ip-192-0-2-4.ip.example. A", "NOERROR\nany.ip-192-0-2-4.ip.example. 60 IN A 192.0.2.4\nns ip.example. 60 IN NS ns0.ip.example.\nextra ns0.ip.example. 60 IN A 203.0.113.8",
			"192.0.2.5.ext.ip.example. A", "NOERROR\n192.0.2.5.ext.ip.example. 60 IN A 192.0.2.5\nns ip.example. 60 IN NS ns0.ip.example.\nextra ns0.ip.example. 60 IN A 203.0.113.8",
			"bad.ip.example. A", "SERVFAIL",
			"ip-10-7.ip.example. MX", "NOERROR\nip-10-7.ip.example. 60 IN MX 10 ip-10-7.ip.example.\nextra ip-10-7.ip.example. 60 IN A 10.0.0.7",
			"7.2.0.192.in-addr.arpa. PTR", "NOERROR\n7.2.0.192.in-addr.arpa. 60 IN PTR ip-192-0-2-7.ip.example.",
			"ip0a7b7b7b.hex.example. A", "NOERROR\nip0a7b7b7b.hex.example. 60 IN A 10.123.123.123",
		}},
		{"template: a CNAME", " template IN ANY cn.example {\n  match \"^cn\\.example\\.$\"\n  answer \"cn.example 60 IN CNAME www.test.example\"\n }" + serve, []string{
			"cn.example. A", "NOERROR\ncn.example. 60 IN CNAME www.test.example.\nwww.test.example. 300 IN A 192.0.2.10\n" + nsOf,
		}},
		{"chaos", " chaos Our-DNS-1 hostmaster@example.org\n", []string{
			"version.bind. TXT CH", "NOERROR\nversion.bind. 0 CH TXT \"Our-DNS-1\"",
			"version.server. TXT CH", "NOERROR\nversion.server. 0 CH TXT \"Our-DNS-1\"",
			"authors.bind. TXT CH", "NOERROR\nauthors.bind. 0 CH TXT \"hostmaster@example.org\"",
		}},
		{"other classes are nobody's", " chaos\n local\n hosts names {\n  fallthrough\n }\n k8s_external test.example" + serve, []string{
			"a.example.com. A CH", "REFUSED", "localhost. A CH", "REFUSED", "www.test.example. A CH", "REFUSED", "www.test.example. A HS", "REFUSED",
		}},
		{"any", " any" + serve, []string{"www.test.example. ANY", "NOERROR\nwww.test.example. 8482 IN HINFO \"ANY obsoleted\" \"See RFC 8482\""}},
		{"minimal", " minimal" + serve, []string{
			"www.test.example. A", "NOERROR\nwww.test.example. 300 IN A 192.0.2.10",
			"test.example. MX", "NOERROR\ntest.example. 300 IN MX 10 mail.test.example.",
			"no.test.example. A", "NXDOMAIN\n" + soaOf,
			"h.sub.test.example. A", "NOERROR\nns sub.test.example. 300 IN NS ns.sub.test.example.\nextra ns.sub.test.example. 300 IN A 192.0.2.53",
		}},
		{"view: by address, by type and by name", " view a {\n  expr incidr(client_ip(), '192.168.0.0/16')\n }\n hosts {\n  192.0.2.1 test\n }\n}\n.:53 {\n view b {\n  expr type() in ['MX', 'TXT']\n }\n template ANY ANY {\n  rcode NXDOMAIN\n }\n}\n.:53 {\n view c {\n  expr name() matches '^abc\\\\..*\\\\.example\\\\.com\\\\.$'\n }\n hosts {\n  192.0.2.3 abc.x.y.example.com\n }\n}\n.:53 {\n hosts {\n  192.0.2.4 test abc.x.y.example.net\n }\n", []string{
			"192.168.7.7 test. A", "NOERROR\ntest. 3600 IN A 192.0.2.1", "10.0.0.1 test. A", "NOERROR\ntest. 3600 IN A 192.0.2.4", "10.0.0.1 test. MX", "NXDOMAIN",
			"10.0.0.1 abc.x.y.example.com. A", "NOERROR\nabc.x.y.example.com. 3600 IN A 192.0.2.3",
			"10.0.0.1 abc.x.y.example.net. A", "NOERROR\nabc.x.y.example.net. 3600 IN A 192.0.2.4",
		}},
		{"loadbalance: nets that come first", " loadbalance round_robin {\n  prefer 10.9.20.0/24 192.168.1.0/24\n }\n template IN A . {\n  answer \"{{ .Name }} 60 IN A 192.0.2.1\"\n  answer \"{{ .Name }} 60 IN A 192.168.1.1\"\n  answer \"{{ .Name }} 60 IN A 10.9.20.1\"\n }\n", []string{
			"x.example. A", "NOERROR\nx.example. 60 IN A 10.9.20.1\nx.example. 60 IN A 192.168.1.1\nx.example. 60 IN A 192.0.2.1",
		}},
		{"erratic and whoami", " erratic {\n  drop 0\n }\n", []string{
			"x.example. A", "NOERROR\nx.example. 0 IN A 192.0.2.53", "x.example. AAAA", "NOERROR\nx.example. 0 IN AAAA 2001:db8::53", "x.example. TXT", "SERVFAIL",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := example(t, ".:53 {\n"+c.directives+"}\n")
			for i := 0; i < len(c.cases); i += 2 {
				f := strings.Fields(c.cases[i])
				client := ""
				if !strings.HasSuffix(f[0], ".") {
					client, f = f[0], f[1:]
				}
				m := plugintest.Question(f[0], f[1])
				if len(f) > 2 {
					m.Question[0].Qclass = dns.StringToClass[f[2]]
				}
				plugintest.Check(t, c.cases[i], plugintest.AskBlocks(t, client, m, b...), c.cases[i+1])
			}
		})
	}
}

// example builds a Corefile beside the files of the examples, in whose folder its paths begin.
func example(t *testing.T, corefile string) []*server.Block {
	t.Helper()
	dir := t.TempDir()
	for name, text := range exampleFiles {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return listening(t, dir, strings.ReplaceAll(corefile, ".:53 {\n", ".:53 {\n root "+dir+"\n"))
}

// TestTenThatDoNotApply answers a name of the cluster behind ten directives that have nothing to do with it: that takes no memory.
func TestTenThatDoNotApply(t *testing.T) {
	b := blocks(t, ".:53 {\n nsid\n local\n any\n chaos one\n acl {\n  block type TXT net 192.0.2.0/24\n }\n rewrite name exact a.example b.example\n rewrite name suffix .x.example .y.example answer auto\n rewrite name regex (.*)\\.svc\\.other$ {1}.svc.cluster.local answer auto\n template IN A lab.example {\n  match ^ip-([0-9]+)[.]\n  answer \"{{ .Name }} 5 IN A 192.0.2.{{ index .Match 1 }}\"\n  fallthrough\n }\n transfer example.org {\n  to *\n }\n hosts {\n  192.0.2.1 registry.example\n  fallthrough\n }\n k8s_external out.example\n dns64\n file ZONEFILE example.org\n minimal\n loadbalance\n cancel\n bufsize 1232\n kubernetes cluster.local {\n  manifests CLUSTER\n }\n cache 30\n forward . UPSTREAM\n}")
	for _, typ := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV} {
		servertest.NoAllocs(t, servertest.Query("web.shop.svc.cluster.local.", typ, 1232), b...)
		servertest.NoAllocs(t, servertest.Query("no.shop.svc.cluster.local.", typ, 1232), b...)
	}
	plugintest.Check(t, "the answer", plugintest.AskBlocks(t, "", plugintest.Question("web.shop.svc.cluster.local.", "A"), b...), "NOERROR", "web.shop.svc.cluster.local. 5 IN A 10.96.0.1")
}
