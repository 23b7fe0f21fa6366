package rewrite

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

func rules(t *testing.T, lines ...string) *Rewrite {
	t.Helper()
	var all []Options
	for _, l := range lines {
		o, err := Parse(plugintest.Input(t, l))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return New(all)
}

func TestNames(t *testing.T) {
	t.Parallel()
	back := plugintest.NewAnswers(t,
		"web.default.svc.cluster.local. 5 IN A 10.96.0.1",
		"ftp.service.us-west-1.consul. 30 IN A 10.10.10.10",
		"ftp.service.us-west-1.consul. 30 IN A 10.20.20.20",
		"shop.google.example. 60 IN CNAME www.google.example.",
		"www.google.example. 60 IN A 192.0.2.8",
		"_sip._tcp.google.example. 60 IN SRV 1 2 5060 a.google.example.",
		"7.2.0.192.in-addr.arpa. 60 IN PTR seven.service.consul.",
		"mail.consul. 60 IN MX 10 mx.service.consul.",
		". 9 IN NS x.example.", "b.example. 60 IN A 192.0.2.2", "c.example. 60 IN A 192.0.2.3")
	for _, c := range []struct {
		name  string
		rules []string
		ask   string
		want  []string
	}{
		{"exact", []string{"rewrite name shop.example.org web.default.svc.cluster.local"}, "Shop.example.org. A",
			[]string{"Shop.example.org. 5 IN A 10.96.0.1"}},
		{"exact leaves other names", []string{"rewrite name exact shop.example.org web.default.svc.cluster.local"}, "b.example. A",
			[]string{"b.example. 60 IN A 192.0.2.2"}},
		{"substring", []string{"rewrite name substring service.us-west-1.example.org service.us-west-1.consul answer auto"}, "ftp.service.us-west-1.example.org. A",
			[]string{"ftp.service.us-west-1.example.org. 30 IN A 10.10.10.10", "ftp.service.us-west-1.example.org. 30 IN A 10.20.20.20"}},
		{"prefix", []string{"rewrite name prefix www. ftp."}, "www.service.us-west-1.consul. A",
			[]string{"ftp.service.us-west-1.consul. 30 IN A 10.10.10.10", "ftp.service.us-west-1.consul. 30 IN A 10.20.20.20"}},
		{"suffix with CNAME", []string{"rewrite name suffix .goggle.example. .google.example. answer auto"}, "shop.goggle.example. A",
			[]string{"shop.goggle.example. 60 IN CNAME www.goggle.example.", "www.goggle.example. 60 IN A 192.0.2.8"}},
		{"suffix with SRV", []string{"rewrite name suffix .goggle.example .google.example answer auto"}, "_sip._tcp.goggle.example. SRV",
			[]string{"_sip._tcp.goggle.example. 60 IN SRV 1 2 5060 a.goggle.example."}},
		{"regex without answer", []string{`rewrite name regex (.*)-(us-west-1)\.example\.org {1}.service.{2}.consul`}, "ftp-us-west-1.example.org. A",
			[]string{"ftp.service.us-west-1.consul. 30 IN A 10.10.10.10", "ftp.service.us-west-1.consul. 30 IN A 10.20.20.20"}},
		{"regex with answer name", []string{"rewrite stop {\nname regex (.*)-(us-west-1)\\.example\\.org {1}.service.{2}.consul\nanswer name (.*)\\.service\\.(us-west-1)\\.consul {1}-{2}.example.org\n}"}, "ftp-us-west-1.example.org. A",
			[]string{"ftp-us-west-1.example.org. 30 IN A 10.10.10.10", "ftp-us-west-1.example.org. 30 IN A 10.20.20.20"}},
		{"regex on the line", []string{`rewrite name regex (.*)-(us-west-1)\.example\.org {1}.service.{2}.consul answer name (.*)\.service\.(us-west-1)\.consul {1}-{2}.example.org`}, "ftp-us-west-1.example.org. A",
			[]string{"ftp-us-west-1.example.org. 30 IN A 10.10.10.10", "ftp-us-west-1.example.org. 30 IN A 10.20.20.20"}},
		{"answer value", []string{"rewrite stop {\nname suffix .arpa .arpa\nanswer name auto\nanswer value (.*)\\.service\\.consul\\. {1}.example.org.\n}"}, "7.2.0.192.in-addr.arpa. PTR",
			[]string{"7.2.0.192.in-addr.arpa. 60 IN PTR seven.example.org."}},
		{"answer without the word", []string{`rewrite name regex (.*)\.example\.org {1}.consul answer name (.*)\.consul {1}.example.org value (.*)\.service\.consul {1}.example.org`}, "mail.example.org. MX",
			[]string{"mail.example.org. 60 IN MX 10 mx.example.org."}},
		{"stop", []string{"rewrite name a.example b.example", "rewrite name b.example c.example"}, "a.example. A",
			[]string{"a.example. 60 IN A 192.0.2.2"}},
		{"continue", []string{"rewrite continue name a.example b.example", "rewrite name b.example c.example"}, "a.example. A",
			[]string{"a.example. 60 IN A 192.0.2.3"}},
		{"the root", []string{"rewrite name a.example ."}, "a.example. NS", []string{"a.example. 9 IN NS x.example."}},
		{"type", []string{"rewrite type AAAA A"}, "b.example. AAAA", []string{"b.example. 60 IN A 192.0.2.2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name, typ, _ := strings.Cut(c.ask, " ")
			m := plugintest.Question(name, typ)
			r := plugintest.Ask(t, "", m, rules(t, c.rules...), back)
			plugintest.Check(t, c.ask, r, append([]string{"NOERROR"}, c.want...)...)
			if r.Question[0] != m.Question[0] {
				t.Errorf("the question became %v", r.Question[0])
			}
		})
	}
}

func TestFollowedNamesAreRewrittenToo(t *testing.T) {
	t.Parallel()
	back := plugintest.NewAnswers(t, "a.example. 5 IN CNAME old.example.", "new.example. 5 IN A 192.0.2.1")
	r := plugintest.Ask(t, "", plugintest.Question("a.example.", "A"), rules(t, "rewrite name old.example new.example"), back)
	plugintest.Check(t, "a.example.", r, "NOERROR", "a.example. 5 IN CNAME old.example.", "old.example. 5 IN A 192.0.2.1")
}

func TestClass(t *testing.T) {
	t.Parallel()
	m := plugintest.Question("version.bind.", "TXT")
	m.Question[0].Qclass = dns.ClassCHAOS
	back := plugintest.NewAnswers(t, "version.bind. 0 IN TXT one")
	var class uint16
	back.Asked = func(q *server.Query) { class = uint16(q.Class) }
	b := servertest.Block(".", plugintest.Stage(rules(t, "rewrite class CH IN")), plugintest.Stage(back))
	b.Options.AnyClass = true // as chaos and forward do
	r := plugintest.AskBlocks(t, "", m, b)
	if class != dns.ClassINET || len(r.Answer) != 1 {
		t.Errorf("asked for class %d, got %v", class, r)
	}
}

func TestTTL(t *testing.T) {
	t.Parallel()
	back := plugintest.NewAnswers(t, "a.example.org. 100 IN A 192.0.2.1")
	for rule, want := range map[string]string{
		"rewrite ttl a.example.org 15":                     "15",
		"rewrite ttl exact a.example.org. 30-300":          "100",
		"rewrite ttl suffix example.org -30":               "30",
		"rewrite ttl prefix a.exam 300-":                   "100", // a prefix has its final dot
		"rewrite ttl prefix a 300-":                        "300",
		"rewrite ttl substring exam 7":                     "100",
		"rewrite ttl substring example.org 7":              "7",
		"rewrite continue {\nttl regex (.*)\\.org 200-\n}": "200",
		"rewrite ttl b.example.org 15":                     "100",
	} {
		r := plugintest.Ask(t, "", plugintest.Question("a.example.org.", "A"), rules(t, rule), back)
		plugintest.Check(t, rule, r, "NOERROR", "a.example.org. "+want+" IN A 192.0.2.1")
	}
}

func TestOrderOfTTLs(t *testing.T) {
	h := rules(t, "rewrite continue ttl suffix example.org 5", "rewrite continue rcode suffix example.org NXDOMAIN SERVFAIL", "rewrite continue ttl suffix example.org 10-20", "rewrite rcode suffix example.org SERVFAIL REFUSED")
	back := plugintest.NewAnswers(t, "a.example.org. 100 IN A 192.0.2.1", "b.example.org. 100 IN CNAME a.example.org.")
	plugintest.Check(t, "an answer", plugintest.Ask(t, "", plugintest.Question("a.example.org.", "A"), h, back), "NOERROR", "a.example.org. 10 IN A 192.0.2.1")
	plugintest.Check(t, "two names", plugintest.Ask(t, "", plugintest.Question("b.example.org.", "A"), h, back), "NOERROR", "b.example.org. 10 IN CNAME a.example.org.", "a.example.org. 10 IN A 192.0.2.1")
	plugintest.Check(t, "none", plugintest.Ask(t, "", plugintest.Question("c.example.org.", "A"), h, back), "REFUSED")
	servertest.NoAllocs(t, servertest.Query("a.example.org.", dns.TypeA, 1232), servertest.Block(".", plugintest.Stage(h), plugintest.Stage(back)))
}

func TestRCode(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{
		`rewrite rcode regex (.*)\.example\.org NXDOMAIN NOERROR`: "NOERROR",
		`rewrite rcode suffix example.org 3 2`:                    "SERVFAIL",
		`rewrite rcode no.example.org SERVFAIL NOERROR`:           "NXDOMAIN",
		`rewrite rcode other.org NXDOMAIN NOERROR`:                "NXDOMAIN",
	} {
		r := plugintest.Ask(t, "", plugintest.Question("no.example.org.", "A"), rules(t, rule), plugintest.NewAnswers(t))
		plugintest.Check(t, rule, r, want)
	}
}

func TestCNAMETargets(t *testing.T) {
	t.Parallel()
	back := plugintest.NewAnswers(t,
		"my-app.com. 200 IN CNAME my-app.com.cdn.example.net.", "my-app.com.cdn.example.net. 300 IN A 20.2.0.1",
		"my-app.com.other.cdn.com. 100 IN A 30.3.1.2", "plain.com. 9 IN A 192.0.2.1")
	h := rules(t, "rewrite cname regex (.*).cdn.example.net. {1}.other.cdn.com.")
	for ask, want := range map[string][]string{
		"my-app.com. A":     {"NOERROR", "my-app.com. 200 IN CNAME my-app.com.other.cdn.com.", "my-app.com.other.cdn.com. 100 IN A 30.3.1.2"},
		"my-app.com. CNAME": {"NOERROR", "my-app.com. 200 IN CNAME my-app.com.other.cdn.com."},
		"plain.com. A":      {"NOERROR", "plain.com. 9 IN A 192.0.2.1"},
		"none.com. A":       {"NXDOMAIN"},
	} {
		name, typ, _ := strings.Cut(ask, " ")
		plugintest.Check(t, ask, plugintest.Ask(t, "", plugintest.Question(name, typ), h, back), want...)
	}
	turn := rules(t, "rewrite cname exact b.example. a.example.")
	loop := plugintest.NewAnswers(t, "a.example. 1 IN CNAME b.example.", "b.example. 1 IN CNAME a.example.")
	if r := plugintest.Ask(t, "", plugintest.Question("a.example.", "A"), turn, loop); r.Rcode != dns.RcodeServerFailure {
		t.Errorf("a loop of targets: got %v, want SERVFAIL", r)
	}
}

func TestBadName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 60) + "."
	h := rules(t, `rewrite name regex (.*)\.org\. {1}.{1}.{1}.{1}.{1}.org.`)
	r := plugintest.Ask(t, "", plugintest.Question(long+long+"org.", "A"), h, plugintest.NewAnswers(t))
	plugintest.Check(t, "a name over 255 bytes", r, "SERVFAIL")
}

