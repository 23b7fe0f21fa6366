package secondary

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/plugin/internal/zone"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// primary serves example.org. with a serial that a test sets.
type primary struct {
	serial  atomic.Uint32
	refused atomic.Bool
	axfr    atomic.Int32
	refresh int
}

func (p *primary) soa() string {
	return fmt.Sprintf("example.org. 5 IN SOA ns.example.org. h.example.org. %d %d 1 3600 5", p.serial.Load(), max(1, p.refresh))
}

func (p *primary) ServeDNS(w dns.ResponseWriter, m *dns.Msg) {
	r := new(dns.Msg)
	r.SetReply(m)
	if m.Question[0].Qtype == dns.TypeIXFR {
		r.Rcode = dns.RcodeNotImplemented
		_ = w.WriteMsg(r)
		return
	}
	lines := []string{p.soa()}
	if m.Question[0].Qtype == dns.TypeAXFR {
		p.axfr.Add(1)
		lines = append(lines, "example.org. 5 IN NS ns.example.org.", fmt.Sprintf("www.example.org. 5 IN A 192.0.2.%d", p.serial.Load()%256), p.soa())
	}
	if p.refused.Load() {
		r.Rcode, lines = dns.RcodeRefused, nil
	}
	for _, l := range lines {
		rr, _ := dns.NewRR(l)
		r.Answer = append(r.Answer, rr)
	}
	_ = w.WriteMsg(r)
}

func parse(t *testing.T, text string) Options {
	t.Helper()
	o, err := Parse(plugintest.Input(t, text, "example.org."))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestTransfer(t *testing.T) {
	t.Parallel()
	p := &primary{}
	p.serial.Store(7)
	addr := servertest.Upstream(t, p.ServeDNS)
	changed := make(chan wire.Zone, 10)
	var log plugintest.Log
	h := New([]Options{parse(t, "secondary {\ntransfer from 127.0.0.1:1 "+addr+"\nfallthrough\n}")}, slog.New(slog.NewTextHandler(&log, nil)), func(z wire.Zone) { changed <- z })
	back := plugintest.NewAnswers(t, "no.example.org. 1 IN A 198.51.100.1")
	ask := func(what, name, want string) {
		t.Helper()
		plugintest.Check(t, what, plugintest.Ask(t, "", plugintest.Question(name, "A"), h, back), want)
	}
	ask("before the first transfer", "www.example.org.", "SERVFAIL")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = h.Run(ctx) }()
	if z := <-changed; z.String() != "example.org." {
		t.Errorf("told of %s", z)
	}
	ask("after it", "www.example.org.", "NOERROR\nwww.example.org. 5 IN A 192.0.2.7\nns example.org. 5 IN NS ns.example.org.")
	ask("a name that is not there", "no.example.org.", "NOERROR\nno.example.org. 1 IN A 198.51.100.1")
	p.serial.Store(8)
	<-changed // the refresh timer is a second
	ask("after a refresh", "www.example.org.", "NOERROR\nwww.example.org. 5 IN A 192.0.2.8\nns example.org. 5 IN NS ns.example.org.")
	if all, serial, ok := h.TransferZone(wire.NewZone(wire.MustCanonical("example.org"))); !ok || serial != 8 || all == nil {
		t.Errorf("serial %d, %v", serial, ok)
	}
	cancel()
	<-done
	if !strings.Contains(log.String(), "serial 8 with 3 records from "+addr) {
		t.Errorf("the log is %s", log.String())
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	p := &primary{}
	p.serial.Store(7)
	addr := servertest.Upstream(t, p.ServeDNS)
	from := []netip.AddrPort{netip.MustParseAddrPort(addr)}
	origin := wire.NewZone(wire.MustCanonical("example.org"))
	h := New([]Options{parse(t, "secondary {\ntransfer from "+addr+"\n}")}, nil, nil)
	for i, c := range []struct {
		serial  uint32
		refused bool
		want    uint32
		axfr    int32
		err     string
	}{
		{7, true, 0, 1, "bad xfr rcode"},
		{7, false, 7, 2, ""},
		{7, false, 7, 2, ""},       // current
		{6, false, 7, 2, ""},       // an older one is no news
		{8, true, 7, 2, "REFUSED"}, // the SOA question fails already
		{8, false, 8, 3, ""},
		{1 << 31, false, 1 << 31, 4, ""}, // RFC 1982: newer
		{0xFFFFFFFF, false, 0xFFFFFFFF, 5, ""},
		{3, false, 3, 6, ""}, // and so is one behind the end of the numbers
	} {
		p.serial.Store(c.serial)
		p.refused.Store(c.refused)
		err := h.update(t.Context(), origin, from)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("step %d: error %v, want %q", i, err, c.err)
		}
		z, _ := h.table.Get(origin)
		if z != nil && z.Serial() != c.want || z == nil && c.want != 0 || p.axfr.Load() != c.axfr {
			t.Errorf("step %d: %v after %d transfers, want serial %d after %d", i, z, p.axfr.Load(), c.want, c.axfr)
		}
	}
}

