package secondary

import (
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// TestIncremental gets changes of a zone, and the whole zone where they do not fit.
func TestIncremental(t *testing.T) {
	t.Parallel()
	soa := func(serial string) string {
		return "example.org. 5 IN SOA ns.example.org. h.example.org. " + serial + " 3600 3600 3600 5"
	}
	const ns = "example.org. 5 IN NS ns.example.org."
	first := []string{soa("1"), ns, "a.example.org. 5 IN A 192.0.2.1", "b.example.org. 5 IN A 192.0.2.2", soa("1")}
	whole := []string{soa("3"), ns, "whole.example.org. 5 IN A 192.0.2.9", soa("3")} // what a transfer of all gives, which the changes do not
	for _, c := range []struct {
		name    string
		changes []string // in the messages that "--" separates
		whole   int32    // transfers of the whole zone
		want    string   // which of a, b, c and whole exist
	}{
		{"one step", []string{soa("3"), soa("1"), "A.example.org. 9 IN A 192.0.2.1", soa("3"), "c.example.org. 5 IN A 192.0.2.3", soa("3")}, 0, "b c"},
		{"two steps", []string{soa("3"), soa("1"), "a.example.org. 5 IN A 192.0.2.1", soa("2"), "c.example.org. 5 IN A 192.0.2.3", soa("2"), "c.example.org. 5 IN A 192.0.2.3", soa("3"), "a.example.org. 5 IN A 192.0.2.1", soa("3")}, 0, "a b"},
		{"over messages", []string{soa("3"), "--", soa("1"), "a.example.org. 5 IN A 192.0.2.1", "--", soa("3"), "--", soa("3")}, 0, "b"},
		{"only the serial", []string{soa("3"), soa("1"), soa("3"), soa("3")}, 0, "a b"},
		{"only added", []string{soa("3"), soa("1"), soa("3"), "c.example.org. 5 IN A 192.0.2.3", soa("3")}, 0, "a b c"},
		{"all of the zone instead", whole, 0, "whole"},
		{"from another serial", []string{soa("3"), soa("2"), soa("3"), soa("3")}, 1, "whole"},
		{"a gap between the steps", []string{soa("3"), soa("1"), soa("2"), soa("7"), soa("3"), soa("3")}, 1, "whole"},
		{"something removed that is not there", []string{soa("3"), soa("1"), "x.example.org. 5 IN A 192.0.2.1", soa("3"), soa("3")}, 1, "whole"},
		{"something removed that no zone here has", []string{soa("3"), soa("1"), "a.example.net. 5 IN A 192.0.2.1", soa("3"), soa("3")}, 0, "a b"},
		{"no SOA record left", []string{soa("3"), soa("1"), "example.org. 5 IN NS other.example.org.", soa("3"), soa("3")}, 1, "whole"},
		{"refused", nil, 1, "whole"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var transfers, serial atomic.Int32
			serial.Store(1)
			addr := servertest.Upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
				lines := []string{soa(map[int32]string{1: "1", 3: "3"}[serial.Load()])}
				switch m.Question[0].Qtype {
				case dns.TypeAXFR:
					transfers.Add(1)
					if lines = first; serial.Load() == 3 {
						lines = whole
					}
				case dns.TypeIXFR:
					if have := m.Ns[0].(*dns.SOA).Serial; have != 1 {
						t.Errorf("asked for changes since %d", have)
					}
					lines = c.changes
				}
				send(w, m, lines)
			})
			h := New([]Options{parse(t, "secondary {\ntransfer from "+addr+"\n}")}, nil, nil)
			from, origin := []netip.AddrPort{netip.MustParseAddrPort(addr)}, wire.NewZone(wire.MustCanonical("example.org"))
			for _, s := range []int32{1, 3} {
				serial.Store(s)
				if err := h.update(t.Context(), origin, from); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for _, n := range []string{"a", "b", "c", "whole"} {
				if r := plugintest.Ask(t, "", plugintest.Question(n+".example.org.", "A"), h, plugintest.NewAnswers(t)); r.Rcode == dns.RcodeSuccess {
					got = append(got, n)
				}
			}
			z, _ := h.table.Get(origin)
			if s := strings.Join(got, " "); s != c.want || z.Serial() != 3 || transfers.Load() != 1+c.whole {
				t.Errorf("there are %s with serial %d after %d whole transfers; want %s with 3 after %d", s, z.Serial(), transfers.Load(), c.want, 1+c.whole)
			}
		})
	}
}

// send answers with the records of lines, in as many messages as "--" makes of them; with REFUSED if there are none.
func send(w dns.ResponseWriter, m *dns.Msg, lines []string) {
	r := new(dns.Msg)
	r.SetReply(m)
	if len(lines) == 0 {
		r.Rcode = dns.RcodeRefused
	}
	for _, l := range lines {
		if l == "--" {
			_ = w.WriteMsg(r)
			r = new(dns.Msg)
			r.SetReply(m)
			continue
		}
		rr, err := dns.NewRR(l)
		if err != nil {
			panic(err)
		}
		r.Answer = append(r.Answer, rr)
	}
	_ = w.WriteMsg(r)
}