func TestEDNS(t *testing.T) {
	t.Parallel()
	local := func(code uint16, data string) dns.EDNS0 { return &dns.EDNS0_LOCAL{Code: code, Data: []byte(data)} }
	for _, c := range []struct {
		rule   string
		client string
		has    dns.EDNS0
		want   string
	}{
		{"rewrite edns0 local set 0xffee 0x61626364", "", nil, "ffee000461626364"},
		{"rewrite edns0 local set 0xffee abcd", "", local(0xffee, "x"), "ffee000461626364"},
		{"rewrite edns0 local append 0xffee abcd", "", local(0xffee, "x"), "ffee000178"},
		{"rewrite edns0 local append 65518 abcd", "", nil, "ffee000461626364"},
		{"rewrite edns0 local replace 0xffee abcd", "", local(0xffee, "x"), "ffee000461626364"},
		{"rewrite edns0 local replace 0xffee abcd", "", local(0xffed, "x"), ""},
		{"rewrite edns0 local unset 0xffee", "", local(0xffee, "x"), ""},
		{"rewrite edns0 local set 0xffee abcd revert", "", nil, "ffee000461626364"},
		{"rewrite edns0 local set 0xffee {qname}", "", nil, "ffee0002" + hex.EncodeToString([]byte("q."))},
		{"rewrite edns0 local set 0xffee {qtype}", "", nil, "ffee00020001"},
		{"rewrite edns0 local set 0xffee {client_ip}", "192.0.2.7", nil, "ffee0004c0000207"},
		{"rewrite edns0 local set 0xffee {client_port}", "192.0.2.7", nil, "ffee00020fa0"},
		{"rewrite edns0 local set 0xffee {server_ip}", "192.0.2.7", nil, "ffee0004c0000207"},
		{"rewrite edns0 local set 0xffee {server_port}", "192.0.2.7", nil, "ffee00020fa0"},
		{"rewrite edns0 local set 0xffee {protocol}", "", nil, "ffee0003746370"},
		{"rewrite edns0 local set 0xffee {plugin/label}", "", nil, "ffee0000"},
		{"rewrite edns0 nsid set", "", nil, "00030000"},
		{"rewrite edns0 nsid append", "", &dns.EDNS0_NSID{Code: dns.EDNS0NSID, Nsid: "61"}, "0003000161"},
		{"rewrite edns0 nsid unset", "", &dns.EDNS0_NSID{Code: dns.EDNS0NSID}, ""},
		{"rewrite edns0 subnet set 24 56", "192.0.2.7", nil, "0008000700011800c00002"},
		{"rewrite edns0 subnet set 24 56 revert", "2001:db8:1:2ff::1", nil, "0008000b0002380020010db8000102"},
		{"rewrite edns0 subnet unset", "", &dns.EDNS0_SUBNET{Code: 8, Family: 1, Address: netip.MustParseAddr("192.0.2.0").AsSlice(), SourceNetmask: 24}, ""},
	} {
		var got string
		back := plugintest.NewAnswers(t, "q. 1 IN A 192.0.2.1")
		back.Asked = func(q *server.Query) { got = hex.EncodeToString(q.ToUpstream) }
		m := plugintest.Question("q.", "A")
		if c.has != nil {
			m.IsEdns0().Option = append(m.IsEdns0().Option, c.has)
		}
		plugintest.Ask(t, c.client, m, rules(t, c.rule), back)
		if got != c.want {
			t.Errorf("%s: options %s, want %s", c.rule, got, c.want)
		}
	}
	m := servertest.Query("q.", dns.TypeA, 0)
	if r := plugintest.Ask(t, "", m, rules(t, "rewrite edns0 nsid set"), plugintest.NewAnswers(t)); r.IsEdns0() != nil {
		t.Error("a client without EDNS got an OPT record")
	}
}

