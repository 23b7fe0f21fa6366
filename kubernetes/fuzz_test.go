package kubernetes_test

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// FuzzName asks odd names of every kind of cluster. Whatever is asked, there is one reply, miekg/dns reads it, it echoes the question to the
// letter, and what it says fits together.
func FuzzName(f *testing.F) {
	label := strings.Repeat("x", 63)
	for _, name := range []string{
		".", "cluster.local", "svc.cluster.local", "a.svc.cluster.local", "web.prod.svc.cluster.local", "_._.web.prod.svc.cluster.local", "_.web.prod.svc.cluster.local",
		"__.__.web.prod.svc.cluster.local", "_http._tcp.web.prod.svc.cluster.local", "a.b.c.d.e.f.web.prod.svc.cluster.local", `we\.b.prod.svc.cluster.local`,
		`web.prod.svc.cluster\.local`, `\000.prod.svc.cluster.local`, `web\255.prod.svc.cluster.local`, "web.prod.svc.cluster.local.cluster.local",
		"--1.prod.pod.cluster.local", "-.prod.pod.cluster.local", "---.prod.pod.cluster.local", "--.prod.pod.cluster.local", "1-2-3-4.prod.pod.cluster.local",
		"--ffff-a00-1.prod.pod.cluster.local", "1-2-3-4-5-6-7-8.prod.pod.cluster.local", "1--2--3.prod.pod.cluster.local", "999-1-1-1.prod.pod.cluster.local",
		label + "." + label + "." + label + ".prod.svc.cluster.local", "zone.pin._zone.db.prod.svc.cluster.local", "a.b.prefer._zone.db.prod.svc.cluster.local",
		"pin._zone.db.prod.svc.cluster.local", "1.0.0.10.in-addr.arpa", "in-addr.arpa", "256.0.0.10.in-addr.arpa", "01.0.0.10.in-addr.arpa", "x.ip6.arpa",
		strings.Repeat("0.", 32) + "ip6.arpa", strings.Repeat("F.", 32) + "IP6.ARPA", strings.Repeat("a.", 120) + "cluster.local", "self.prod.svc.cluster.local",
		"gone.prod.svc.cluster.local", "ns.dns.cluster.local", "NS.dns.in-addr.arpa", "dns-version.cluster.local", "*.prod.svc.cluster.local", "any.any.svc.cluster.local",
	} {
		for _, typ := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypePTR, dns.TypeTXT, dns.TypeNS, dns.TypeSOA, dns.TypeCNAME, dns.TypeANY, dns.TypeAXFR, dns.TypeDS} {
			f.Add(name, typ, typ%2 == 0)
		}
	}
	const zones = "cluster.local in-addr.arpa ip6.arpa\n"
	listJSON := strings.ReplaceAll(external, "\n", " ")
	all := listJSON + "\n---\n" + strings.Join([]string{ports, pods, unready}, "\n---\n")
	var directs []*server.Direct
	for _, o := range []string{"pods insecure\nzonal", "pods verified\nendpoint_pod_names\nfallthrough in-addr.arpa", "pods disabled\nignore empty_service", "noendpoints\nfallthrough"} {
		b := block(cluster(f, zones+o, strings.TrimPrefix(all, "\n")), nil)
		b.Options.PanicHard = true // otherwise a panic would only be SERVFAIL
		directs = append(directs, servertest.Direct(b))
	}
	f.Fuzz(func(t *testing.T, name string, typ uint16, edns bool) {
		raw, err := wire.ParseName(name)
		if err != nil || typ == dns.TypeNone || typ == dns.TypeOPT {
			return
		}
		q := append([]byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, raw...)
		q = append(q, byte(typ>>8), byte(typ), 0, 1)
		if edns {
			q[11] = 1
			q = append(q, 0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0)
		}
		for _, d := range directs {
			for _, tr := range []server.Transport{server.UDP, server.TCP} {
				reply, ok := d.Answer(q, servertest.Client, tr)
				if !ok {
					t.Fatalf("no reply to %q type %d", name, typ)
				}
				sane(t, q[:len(raw)+16], reply, tr)
			}
		}
	})
}

// sane checks what holds of every reply.
func sane(t *testing.T, question, reply []byte, tr server.Transport) {
	t.Helper()
	var m dns.Msg
	if err := m.Unpack(reply); err != nil {
		t.Fatalf("% x: %v", reply, err)
	}
	if string(reply[12:len(question)]) != string(question[12:]) {
		t.Errorf("question % x came back as % x", question[12:], reply[12:])
	}
	switch {
	case m.Rcode == dns.RcodeNameError && len(m.Answer) > 0 && m.Answer[0].Header().Rrtype != dns.TypeCNAME:
		t.Errorf("NXDOMAIN with an answer: %v", &m)
	case m.Rcode == dns.RcodeNameError && len(m.Ns) != 1, m.Rcode == dns.RcodeSuccess && len(m.Answer)+len(m.Ns) == 0 && !m.Truncated:
		t.Errorf("denial without SOA: %v", &m)
	case m.Truncated && tr == server.TCP:
		t.Errorf("truncated over TCP: %v", &m)
	}
	for _, rr := range m.Answer {
		if rr.Header().Rrtype != m.Question[0].Qtype && rr.Header().Rrtype != dns.TypeCNAME && m.Question[0].Qtype != dns.TypeANY {
			t.Errorf("%v answers type %d", rr, m.Question[0].Qtype)
		}
	}
}
