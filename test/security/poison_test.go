package security_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server/servertest"
)

const manifests = `apiVersion: v1
kind: Service
metadata: {name: kubernetes, namespace: default}
spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], ports: [{name: https, port: 443}]}
`

// liar is an upstream that answers for names below evil.example. as it likes, and for all others as it should.
type liar struct {
	mu    sync.Mutex
	lie   func(m *dns.Msg)
	sizes []uint16 // of UDP that it was told
}

// tells sets what the upstream says from now on.
func (l *liar) tells(lie func(m *dns.Msg)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lie = lie
}

func (l *liar) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg)
	m.SetReply(q)
	l.mu.Lock()
	if o := q.IsEdns0(); o != nil {
		l.sizes = append(l.sizes, o.UDPSize())
		m.SetEdns0(1232, false)
	}
	if strings.HasSuffix(strings.ToLower(q.Question[0].Name), "evil.example.") {
		l.lie(m)
	} else if q.Question[0].Qtype == dns.TypeA {
		m.Answer = rrs(q.Question[0].Name + " 300 IN A 192.0.2.1")
	}
	l.mu.Unlock()
	_ = w.WriteMsg(m)
}

func rrs(texts ...string) (out []dns.RR) {
	for _, t := range texts {
		rr, err := dns.NewRR(t)
		if err != nil {
			panic(err)
		}
		out = append(out, rr)
	}
	return out
}

// TestLiesStayWhereTheyAre has an upstream that puts whatever it likes into the answer to one name. What it says of that name is its own; what it says of others
// is believed of none of them: not of names outside, not of the cluster's, not of the zones above.
func TestLiesStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	const victim, cluster = "bank.example.", "kubernetes.default.svc.cluster.local."
	const soa = " 300 IN SOA a. b. 1 7200 3600 1209600 3600"
	for what, lie := range map[string]func(m *dns.Msg, name string){
		"additional": func(m *dns.Msg, name string) {
			m.Answer, m.Extra = rrs(name+" 300 IN A 203.0.113.66"), append(m.Extra, rrs(victim+" 300 IN A 203.0.113.66", cluster+" 300 IN A 203.0.113.66")...)
		},
		"glue": func(m *dns.Msg, name string) {
			m.Answer, m.Ns = rrs(name+" 300 IN A 203.0.113.66"), rrs("example. 300 IN NS "+victim, ". 300 IN NS "+victim, "cluster.local. 300 IN NS "+victim)
			m.Extra = append(m.Extra, rrs(victim+" 300 IN A 203.0.113.66")...)
		},
		"other names in the answer": func(m *dns.Msg, name string) {
			m.Answer = rrs(name+" 300 IN A 203.0.113.66", victim+" 300 IN A 203.0.113.66", cluster+" 300 IN A 203.0.113.66", "example. 300 IN A 203.0.113.66")
		},
		"only other names": func(m *dns.Msg, _ string) {
			m.Answer = rrs(victim+" 300 IN A 203.0.113.66", cluster+" 300 IN A 203.0.113.66")
		},
		"a CNAME into the cluster": func(m *dns.Msg, name string) {
			m.Answer = rrs(name+" 300 IN CNAME "+cluster, cluster+" 300 IN A 203.0.113.66")
		},
		"a CNAME to the victim": func(m *dns.Msg, name string) {
			m.Answer = rrs(name+" 300 IN CNAME "+victim, victim+" 300 IN A 203.0.113.66")
		},
		"a CNAME of the victim": func(m *dns.Msg, name string) {
			m.Answer = rrs(name+" 300 IN A 203.0.113.66", victim+" 300 IN CNAME "+name, cluster+" 300 IN CNAME "+name)
		},
		"DNAME": func(m *dns.Msg, name string) {
			m.Answer = rrs("example. 300 IN DNAME evil.", ". 300 IN DNAME evil.", "cluster.local. 300 IN DNAME evil.", name+" 300 IN CNAME x.evil.", "x.evil. 300 IN A 203.0.113.66")
		},
		"a denial by the victim's zone": func(m *dns.Msg, _ string) { m.Rcode, m.Ns = dns.RcodeNameError, rrs(victim+soa, cluster+soa) },
		"a denial of the zone above":    func(m *dns.Msg, _ string) { m.Rcode, m.Ns = dns.RcodeNameError, rrs("example."+soa, "."+soa) },
		"NSEC over everything": func(m *dns.Msg, _ string) {
			m.Rcode, m.Ns = dns.RcodeNameError, rrs("example."+soa, "example. 300 IN NSEC example. NS SOA")
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir, up := t.TempDir(), &liar{}
			if err := os.WriteFile(filepath.Join(dir, "cluster.yaml"), []byte(manifests), 0o600); err != nil {
				t.Fatal(err)
			}
			addr := start(t, dir, ".:0 {\n bind 127.0.0.1\n kubernetes cluster.local {\n  manifests DIR/cluster.yaml\n }\n forward . "+servertest.Upstream(t, up.ServeDNS)+"\n cache 30\n}\n")
			for i, typ := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeMX, dns.TypeANY} {
				name := fmt.Sprintf("x%d.evil.example.", i)
				up.tells(func(m *dns.Msg) { lie(m, name) })
				for range 2 { // the second time from the cache
					_ = exchange(t, "tcp", addr, servertest.Query(name, typ, 1232))
				}
			}
			for name, want := range map[string]string{victim: "192.0.2.1", "www." + victim: "192.0.2.1", "example.": "192.0.2.1", "other.example.": "192.0.2.1", cluster: "10.96.0.1"} {
				r := exchange(t, "udp", addr, servertest.Query(name, dns.TypeA, 1232))
				if len(r.Answer) != 1 || r.Answer[0].(*dns.A).A.String() != want || r.Answer[0].Header().Name != name {
					t.Errorf("%s: %v", name, r)
				}
			}
		})
	}
}