// TestEDNSInReplies shows what rules set for the query in the reply, unless they are to be reverted: then it is as if only the others had been there.
func TestEDNSInReplies(t *testing.T) {
	t.Parallel()
	set, replaced := "rewrite continue {\nedns0 local set 0xffee abcd\n}", "rewrite continue edns0 local replace 0xffee bcde"
	for _, c := range []struct {
		rules []string
		want  string // in the reply
		query string // with the query
	}{
		{[]string{set}, "65518=abcd", "65518=abcd"},
		{[]string{set, replaced}, "65518=bcde", "65518=bcde"},
		{[]string{set, replaced + " revert"}, "65518=abcd", "65518=bcde"},
		{[]string{"rewrite edns0 local set 0xffee abcd revert"}, "", "65518=abcd"},
		{[]string{set, "rewrite edns0 local unset 0xffee"}, "", ""},
		{[]string{set, "rewrite edns0 local unset 0xffee revert"}, "65518=abcd", ""},
		{[]string{set, "rewrite edns0 local set 65001 x"}, "65518=abcd 65001=x", "65518=abcd 65001=x"},
		{[]string{"rewrite edns0 local append 0xffee abcd"}, "65518=abcd", "65518=abcd"},
		{[]string{"rewrite edns0 local replace 0xffee abcd"}, "", ""},
		{[]string{"rewrite edns0 local set 0x1000 x"}, "", "4096=x"}, // no code for local use
		{[]string{"rewrite edns0 nsid set"}, "", "3="},
		{[]string{"rewrite edns0 subnet set 24 56"}, "", "8=\x00\x02\x38\x00\x20\x01\x0d\xb8\x00\x00\x00"},
	} {
		var sent string
		back := plugintest.NewAnswers(t, "q. 1 IN A 192.0.2.1")
		back.Asked = func(q *server.Query) { sent = options(q.ToUpstream) }
		r := plugintest.Ask(t, "2001:db8::1", plugintest.Question("q.", "A"), rules(t, c.rules...), back)
		var got []string
		for _, o := range r.IsEdns0().Option {
			got = append(got, fmt.Sprintf("%d=%s", o.Option(), o.(*dns.EDNS0_LOCAL).Data))
		}
		if s := strings.Join(got, " "); s != c.want || sent != c.query {
			t.Errorf("%q: the reply shows %q and the query %q, want %q and %q", c.rules, s, sent, c.want, c.query)
		}
	}
}

