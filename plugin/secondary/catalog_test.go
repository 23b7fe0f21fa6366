package secondary

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/plugin/internal/zone"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// catalogs serves zones of presentation lines that a test changes; each has an SOA record of its own.
type catalogs struct {
	mu      sync.Mutex
	zones   map[string][]string
	serials map[string]uint32
}

func (c *catalogs) set(zone string, lines ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serials[zone]++
	c.zones[zone] = append([]string{zone + " 5 IN NS invalid."}, lines...)
}

func (c *catalogs) ServeDNS(w dns.ResponseWriter, m *dns.Msg) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := new(dns.Msg)
	r.SetReply(m)
	q := m.Question[0]
	lines, ok := c.zones[q.Name]
	soa, _ := dns.NewRR(q.Name + " 5 IN SOA ns. h. 1 3600 3600 3600 5")
	soa.(*dns.SOA).Serial = c.serials[q.Name]
	switch {
	case !ok || q.Qtype == dns.TypeIXFR:
		r.Rcode = dns.RcodeRefused
	case q.Qtype == dns.TypeSOA:
		r.Answer = []dns.RR{soa}
	default:
		r.Answer = []dns.RR{soa}
		for _, l := range lines {
			rr, err := dns.NewRR(l)
			if err != nil {
				panic(err)
			}
			r.Answer = append(r.Answer, rr)
		}
		r.Answer = append(r.Answer, soa)
	}
	_ = w.WriteMsg(r)
}

// TestCatalogMembers has a catalog name only zones that the directive allows: RFC 9432 7 says what one could do otherwise.
func TestCatalogMembers(t *testing.T) {
	t.Parallel()
	p := &catalogs{zones: map[string][]string{}, serials: map[string]uint32{}}
	lines := []string{"version.cat. 5 IN TXT 2"}
	for i, z := range []string{"example.org.", "in.example.org.", "internal.example.", "example.net.", "notexample.org.", "org."} {
		p.set(z, "www."+z+" 5 IN A 192.0.2.1")
		lines = append(lines, fmt.Sprintf("m%d.zones.cat. 5 IN PTR %s", i, z))
	}
	p.set("cat.", lines...)
	addr := servertest.Upstream(t, p.ServeDNS)
	changed := make(chan string, 20)
	h := New([]Options{parse(t, "secondary cat {\ntransfer from "+addr+"\ncatalog example.org\ncatalog internal.example\n}")}, nil, func(z wire.Zone) { changed <- z.String() })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = h.Run(ctx) }()
	want := map[string]bool{"cat.": true, "example.org.": true, "in.example.org.": true, "internal.example.": true}
	for len(want) > 0 {
		select {
		case z := <-changed:
			if !want[z] {
				t.Errorf("%s was transferred", z)
			}
			delete(want, z)
		case <-time.After(20 * time.Second):
			t.Fatalf("not transferred: %v", want)
		}
	}
	for _, n := range []string{"www.example.net.", "www.notexample.org.", "www.org."} {
		if r := plugintest.Ask(t, "", plugintest.Question(n, "A"), h, plugintest.NewAnswers(t)); r.Rcode != dns.RcodeNameError {
			t.Errorf("%s is served: %v", n, r)
		}
	}
	cancel()
	<-done
}

