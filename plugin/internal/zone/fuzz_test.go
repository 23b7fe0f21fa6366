package zone_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/plugin/internal/zone"
	"github.com/clusterdns/clusterdns/plugin/internal/zones"
	"github.com/clusterdns/clusterdns/server/wire"
)

const origin = "example.org."

// table is what is known of a zone by miekg/dns: the records of each name in lower case.
type table map[string][]dns.RR

// readTable reads a zone file by miekg/dns. ok is false where it refuses the file.
func readTable(text string) (t table, ok bool) {
	t = table{}
	p := dns.NewZoneParser(strings.NewReader(text), origin, "")
	for rr, more := p.Next(); more; rr, more = p.Next() {
		h := rr.Header()
		if name := strings.ToLower(h.Name); h.Class == dns.ClassINET && h.Rrtype != dns.TypeNSEC3 && dns.IsSubDomain(origin, name) {
			t[name] = append(t[name], rr)
		}
	}
	return t, p.Err() == nil
}

func (t table) of(name string, typ uint16) (out []dns.RR) {
	for _, rr := range t[name] {
		if rr.Header().Rrtype == typ {
			out = append(out, rr)
		}
	}
	return out
}

// exists says whether a name has records or stands above one that has.
func (t table) exists(name string) bool {
	for n := range t {
		if dns.IsSubDomain(name, n) {
			return true
		}
	}
	return name == origin
}

// reply is what RFC 1034 4.3.2 says of a question: an rcode, the name and type of the records that answer, and of those that refer elsewhere.
type reply struct {
	rcode    int
	answer   []dns.RR // as they stand in the zone
	referral []dns.RR
	goesOn   bool // a CNAME or DNAME leads on from there
}

// look answers one question, in words as near to the RFC as may be.
func (t table) look(name string, typ uint16) reply {
	labels := dns.SplitDomainName(name)
	top := dns.CountLabel(origin)
	for n := top; n <= len(labels); n++ { // from the apex downwards
		at := dns.Fqdn(strings.Join(labels[len(labels)-n:], "."))
		exact := n == len(labels)
		switch {
		case !t.exists(at):
			above := dns.Fqdn(strings.Join(labels[len(labels)-n+1:], "."))
			if wild := "*." + above; t.exists(wild) {
				return t.at(wild, typ)
			}
			return reply{rcode: dns.RcodeNameError}
		case n > top && len(t.of(at, dns.TypeNS)) > 0 && !(exact && typ == dns.TypeDS):
			return reply{referral: t.of(at, dns.TypeNS)}
		case exact:
			return t.at(at, typ)
		case len(t.of(at, dns.TypeDNAME)) > 0:
			return reply{answer: t.of(at, dns.TypeDNAME), goesOn: true}
		}
	}
	return reply{rcode: -1}
}

func (t table) at(name string, typ uint16) reply {
	if alias := t.of(name, dns.TypeCNAME); len(alias) > 0 && typ != dns.TypeCNAME && typ != dns.TypeNSEC {
		return reply{answer: alias[:1], goesOn: true}
	}
	return reply{answer: t.of(name, typ)}
}

