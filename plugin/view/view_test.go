package view

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// input is a view whose expression is one word, quotes and all.
func parse(t *testing.T, name string, exprs ...string) Options {
	t.Helper()
	in := plugintest.Input(t, "view "+name+" {\n"+strings.Repeat("expr x\n", len(exprs))+"}")
	for i, e := range exprs {
		in.Lines[i].Args = nil
		for _, w := range strings.Split(e, " ") {
			a := in.Lines[i].Name
			a.Text = w
			in.Lines[i].Args = append(in.Lines[i].Args, a)
		}
	}
	o, err := Parse(in)
	if err != nil {
		t.Fatalf("%v: %v", exprs, err)
	}
	return o
}

func made(t *testing.T, all ...Options) *View {
	t.Helper()
	v, err := New(all, func(_ *server.Query, label string) string { return map[string]string{"test/color": "blue"}[label] })
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func block(v *View, answer string, t *testing.T) *server.Block {
	b := servertest.Block(".", plugintest.Stage(plugintest.NewAnswers(t, answer)))
	if v != nil {
		b.Match, b.View = v.Match, v.Name()
	}
	return b
}

func TestExpressions(t *testing.T) {
	t.Parallel()
	m := plugintest.Question("abc.shop.example.com.", "A")
	m.Id = 4711
	m.IsEdns0().SetDo()
	for e, want := range map[string]bool{
		"incidr(client_ip(), '192.0.2.0/24')":                true,
		"incidr(client_ip(), '::ffff:192.0.2.0/120')":        true,
		"incidr(client_ip(), '198.51.100.0/24')":             false,
		"incidr('[2001:db8::1]', '2001:db8::/32')":           true,
		"incidr('nonsense', '2001:db8::/32')":                false,
		"client_ip() == '192.0.2.7'":                         true,
		"type() in ['A', 'AAAA']":                            true,
		"type() == 'TXT'":                                    false,
		`name() matches '^abc\\..*\\.example\\.com\\.$'`:     true,
		"name() == 'abc.shop.example.com.'":                  true,
		"(type() == 'A' && name() endsWith '.com.') || do()": true,
		"class() == 'IN'":                                    true,
		"do()":                                               true,
		"id() == 4711":                                       true,
		"opcode() == 0":                                      true,
		"port() == '4000'":                                   true,
		"proto() == 'tcp'":                                   true,
		"proto() == 'udp'":                                   false,
		"server_ip() == '192.0.2.7'":                         true,
		"server_port() == '4000'":                            true,
		"size() > 30 && size() < 60":                         true,
		"bufsize() == 65535":                                 true,
		"metadata('test/color') == 'blue'":                   true,
		"metadata('test/shape') == ''":                       true,
	} {
		b := block(made(t, parse(t, "v", e)), "abc.shop.example.com. 1 IN A 192.0.2.1", t)
		r := plugintest.AskBlocks(t, "192.0.2.7", m, b)
		if got := r.Rcode == dns.RcodeSuccess; got != want {
			t.Errorf("%s: %v, want %v", e, got, want)
		}
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	local := made(t, parse(t, "local", "incidr(client_ip(), '127.0.0.0/24')"))
	office := made(t, parse(t, "office", "incidr(client_ip(), '192.168.0.0/16')"), parse(t, "second", "type() == 'A'", "do() == false"))
	if office.Name() != "office" {
		t.Errorf("the name is %q", office.Name())
	}
	blocks := []*server.Block{block(local, "test. 1 IN A 192.0.2.1", t), block(office, "test. 1 IN A 192.0.2.2", t), block(nil, "test. 1 IN A 192.0.2.3", t)}
	for client, want := range map[string]string{"127.0.0.1": "192.0.2.1", "192.168.3.4": "192.0.2.2", "10.0.0.1": "192.0.2.3"} {
		plugintest.Check(t, client, plugintest.AskBlocks(t, client, plugintest.Question("test.", "A"), blocks...), "NOERROR\ntest. 1 IN A "+want)
	}
	plugintest.Check(t, "the second view is not true", plugintest.AskBlocks(t, "192.168.3.4", plugintest.Question("test.", "AAAA"), blocks...), "NOERROR")
}

func TestBufsize(t *testing.T) {
	t.Parallel()
	v := made(t, parse(t, "v", "bufsize() == 1232"))
	b := block(v, "test. 1 IN A 192.0.2.1", t)
	for size, want := range map[uint16]uint8{0: dns.RcodeRefused, 1232: dns.RcodeSuccess} {
		out, _ := servertest.Direct(b).Answer(servertest.Pack(t, servertest.Query("test.", dns.TypeA, size)), netip.MustParseAddrPort("192.0.2.1:1"), server.UDP)
		if out[3]&0xF != want {
			t.Errorf("EDNS %d: rcode %d", size, out[3]&0xF)
		}
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	v := made(t, parse(t, "here", "true"))
	if s, ok := v.Metadata(nil, "view/name"); s != "here" || !ok {
		t.Errorf("view/name is %q, %v", s, ok)
	}
	if _, ok := v.Metadata(nil, "other/name"); ok {
		t.Error("knows a label of another")
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"view {\nexpr true\n}":            "one name must follow",
		"view a b {\nexpr true\n}":        "one name must follow",
		"view a {\nexpr name(\n}":         "Corefile:2: view: expr",
		"view a {\nexpr name()\n}":        "expected bool",
		"view a {\nexpr colour()=='x'\n}": "unknown name colour",
		"view a {\nwhen true\n}":          `unknown option "when"; known are expr`,
	} {
		if _, err := Parse(plugintest.Input(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
	if o, err := Parse(plugintest.Input(t, "view a")); err != nil || len(o.Exprs) != 0 {
		t.Errorf("without an expr: %+v, %v", o, err)
	}
	if _, err := New([]Options{{Exprs: []string{"("}}}, nil); err == nil {
		t.Error("a broken expression was taken")
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "view", append(plugintest.Names(Rows()), Functions()...)...)
}
