package transfer

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/plugin/internal/records"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// source is a zone of an SOA record and so many addresses.
type source struct {
	zone string
	n    int
}

func (s source) TransferZone(z wire.Zone) (iter.Seq[server.Record], uint32, bool) {
	if z.String() != s.zone {
		return nil, 0, false
	}
	return func(yield func(server.Record) bool) {
		soa, _ := records.Parse(s.zone + " 5 IN SOA ns." + s.zone + " h." + s.zone + " 7 2 3 4 5")
		if !yield(soa) {
			return
		}
		for i := range s.n {
			rr, _ := records.Parse(fmt.Sprintf("host-%d.%s 5 IN A 192.0.2.%d", i, s.zone, i%256))
			if !yield(rr) {
				return
			}
		}
	}, 7, true
}

func handler(t *testing.T, sources []Source, texts ...string) *Transfer {
	t.Helper()
	var all []Options
	for _, text := range texts {
		o, err := Parse(plugintest.Input(t, text, "example.org."))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return New(all, sources, nil)
}

// axfr transfers a zone as a secondary does.
func axfr(t *testing.T, addr string, m *dns.Msg) (all []dns.RR, messages int) {
	t.Helper()
	c, err := new(dns.Transfer).In(m, addr)
	if err != nil {
		t.Fatal(err)
	}
	for e := range c {
		if e.Error != nil {
			t.Fatal(e.Error)
		}
		messages++
		all = append(all, e.RR...)
	}
	return all, messages
}

func TestTransfer(t *testing.T) {
	t.Parallel()
	h := handler(t, []Source{source{"example.net.", 0}, source{"example.org.", 5000}}, "transfer {\nto *\n}")
	s := servertest.Start(t, servertest.Block(".", plugintest.Stage(h), plugintest.Stage(plugintest.NewAnswers(t))))
	m := new(dns.Msg)
	m.SetAxfr("example.org.")
	all, messages := axfr(t, s.Addr, m)
	if len(all) != 5002 || messages < 4 {
		t.Errorf("%d records in %d messages", len(all), messages)
	}
	seen := map[string]bool{}
	for _, rr := range all[1 : len(all)-1] {
		seen[rr.Header().Name] = true
	}
	if len(seen) != 5000 || all[0].String() != all[len(all)-1].String() || all[0].Header().Rrtype != dns.TypeSOA {
		t.Errorf("%d names between %v and %v", len(seen), all[0], all[len(all)-1])
	}
	old := new(dns.Msg)
	old.SetIxfr("example.org.", 6, "ns.", "h.")
	if all, _ := axfr(t, s.Addr, old); len(all) != 5002 {
		t.Errorf("IXFR from an old serial: %d records", len(all))
	}
	old.SetIxfr("example.org.", 7, "ns.", "h.")
	if r := s.Exchange(t, "tcp", old); len(r.Answer) != 1 || r.Answer[0].Header().Rrtype != dns.TypeSOA {
		t.Errorf("IXFR of the current serial: %v", r)
	}
	old.SetIxfr("example.org.", 6, "ns.", "h.")
	if r := s.Exchange(t, "udp", old); len(r.Answer) != 1 || r.Answer[0].Header().Rrtype != dns.TypeSOA {
		t.Errorf("IXFR over UDP: %v", r)
	}
	if r := s.Exchange(t, "udp", m); r.Rcode != dns.RcodeRefused {
		t.Errorf("AXFR over UDP: %v", r)
	}
}

func TestWhoMay(t *testing.T) {
	t.Parallel()
	sources := []Source{source{"example.org.", 1}, source{"sub.example.org.", 1}}
	back := plugintest.NewAnswers(t)
	soa := "example.org. 5 IN SOA ns.example.org. h.example.org. 7 2 3 4 5"
	full := "NOERROR\n" + soa + "\nhost-0.example.org. 5 IN A 192.0.2.0\n" + soa
	for _, c := range []struct{ text, client, ask, want string }{
		{"transfer {\nto *\n}", "192.0.2.7", "example.org.", full},
		{"transfer {\nto 192.0.2.7\n}", "192.0.2.7", "Example.org.", strings.ReplaceAll(full, "Example", "example")},
		{"transfer {\nto 192.0.2.7\n}", "192.0.2.8", "example.org.", "REFUSED"},
		{"transfer {\nto 192.0.2.7:1053\n}", "192.0.2.7", "example.org.", full},
		{"transfer {\nto 192.0.2.0/24\n}", "192.0.2.8", "example.org.", full},
		{"transfer {\nto ::ffff:192.0.2.0/120\n}", "192.0.2.8", "example.org.", full},
		{"transfer {\nto 192.0.2.0/24\nto 2001:db8::/32\n}", "2001:db8::1", "example.org.", full},
		{"transfer {\nto 192.0.2.0/24\n}", "198.51.100.1", "example.org.", "REFUSED"},
		{"transfer {\nto *\n}", "192.0.2.7", "www.example.org.", "NOTAUTH"},
		{"transfer example.net {\nto *\n}", "192.0.2.7", "example.org.", "NXDOMAIN"},
		{"transfer example.net {\nto *\n}", "192.0.2.7", "example.net.", "NXDOMAIN"},
	} {
		m := new(dns.Msg)
		m.SetAxfr(c.ask)
		r := plugintest.Ask(t, c.client, m, handler(t, sources, c.text), back)
		plugintest.Check(t, c.text+" from "+c.client, r, c.want)
	}
	several := handler(t, sources, "transfer example.org {\nto 192.0.2.1\n}", "transfer sub.example.org {\nto 192.0.2.2\n}")
	m := new(dns.Msg)
	m.SetAxfr("sub.example.org.")
	if r := plugintest.Ask(t, "192.0.2.2", m, several, back); r.Rcode != dns.RcodeSuccess {
		t.Errorf("the directive for the zone below: %v", r)
	}
	if r := plugintest.Ask(t, "192.0.2.1", m, several, back); r.Rcode != dns.RcodeRefused {
		t.Errorf("the directive for the zone above: %v", r)
	}
}

func TestNotify(t *testing.T) {
	t.Parallel()
	got, from := make(chan *dns.Msg, 10), make(chan string, 10)
	told := servertest.Upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		got <- m
		from <- w.RemoteAddr().String()
		r := new(dns.Msg)
		_ = w.WriteMsg(r.SetReply(m))
	})
	h := handler(t, nil, "transfer example.org {\nto "+told+" *\nsource 127.0.0.9\n}")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = h.Run(ctx) }()
	h.Changed(wire.NewZone(wire.MustCanonical("example.net")))
	h.Changed(wire.NewZone(wire.MustCanonical("example.org")))
	if m := <-got; m.Opcode != dns.OpcodeNotify || m.Question[0].Name != "example.org." || m.Question[0].Qtype != dns.TypeSOA {
		t.Errorf("told %v", m)
	}
	if addr := <-from; !strings.HasPrefix(addr, "127.0.0.9:") {
		t.Errorf("told from %s", addr)
	}
	cancel()
	<-done
}