// options are EDNS options as text.
func options(b []byte) string {
	var out []string
	for len(b) >= 4 {
		l := 4 + int(binary.BigEndian.Uint16(b[2:]))
		out = append(out, fmt.Sprintf("%d=%s", binary.BigEndian.Uint16(b), b[4:l]))
		b = b[l:]
	}
	return strings.Join(out, " ")
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"rewrite":                                           "Corefile:1: rewrite: the field is missing",
		"rewrite stop":                                      "the field is missing",
		"rewrite colour red blue":                           `unknown field "colour"; known are name, type, class, edns0, ttl, cname, rcode`,
		"rewrite name a.":                                   "the name to look for and its replacement is missing",
		"rewrite name like a. b.":                           `unknown match "like"; known are exact, prefix, suffix, substring, regex`,
		"rewrite name regex ( b.":                           `"(" is not a regular expression`,
		"rewrite name regex (a) {2}.":                       `uses {2}, but "(a)" has only 1 groups`,
		"rewrite name suffix a b foo":                       "only answer may follow the names",
		"rewrite name suffix a b answer":                    "auto, name or value is missing",
		"rewrite name suffix a b answer foo":                "answer is auto, name or value",
		"rewrite name suffix a b answer name x":             "the pattern and the replacement of answer name is missing",
		"rewrite name suffix a b answer auto name x y":      "cannot stand in one rule",
		"rewrite answer name a b":                           "it follows a name rule",
		"rewrite type A NONSENSE":                           `"NONSENSE" is not a type`,
		"rewrite class IN XX":                               `"XX" is not a class`,
		"rewrite type A AAAA MX":                            "nothing follows here",
		"rewrite ttl a. many":                               `"many" is not a TTL`,
		"rewrite ttl a. -":                                  `"-" is not a TTL`,
		"rewrite ttl a. 30-20":                              "end before they begin",
		"rewrite rcode a. NONSENSE NOERROR":                 "is not a response code",
		"rewrite rcode like a. NXDOMAIN NOERROR":            "unknown match",
		"rewrite edns0 local add 1 x":                       `unknown action "add"`,
		"rewrite edns0 cookie set x":                        `unknown EDNS option "cookie"`,
		"rewrite edns0 local set 70000 x":                   "is not the code of an EDNS option",
		"rewrite edns0 local set 1 0xzz":                    "is not hexadecimal",
		"rewrite edns0 local set 1 {nonsense}":              "unknown variable {nonsense}",
		"rewrite edns0 subnet set 33 56":                    "33 is not within 0 and 32",
		"rewrite edns0 nsid set x":                          "nothing follows here",
		"rewrite name a. b. {\nanswer auto\n}":              "either on the line or in braces",
		"rewrite stop {\nname suffix a b\nanswer name x\n}": "Corefile:3: rewrite: the pattern and the replacement of answer name is missing",
	} {
		_, err := Parse(plugintest.Input(t, text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

func TestParseIsComparable(t *testing.T) {
	t.Parallel()
	text := `rewrite continue name regex (.*)\.a {1}.b answer name (.*)\.b {1}.a value x y`
	one, err := Parse(plugintest.Input(t, text))
	two, _ := Parse(plugintest.Input(t, text))
	if err != nil || !reflect.DeepEqual(one, two) {
		t.Errorf("%+v and %+v, %v", one, two, err)
	}
}

func TestNothingToRewriteAllocatesNothing(t *testing.T) {
	h := rules(t, "rewrite name a.example b.example", "rewrite name suffix .x .y answer auto", `rewrite name regex (.*)\.nowhere {1}.org`,
		"rewrite type ANY HINFO", "rewrite ttl regex (.*)\\.z 5", "rewrite edns0 local replace 0xffee abcd")
	back := plugintest.NewAnswers(t, "www.example.org. 5 IN A 192.0.2.1")
	servertest.NoAllocs(t, servertest.Query("www.example.org.", dns.TypeA, 1232), servertest.Block(".", plugintest.Stage(h), plugintest.Stage(back)))
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "rewrite", Words()...)
}

// TestSizes: replies that grow by being turned back are cut as others are.
func TestSizes(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 60 {
		lines = append(lines, fmt.Sprintf("b. 5 IN SRV 1 2 %d host-%d.b.", i+1, i))
	}
	name := strings.Repeat("a-long-label-that-takes-room.", 4) + "example."
	s := servertest.Start(t, servertest.Block(".", plugintest.Stage(rules(t, "rewrite name "+name+" b.")), plugintest.Stage(plugintest.NewAnswers(t, lines...))))
	r := s.Exchange(t, "udp", servertest.Query(name, dns.TypeSRV, 1232))
	if r.Compress = true; !r.Truncated || r.Len() > 1232 || len(r.Answer) == 0 {
		t.Errorf("over UDP: %d records, TC %v", len(r.Answer), r.Truncated)
	}
	r = s.Exchange(t, "tcp", servertest.Query(name, dns.TypeSRV, 1232))
	if r.Truncated || len(r.Answer) != 60 || r.Answer[59].(*dns.SRV).Target != "host-59."+name || r.Answer[59].Header().Name != name {
		t.Errorf("over TCP: %d records, TC %v", len(r.Answer), r.Truncated)
	}
}