// TestLifetimesOfLies: whatever TTL an upstream writes, an answer is kept no longer than cache says.
func TestLifetimesOfLies(t *testing.T) {
	t.Parallel()
	up := &liar{}
	addr := start(t, t.TempDir(), ".:0 {\n bind 127.0.0.1\n forward . "+servertest.Upstream(t, up.ServeDNS)+"\n cache 30\n}\n")
	for _, ttl := range []uint32{0, 1, 31, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		name := fmt.Sprintf("t%d.evil.example.", ttl)
		up.tells(func(m *dns.Msg) {
			m.Answer = rrs(name + " 1 IN A 203.0.113.66")
			m.Answer[0].Header().Ttl = ttl
		})
		for range 2 {
			r := exchange(t, "udp", addr, servertest.Query(name, dns.TypeA, 1232))
			if len(r.Answer) != 1 || r.Answer[0].Header().Ttl > 30 {
				t.Errorf("TTL %d: %v", ttl, r)
			}
		}
	}
}

// TestEDNSOfUpstreams: it is between two neighbours. An upstream is told a size that no fragment is needed for, and what it writes into its OPT record goes no
// further; a set of records as large as a message reaches the client over TCP.
func TestEDNSOfUpstreams(t *testing.T) {
	t.Parallel()
	up := &liar{}
	addr := start(t, t.TempDir(), ".:0 {\n bind 127.0.0.1\n forward . "+servertest.Upstream(t, up.ServeDNS)+"\n cache 30\n}\n")
	up.tells(func(m *dns.Msg) {
		m.Answer = rrs(m.Question[0].Name + " 300 IN A 203.0.113.66")
		m.Extra = nil
		o := m.SetEdns0(65535, true).IsEdns0()
		o.Option = append(o.Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: strings.Repeat("ab", 40)}, &dns.EDNS0_NSID{Code: dns.EDNS0NSID, Nsid: "6576696c"},
			&dns.EDNS0_LOCAL{Code: dns.EDNS0LOCALSTART, Data: make([]byte, 500)}, &dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE, Timeout: 65535})
	})
	for _, proto := range []string{"udp", "tcp"} {
		for _, edns := range []uint16{0, 512, 4096} {
			r := exchange(t, proto, addr, servertest.Query("e.evil.example.", dns.TypeA, edns))
			o := r.IsEdns0()
			if len(r.Answer) != 1 || (o != nil) != (edns > 0) || o != nil && (len(o.Option) > 0 || o.Version() != 0 || o.UDPSize() != 1232) {
				t.Errorf("%s, %d: %v", proto, edns, r)
			}
		}
	}
	up.tells(func(m *dns.Msg) {
		for i := range 4000 {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 300}, A: []byte{10, 0, byte(i >> 8), byte(i)}})
		}
		m.Compress = true
		m.Extra = nil
	})
	if r := exchange(t, "tcp", addr, servertest.Query("large.evil.example.", dns.TypeA, 1232)); len(r.Answer) != 4000 {
		t.Errorf("a large set: %d records of rcode %d", len(r.Answer), r.Rcode)
	}
	r := exchange(t, "udp", addr, servertest.Query("large.evil.example.", dns.TypeA, 4096))
	if r.Compress = true; !r.Truncated || r.Len() > 4096 {
		t.Errorf("a large set by UDP: %d bytes, %v", r.Len(), r.MsgHdr)
	}
	up.mu.Lock()
	defer up.mu.Unlock()
	if len(up.sizes) == 0 || slices.Max(up.sizes) > 1232 {
		t.Errorf("upstreams are told %v", up.sizes)
	}
}