func TestNoAllocs(t *testing.T) {
	h := handler(t, []Source{source{"example.org.", 1}}, "transfer {\nto *\n}")
	b := servertest.Block(".", plugintest.Stage(h), plugintest.Stage(plugintest.NewAnswers(t, "b.example.org. 1 IN A 192.0.2.1")))
	servertest.NoAllocs(t, servertest.Query("b.example.org.", dns.TypeA, 1232), b)
}

func TestParse(t *testing.T) {
	t.Parallel()
	o, err := Parse(plugintest.Input(t, "transfer {\nto * 10.240.1.1 192.0.2.1:5353 10.0.0.0/8\n}", "example.org."))
	want := Options{Zones: o.Zones, All: true, Nets: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Notify: []netip.AddrPort{netip.MustParseAddrPort("10.240.1.1:53"), netip.MustParseAddrPort("192.0.2.1:5353")}}
	if err != nil || !reflect.DeepEqual(o, want) {
		t.Errorf("%+v, %v", o, err)
	}
	for text, want := range map[string]string{
		"transfer":                         "needs a line such as: to *",
		"transfer {\nto\n}":                "needs more arguments",
		"transfer {\nto somebody\n}":       "is neither *",
		"transfer {\nfrom 192.0.2.1\n}":    `unknown option "from"; known are to, source`,
		"transfer {\nto *\nsource here\n}": "is not an address",
		"transfer a..b {\nto *\n}":         "has an empty label",
	} {
		if _, err := Parse(plugintest.Input(t, text, ".")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "transfer", plugintest.Names(Rows())...)
}
