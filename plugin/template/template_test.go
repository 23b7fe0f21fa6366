package template

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

func handler(t *testing.T, m *Metrics, text string, zones ...string) *Template {
	t.Helper()
	if len(zones) == 0 {
		zones = []string{"."}
	}
	o, err := Parse(plugintest.Input(t, text, zones...))
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(o, m)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

const ipA = `template IN A example {
	match (^|[.])ip-(?P<a>[0-9]*)-(?P<b>[0-9]*)-(?P<c>[0-9]*)-(?P<d>[0-9]*)[.]example[.]$
	answer "{{ .Name }} 60 IN A {{ .Group.a }}.{{ .Group.b }}.{{ .Group.c }}.{{ .Group.d }}"
	fallthrough
}`

const ipPTR = `template IN PTR in-addr.arpa {
	match ^(?P<d>[0-9]*)[.](?P<c>[0-9]*)[.](?P<b>[0-9]*)[.](?P<a>[0-9]*)[.]in-addr[.]arpa[.]$
	answer "{{ .Name }} 60 IN PTR ip-{{ .Group.a }}-{{ .Group.b }}-{{ .Group.c }}-{{ .Group.d }}.example."
}`

func TestAnswers(t *testing.T) {
	t.Parallel()
	back := plugintest.NewAnswers(t, "www.example.com. 9 IN A 192.0.2.9", "other.example. 9 IN A 192.0.2.8")
	for _, c := range []struct {
		name, text, ask string
		want            []string
	}{
		{"all is NXDOMAIN", "template ANY ANY {\nrcode NXDOMAIN\n}", "any.thing. TXT", []string{"NXDOMAIN"}},
		{"no AAAA", "template IN AAAA . {\nrcode NOERROR\nauthority \". 60 IN SOA ns. root. 1 2 3 4 60\"\n}", "www.example.com. AAAA",
			[]string{"NOERROR", "ns . 60 IN SOA ns. root. 1 2 3 4 60"}},
		{"an empty answer", "template IN AAAA {\nrcode NOERROR\n}", "www.example.com. AAAA", []string{"NOERROR"}},
		{"other types pass", "template IN AAAA . {\nrcode NXDOMAIN\n}", "www.example.com. A", []string{"NOERROR", "www.example.com. 9 IN A 192.0.2.9"}},
		{"a zone of its own", `template ANY ANY invalid {
			rcode NXDOMAIN
			authority "invalid. 60 {{ .Class }} SOA ns.invalid. hostmaster.invalid. (1 60 60 60 60)"
			ederror 21 "Blocked according to RFC2606"
		}`, "Foo.invalid. A", []string{"NXDOMAIN", "ns invalid. 60 IN SOA ns.invalid. hostmaster.invalid. 1 60 60 60 60"}},
		{"groups by name, case kept", ipA, "Web.ip-10-1-2-3.example. A", []string{"NOERROR", "Web.ip-10-1-2-3.example. 60 IN A 10.1.2.3"}},
		{"no match falls through", ipA, "other.example. A", []string{"NOERROR", "other.example. 9 IN A 192.0.2.8"}},
		{"a result that is no record", ipA, "ip-10-1-2-999.example. A", []string{"SERVFAIL"}},
		{"PTR", ipPTR, "3.2.1.10.in-addr.arpa. PTR", []string{"NOERROR", "3.2.1.10.in-addr.arpa. 60 IN PTR ip-10-1-2-3.example."}},
		{"no match without fallthrough", ipPTR, "x.in-addr.arpa. PTR", []string{"SERVFAIL"}},
		{"parseInt", `template IN A example {
			match "^ip0a(?P<b>[a-f0-9]{2})(?P<c>[a-f0-9]{2})(?P<d>[a-f0-9]{2})[.]example[.]$"
			answer "{{ .Name }} 60 IN A 10.{{ parseInt .Group.b 16 8 }}.{{ parseInt .Group.c 16 8 }}.{{ parseInt .Group.d 16 8 }}"
		}`, "ip0a7b0cff.example. A", []string{"NOERROR", "ip0a7b0cff.example. 60 IN A 10.123.12.255"}},
		{"second expression", "template IN A example {\nmatch ^a-(.*)[.]example[.]$\nmatch ^b-(.*)[.]example[.]$\nanswer \"{{ .Name }} 60 IN A 192.0.2.{{ index .Match 1 }}\"\n}",
			"b-7.example. A", []string{"NOERROR", "b-7.example. 60 IN A 192.0.2.7"}},
		{"all sections", `template IN MX example {
			answer "{{ .Name }} 60 IN MX 10 {{ .Name }}"
			additional "{{ .Name }} 60 IN A 192.0.2.1"
			authority "example. 60 IN NS ns0.example."
			authority "example. 60 IN NS ns1.example."
			additional "ns0.example. 60 IN A 203.0.113.8" "ns1.example. 60 IN A 198.51.100.8"
		}`, "m.example. MX", []string{"NOERROR", "m.example. 60 IN MX 10 m.example.", "ns example. 60 IN NS ns0.example.", "ns example. 60 IN NS ns1.example.",
			"extra m.example. 60 IN A 192.0.2.1", "extra ns0.example. 60 IN A 203.0.113.8", "extra ns1.example. 60 IN A 198.51.100.8"}},
		{"a followed CNAME", "template IN ANY goggle.example {\nmatch ^goggle\\.example\\.$\nanswer \"goggle.example 60 IN CNAME www.example.com\"\n}",
			"goggle.example. A", []string{"NOERROR", "goggle.example. 60 IN CNAME www.example.com.", "www.example.com. 9 IN A 192.0.2.9"}},
		{"a CNAME that was asked for", "template IN ANY goggle.example {\nanswer \"goggle.example 60 IN CNAME www.example.com\"\nupstream\n}",
			"goggle.example. CNAME", []string{"NOERROR", "goggle.example. 60 IN CNAME www.example.com."}},
		{"SERVFAIL", "template IN ANY broken {\nrcode SERVFAIL\n}", "broken. A", []string{"SERVFAIL"}},
		{"what templates know", `template IN TXT know {
			answer "{{ .Name }} 1 IN TXT {{ .Zone }} {{ .Class }} {{ .Type }} {{ .Remote }} {{ .Question.Name }} {{ .Message.Opcode }} {{ index .Match 0 }} {{ .Meta \"test/label\" }}"
		}`, "a.know. TXT", []string{"NOERROR", `a.know. 1 IN TXT "know." "IN" "TXT" "127.0.0.1" "a.know." "0" "a.know."`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name, typ, _ := strings.Cut(c.ask, " ")
			text := strings.ReplaceAll(c.text, `\"test/label\"`, "`test/label`")
			r := plugintest.Ask(t, "", plugintest.Question(name, typ), handler(t, NewMetrics(nil), text), back)
			plugintest.Check(t, c.ask, r, c.want...)
		})
	}
}

// known knows one label.
type known struct{}

func (known) Metadata(_ *server.Query, label string) (string, bool) {
	return "blue", label == "test/label"
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	h := handler(t, nil, "template IN TXT . {\nanswer \"{{ .Name }} 1 IN TXT {{ .Meta `test/label` }}\"\n}")
	b := servertest.Block(".", plugintest.Stage(h))
	b.Providers = []server.MetadataProvider{known{}}
	plugintest.Check(t, "metadata", plugintest.AskBlocks(t, "", plugintest.Question("a.", "TXT"), b), "NOERROR", `a. 1 IN TXT "blue"`)
}

func TestExtendedError(t *testing.T) {
	t.Parallel()
	h := handler(t, nil, "template ANY ANY invalid {\nrcode NXDOMAIN\nederror 21 \"not served\"\n}")
	r := plugintest.Ask(t, "", plugintest.Question("a.invalid.", "A"), h)
	o := r.IsEdns0()
	if len(o.Option) != 1 || o.Option[0].String() != "21 (Not Supported): (not served)" {
		t.Errorf("got %v", o)
	}
	if !r.Authoritative {
		t.Error("AA is not set")
	}
}

func TestTargetElsewhere(t *testing.T) {
	t.Parallel()
	h := handler(t, nil, "template IN A a.example {\nanswer \"a.example 60 IN CNAME b.example\"\n}", "a.example.")
	r := plugintest.Ask(t, "", plugintest.Question("a.example.", "A"), h)
	plugintest.Check(t, "a target that nobody serves", r, "NOERROR", "a.example. 60 IN CNAME b.example.")
}

func TestSeveral(t *testing.T) {
	t.Parallel()
	soa := "template IN SOA {\nmatch ^lab\\.example\\.$\nanswer \"{{ .Zone }} 3600 IN SOA ns1.{{ .Zone }} admin.{{ .Zone }} (1 60 120 86400 3600)\"\nfallthrough\n}"
	none := "template IN SOA {\nauthority \"{{ .Zone }} 3600 IN SOA ns1.{{ .Zone }} admin.{{ .Zone }} (1 60 120 86400 3600)\"\n}"
	one, two := handler(t, nil, soa, "lab.example."), handler(t, nil, none, "lab.example.")
	record := "lab.example. 3600 IN SOA ns1.lab.example. admin.lab.example. 1 60 120 86400 3600"
	plugintest.Check(t, "apex", plugintest.Ask(t, "", plugintest.Question("lab.example.", "SOA"), one, two), "NOERROR", record)
	plugintest.Check(t, "below", plugintest.Ask(t, "", plugintest.Question("x.lab.example.", "SOA"), one, two), "NOERROR", "ns "+record)
}

func TestFallthroughZones(t *testing.T) {
	t.Parallel()
	h := handler(t, nil, "template IN A a.example b.example {\nmatch nothing\nanswer \"x 1 IN A 192.0.2.1\"\nfallthrough b.example\n}")
	back := plugintest.NewAnswers(t)
	plugintest.Check(t, "a", plugintest.Ask(t, "", plugintest.Question("x.a.example.", "A"), h, back), "SERVFAIL")
	plugintest.Check(t, "b", plugintest.Ask(t, "", plugintest.Question("x.b.example.", "A"), h, back), "NXDOMAIN")
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	h := handler(t, NewMetrics(reg), ipA)
	for _, name := range []string{"ip-10-1-2-3.example.", "ip-10-1-2-999.example.", "other.example."} {
		plugintest.Ask(t, "", plugintest.Question(name, "A"), h, plugintest.NewAnswers(t))
	}
	want := `# HELP coredns_template_matches_total Queries that a template answered.
# TYPE coredns_template_matches_total counter
coredns_template_matches_total{class="IN",server="dns://:53",type="A",view="",zone="example."} 2
# HELP coredns_template_rr_failures_total Templates whose result was no resource record.
# TYPE coredns_template_rr_failures_total counter
coredns_template_rr_failures_total{class="IN",section="answer",server="dns://:53",template="{{ .Name }} 60 IN A {{ .Group.a }}.{{ .Group.b }}.{{ .Group.c }}.{{ .Group.d }}",type="A",view="",zone="example."} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestMetricsBounded asks for types and classes that have no name. Those are one series, as a client could make as many as there are numbers.
func TestMetricsBounded(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	b := servertest.Block(".", plugintest.Stage(handler(t, m, "template ANY ANY example {\nanswer \"{{ .Name }} 60 IN A {{ .Name }}\"\n}")),
		plugintest.Stage(handler(t, m, "template ANY TYPE300 test {\nrcode NXDOMAIN\n}")))
	b.Options.AnyClass = true
	for i := range uint16(50) {
		for _, name := range []string{"www.example.", "www.test."} {
			q := plugintest.Question(name, "A")
			q.Question[0].Qtype, q.Question[0].Qclass = 300+i, dns.ClassINET+i/25*1000
			plugintest.AskBlocks(t, "", q, b)
		}
	}
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range all {
		for _, s := range f.GetMetric() {
			text := f.GetName()
			for _, l := range s.GetLabel() {
				if n := l.GetName(); n == "class" || n == "type" || n == "zone" {
					text += " " + l.GetValue()
				}
			}
			if n := s.GetCounter().GetValue(); n > 0 {
				got[text] = n
			}
		}
	}
	want := map[string]float64{
		"coredns_template_matches_total IN TYPE300 test.":         1,
		"coredns_template_matches_total IN other example.":        25,
		"coredns_template_matches_total other other example.":     25,
		"coredns_template_rr_failures_total IN other example.":    25,
		"coredns_template_rr_failures_total other other example.": 25,
	}
	if !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

func TestNoAllocs(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	hs := []*Template{handler(t, m, ipA), handler(t, m, "template IN AAAA . {\nrcode NXDOMAIN\nauthority \". 60 IN SOA ns. root. 1 2 3 4 60\"\n}")}
	back := plugintest.NewAnswers(t, "www.example. 5 IN A 192.0.2.1")
	b := servertest.Block(".", plugintest.Stage(hs[0]), plugintest.Stage(hs[1]), plugintest.Stage(back))
	servertest.NoAllocs(t, servertest.Query("www.example.", dns.TypeA, 1232), b)
	servertest.NoAllocs(t, servertest.Query("www.example.", dns.TypeAAAA, 1232), b)
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"template IN":                                 "a class and a type must follow",
		"template XX A {\nrcode NXDOMAIN\n}":          `"XX" is not a class`,
		"template IN XX {\nrcode NXDOMAIN\n}":         `"XX" is not a record type`,
		"template IN A a..b {\nrcode NXDOMAIN\n}":     "has an empty label",
		"template IN A {\nmatch (\nrcode NXDOMAIN\n}": `Corefile:2: template: match: "(" is not a regular expression`,
		"template IN A {\nanswer {{\n}":               "is not a template",
		"template IN A {\nrcode NONSENSE\n}":          "is not a response code",
		"template IN A {\nederror x\n}":               "is not a whole number",
		"template IN A {\nreply x\n}":                 `unknown option "reply"; known are match, answer, additional, authority, rcode, ederror, fallthrough, upstream`,
	} {
		_, err := Parse(plugintest.Input(t, text, "."))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
	if _, err := New(Options{Answer: []string{"no record"}}, nil); err == nil {
		t.Error("text without a template that is no record was taken")
	}
	one, _ := Parse(plugintest.Input(t, ipA, "."))
	two, _ := Parse(plugintest.Input(t, ipA, "."))
	if !reflect.DeepEqual(one, two) {
		t.Error("equal options are not deeply equal")
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "template", append(plugintest.Names(Rows()), "parseInt", ".Zone", ".Name", ".Class", ".Type", ".Match", ".Group", ".Message", ".Question", ".Remote", ".Meta",
		"coredns_template_matches_total", "coredns_template_template_failures_total", "coredns_template_rr_failures_total")...)
}