// rdata is the data of records, sorted, each once.
func rdata(all []dns.RR) (out []string) {
	for _, rr := range all {
		out = append(out, strings.ToLower(strings.TrimPrefix(rr.String(), rr.Header().String())))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// FuzzZone reads any zone file and asks it a question. A file that miekg/dns refuses is refused, and the answer is that of a few lines written after RFC
// 1034 4.3.2 over the records as miekg/dns reads them.
func FuzzZone(f *testing.F) {
	const head = "@ 300 IN SOA ns1 hostmaster 1 7200 3600 1209600 60\n@ 300 IN NS ns1\nns1 300 IN A 192.0.2.1\n"
	for _, text := range []string{
		"", "www 60 IN A 192.0.2.4\nwww 60 IN A 192.0.2.5\n", "a.b.c 60 IN TXT \"deep\"\n", "*.w 60 IN A 192.0.2.6\nx.w 60 IN TXT x\n", "*.w 60 IN CNAME www\nwww 60 IN A 192.0.2.4\n",
		"sub 60 IN NS ns.sub\nns.sub 60 IN A 192.0.2.7\nbelow.sub 60 IN A 192.0.2.8\nsub 60 IN DS 1 8 2 00\n", "old 60 IN DNAME new\nx.new 60 IN A 192.0.2.8\n",
		"loop 60 IN CNAME loop\n", "$GENERATE 1-9 h$ 60 IN A 192.0.2.$\n", "$ORIGIN sub\nx 60 IN A 192.0.2.9\n", "$TTL 5\nx A 192.0.2.9\n", "X 60 CH TXT x\n",
		"outside.example. 60 IN A 192.0.2.9\n", "x 60 IN TYPE65280 \\# 4 0A000001\n", "\\000.x 60 IN A 192.0.2.9\n", "x 60 IN MX 10 mail\nmail 60 IN AAAA 2001:db8::1\n",
	} {
		for _, name := range []string{"www", "x.w", "y.w", "a.b", "sub", "x.sub", "x.old", "loop", "h3", "x"} {
			for _, typ := range []uint16{dns.TypeA, dns.TypeTXT, dns.TypeDS} {
				f.Add(head+text, name, typ)
			}
		}
	}
	z := wire.NewZone(wire.MustCanonical(origin))
	f.Fuzz(func(t *testing.T, text, name string, typ uint16) {
		if len(text) > 4096 || typ == dns.TypeANY || typ == dns.TypeRRSIG || typ == dns.TypeOPT || typ == dns.TypeNone || typ == dns.TypeSIG {
			return // ANY gives what fits, and signatures go with what they sign
		}
		known, ok := readTable(text)
		got, err := zone.Parse(strings.NewReader(text), z, "")
		if err == nil && !ok {
			t.Fatalf("miekg/dns does not read\n%s", text)
		}
		raw, bad := wire.ParseName(strings.ToLower(name) + "." + origin)
		if err != nil || bad != nil {
			return
		}
		var folded wire.Name
		if folded.SetCanonical(wire.Canonical(raw)) != nil || !z.Contains(folded.Canonical()) {
			return
		}
		asked := folded.Canonical().String()
		var h zone.Table
		h.Own(z, zones.Fallthrough{})
		h.Set(z, got)
		m := plugintest.Question("x.", "A")
		m.Question[0] = dns.Question{Name: asked, Qtype: typ, Qclass: dns.ClassINET}
		if _, err := m.Pack(); err != nil {
			return
		}
		compare(t, text, plugintest.Ask(t, "", m, &h), known.look(asked, typ), asked, typ)
	})
}

func compare(t *testing.T, text string, got *dns.Msg, want reply, name string, typ uint16) {
	t.Helper()
	var first []dns.RR // the records of the first type in the answer, which are those that the question led to
	for _, rr := range got.Answer {
		if rr.Header().Rrtype == got.Answer[0].Header().Rrtype && strings.EqualFold(rr.Header().Name, got.Answer[0].Header().Name) {
			first = append(first, rr)
		}
	}
	var ns []dns.RR
	for _, rr := range got.Ns {
		if len(want.referral) > 0 && rr.Header().Rrtype == dns.TypeNS {
			ns = append(ns, rr)
		}
	}
	switch {
	case want.goesOn && got.Rcode == dns.RcodeServerFailure: // the chain is a loop
		return
	case !want.goesOn && got.Rcode != want.rcode, !slices.Equal(rdata(first), rdata(want.answer)), !slices.Equal(rdata(ns), rdata(want.referral)),
		len(want.referral) > 0 == got.Authoritative:
		t.Fatalf("%s type %d of\n%s\ngot\n%v\nwant %+v", name, typ, text, got, want)
	}
}
