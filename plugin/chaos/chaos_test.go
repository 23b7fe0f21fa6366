package chaos

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server/servertest"
)

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, name string
		typ, class uint16
		want       string
	}{
		{"chaos", "version.bind.", dns.TypeTXT, dns.ClassCHAOS, "NOERROR\nversion.bind. 0 CH TXT \"clusterdns-1\""},
		{"chaos mine-7 one@example.org two@example.org", "Version.Server.", dns.TypeTXT, dns.ClassCHAOS, "NOERROR\nVersion.Server. 0 CH TXT \"mine-7\""},
		{"chaos mine-7 one@example.org two@example.org", "authors.bind.", dns.TypeTXT, dns.ClassCHAOS,
			"NOERROR\nauthors.bind. 0 CH TXT \"one@example.org\"\nauthors.bind. 0 CH TXT \"two@example.org\""},
		{"chaos", "authors.bind.", dns.TypeTXT, dns.ClassCHAOS, "NOERROR"},
		{"chaos", "hostname.bind.", dns.TypeTXT, dns.ClassCHAOS, "NOERROR\nhostname.bind. 0 CH TXT \"host-1\""},
		{"chaos", "id.server.", dns.TypeTXT, dns.ClassCHAOS, "NOERROR\nid.server. 0 CH TXT \"host-1\""},
		{"chaos", "other.bind.", dns.TypeTXT, dns.ClassCHAOS, "NXDOMAIN"},
		{"chaos", "version.bind.", dns.TypeTXT, dns.ClassINET, "NXDOMAIN"},
		{"chaos", "version.bind.", dns.TypeA, dns.ClassCHAOS, "NXDOMAIN"},
	} {
		o, err := Parse(plugintest.Input(t, c.text))
		if err != nil {
			t.Fatal(err)
		}
		m := servertest.Query(c.name, c.typ, 1232)
		m.Question[0].Qclass = c.class
		b := servertest.Block(".", plugintest.Stage(New(o, "clusterdns-1", "host-1")), plugintest.Stage(plugintest.NewAnswers(t)))
		b.Options.AnyClass = true
		plugintest.Check(t, c.text+": "+c.name, plugintest.AskBlocks(t, "", m, b), c.want)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"chaos " + strings.Repeat("x", 256): "does not fit into a TXT record",
		"chaos {\nx y\n}":                   "takes no options in braces",
	} {
		if _, err := Parse(plugintest.Input(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "chaos", "VERSION", "AUTHORS...", "version.bind", "version.server", "authors.bind", "hostname.bind", "id.server")
}