// TestEndless has a primary whose transfer never ends: it is given up once it is more than a zone may be, and the connection with it.
func TestEndless(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	addr := servertest.Upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		defer close(gone)
		r := new(dns.Msg)
		r.SetReply(m)
		soa, _ := dns.NewRR("example.org. 5 IN SOA ns.example.org. h.example.org. 1 1 1 3600 5")
		a, _ := dns.NewRR("a.example.org. 5 IN A 192.0.2.1")
		r.Answer = []dns.RR{soa}
		for w.WriteMsg(r) == nil {
			r.Answer = slices.Repeat([]dns.RR{a}, 100)
		}
	})
	m := new(dns.Msg)
	m.SetAxfr("example.org.")
	_, err := exchange(t.Context(), m, netip.MustParseAddrPort(addr), patience, zone.NewList(1000))
	if err == nil || !strings.Contains(err.Error(), "more than 1000 records") {
		t.Errorf("error %v", err)
	}
	<-gone
}

func TestNotify(t *testing.T) {
	t.Parallel()
	p := &primary{}
	p.serial.Store(7)
	p.refresh = 3600
	addr := servertest.Upstream(t, p.ServeDNS)
	changed := make(chan wire.Zone, 10)
	h := New([]Options{parse(t, "secondary {\ntransfer from "+addr+"\n}")}, nil, func(z wire.Zone) { changed <- z })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = h.Run(ctx) }()
	<-changed
	p.serial.Store(8)
	for _, c := range []struct {
		client, zone string
		want         int
	}{
		{"192.0.2.1", "example.org.", dns.RcodeNotImplemented},
		{"127.0.0.1", "example.net.", dns.RcodeNotImplemented},
		{"127.0.0.1", "Example.org.", dns.RcodeSuccess},
	} {
		m := new(dns.Msg)
		m.SetNotify(c.zone)
		r := plugintest.Ask(t, c.client, m, h)
		if r.Rcode != c.want || r.Opcode != dns.OpcodeNotify {
			t.Errorf("%s of %s: %v", c.client, c.zone, r)
		}
	}
	<-changed
	if z, _ := h.table.Get(h.all[0].Zones[0]); z.Serial() != 8 {
		t.Errorf("serial %d", z.Serial())
	}
	cancel()
	<-done
}

func TestTimers(t *testing.T) {
	t.Parallel()
	origin := wire.NewZone(wire.MustCanonical("example.org"))
	h := New([]Options{{Zones: []wire.Zone{origin}}}, nil, nil)
	if d := h.next(t.Context(), origin, time.Time{}, true); d != 10*time.Second {
		t.Errorf("a zone that never was there is tried again after %v", d)
	}
	z, err := zone.Parse(strings.NewReader("$TTL 5\n@ SOA a b 1 7200 900 3600 5\n"), origin, "")
	if err != nil {
		t.Fatal(err)
	}
	h.table.Set(origin, z)
	if d := h.next(t.Context(), origin, time.Now(), false); d < 2*time.Hour || d >= 2*time.Hour+5*time.Second {
		t.Errorf("refreshed after %v", d)
	}
	if d := h.next(t.Context(), origin, time.Now().Add(-time.Minute), true); d < 15*time.Minute || d >= 15*time.Minute+2*time.Second {
		t.Errorf("tried again after %v", d)
	}
	if z, _ := h.table.Get(origin); z == nil {
		t.Error("the zone is gone too early")
	}
	if d := h.next(t.Context(), origin, time.Now().Add(-time.Hour), true); d != 10*time.Second {
		t.Errorf("an expired zone is tried again after %v", d)
	}
	if z, known := h.table.Get(origin); z != nil || !known {
		t.Error("an expired zone is still served")
	}
}

func TestNoAllocs(t *testing.T) {
	h := New([]Options{parse(t, "secondary {\ntransfer from 192.0.2.1\n}")}, nil, nil)
	b := servertest.Block(".", plugintest.Stage(h), plugintest.Stage(plugintest.NewAnswers(t, "b. 1 IN A 192.0.2.1")))
	servertest.NoAllocs(t, servertest.Query("b.", dns.TypeA, 1232), b)
}

func TestParse(t *testing.T) {
	t.Parallel()
	o := parse(t, "secondary {\ntransfer from 10.0.1.1 10.1.2.1:5353\ntransfer from 2001:db8::1\n}")
	if fmt.Sprint(o.From) != "[10.0.1.1:53 10.1.2.1:5353 [2001:db8::1]:53]" {
		t.Errorf("from %v", o.From)
	}
	for text, want := range map[string]string{
		"secondary":                              "needs a line such as: transfer from 192.0.2.1",
		"secondary {\ntransfer to 192.0.2.1\n}":  "from must follow",
		"secondary {\ntransfer from\n}":          "needs more arguments",
		"secondary {\ntransfer from somebody\n}": "is neither an address nor",
		"secondary {\nfrom 192.0.2.1\n}":         `unknown option "from"; known are transfer, catalog, fallthrough`,
		"secondary a..b {\ntransfer from ::1\n}": "has an empty label",
	} {
		if _, err := Parse(plugintest.Input(t, text, ".")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "secondary", plugintest.Names(Rows())...)
}