func TestCatalog(t *testing.T) {
	t.Parallel()
	p := &catalogs{zones: map[string][]string{}, serials: map[string]uint32{}}
	const version = "version.cat. 5 IN TXT 2"
	p.set("a.example.", "www.a.example. 5 IN A 192.0.2.1")
	p.set("b.example.", "www.b.example. 5 IN A 192.0.2.2")
	p.set("own.example.", "www.own.example. 5 IN A 192.0.2.3")
	p.set("cat.", version, "one.zones.cat. 5 IN PTR a.example.", "two.zones.cat. 5 IN PTR own.example.")
	p.set("cat2.", "version.cat2. 5 IN TXT 2", "one.zones.cat2. 5 IN PTR a.example.", "x.zones.cat2. 5 IN PTR b.example.")
	addr := servertest.Upstream(t, p.ServeDNS)
	changed := make(chan string, 20)
	h := New([]Options{parse(t, "secondary cat cat2 {\ntransfer from "+addr+"\ncatalog\nfallthrough\n}"), parse(t, "secondary own.example {\ntransfer from "+addr+"\n}")},
		nil, func(z wire.Zone) { changed <- z.String() })
	ctx, cancel := context.WithCancel(t.Context())
	defer h.running.Wait()
	defer cancel()
	step := func(catalog string, wait ...string) {
		t.Helper()
		origin := wire.NewZone(wire.MustCanonical(catalog))
		if err := h.update(ctx, origin, h.all[0].From); err != nil {
			t.Fatal(err)
		}
		z, _ := h.table.Get(origin)
		h.reconcile(ctx, origin, z)
		for want := append([]string{catalog}, wait...); len(want) > 0; want = want[1:] {
			select {
			case got := <-changed:
				if got != want[0] {
					t.Errorf("%s was transferred, not %s", got, want[0])
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s was not transferred", want[0])
			}
		}
	}
	back := plugintest.NewAnswers(t)
	served := func() string {
		var out []string
		for _, n := range []string{"www.a.example.", "www.b.example.", "www.own.example."} {
			out = append(out, dns.RcodeToString[plugintest.Ask(t, "", plugintest.Question(n, "A"), h, back).Rcode])
		}
		return strings.Join(out, " ")
	}
	check := func(what, want string) {
		t.Helper()
		if got := served(); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	check("at first", "NXDOMAIN NXDOMAIN SERVFAIL")
	step("cat.", "a.example.")
	check("a member; own.example is served otherwise", "NOERROR NXDOMAIN SERVFAIL")
	step("cat2.", "b.example.")
	check("another catalog; a.example stays in the first", "NOERROR NOERROR SERVFAIL")
	p.set("cat.", "one.zones.cat. 5 IN PTR a.example.")
	step("cat.")
	check("a catalog without a version", "NOERROR NOERROR SERVFAIL")
	p.set("cat.", version, "one.zones.cat. 5 IN PTR a.example.", "coo.one.zones.cat. 5 IN PTR cat2.")
	step("cat.")
	p.set("cat2.", "version.cat2. 5 IN TXT 2", "one.zones.cat2. 5 IN PTR a.example.")
	step("cat2.")
	check("a.example moved, b.example is gone", "NOERROR NXDOMAIN SERVFAIL")
	h.mu.Lock()
	if m := h.members[wire.MustCanonical("a.example")]; m == nil || m.catalog != wire.MustCanonical("cat2") {
		t.Errorf("a.example is of %+v", m)
	}
	h.mu.Unlock()
	p.set("cat2.", "version.cat2. 5 IN TXT 2", "other.zones.cat2. 5 IN PTR a.example.")
	step("cat2.", "a.example.") // another node is another zone: it is transferred anew
	check("another node", "NOERROR NXDOMAIN SERVFAIL")
	p.set("cat2.", "version.cat2. 5 IN TXT 2")
	step("cat2.")
	check("nothing left", "NXDOMAIN NXDOMAIN SERVFAIL")
}

// TestMoved has a zone that is here already, as one that moved from another catalog is, while the primary of the new one fails: it has not expired.
func TestMoved(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 10)
	addr := servertest.Upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		r := new(dns.Msg)
		_ = w.WriteMsg(r.SetRcode(m, dns.RcodeRefused))
		asked <- struct{}{}
	})
	o := parse(t, "secondary {\ntransfer from "+addr+"\n}")
	h := New([]Options{o}, nil, nil)
	origin := o.Zones[0]
	z, err := zone.Parse(strings.NewReader("@ 5 SOA a b 1 3600 1 3600 5\n"), origin, "")
	if err != nil {
		t.Fatal(err)
	}
	h.table.Set(origin, z)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); h.keep(ctx, origin, newCare(&o)) }()
	for range 2 {
		<-asked
	}
	cancel()
	<-done
	if z, _ := h.table.Get(origin); z == nil {
		t.Error("the zone has expired")
	}
}
