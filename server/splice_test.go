package server_test

import (
	"fmt"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// upstreamReply is what an upstream would send to q.
func upstreamReply(t testing.TB, q *dns.Msg, answer, ns, extra []string) []byte {
	t.Helper()
	m := new(dns.Msg)
	m.SetReply(q)
	m.Compress = true
	m.RecursionAvailable, m.Authoritative, m.AuthenticatedData = true, true, true
	for i, list := range [][]string{answer, ns, extra} {
		for _, s := range list {
			rr, err := dns.NewRR(s)
			if err != nil {
				t.Fatal(err)
			}
			*[]*[]dns.RR{&m.Answer, &m.Ns, &m.Extra}[i] = append(*[]*[]dns.RR{&m.Answer, &m.Ns, &m.Extra}[i], rr)
		}
	}
	return servertest.Pack(t, m)
}

// splices answers with a message.
func splices(msg []byte, o server.Splice) handler {
	return func(r *server.Reply, q *server.Query) server.Verdict {
		if err := r.Splice(msg, o); err != nil {
			return r.Fail(err)
		}
		return server.Done
	}
}

func TestSplice(t *testing.T) {
	t.Parallel()
	q := servertest.Query("www.example.org.", dns.TypeA, 0)
	msg := upstreamReply(t, q, []string{"www.example.org. 100 IN CNAME web.example.org.", "web.example.org. 300 IN A 192.0.2.1", "web.example.org. 300 IN A 192.0.2.2"},
		[]string{"example.org. 10 IN NS ns.example.org."}, []string{"ns.example.org. 10 IN A 192.0.2.53"})
	for name, front := range map[string][]server.Stage{
		"first":         nil, // the message is copied as one
		"after a CNAME": {stage(cnames(map[string]string{"alias.example.org.": "WWW.example.org."}))},
	} {
		asked := "WwW.example.org."
		if front != nil {
			asked = "alias.example.org."
		}
		for _, c := range []struct {
			o    server.Splice
			ttls string
		}{
			{server.Splice{}, "[100 300 300 10 10]"},
			{server.Splice{Age: 20}, "[80 280 280 0 0]"},
			{server.Splice{Age: 20, MaxTTL: 30, MinTTL: 5}, "[30 30 30 5 5]"},
		} {
			b := servertest.Block(".", append(front[:len(front):len(front)], stage(splices(msg, c.o)))...)
			b.Options.Shuffle = true
			r := servertest.Start(t, b).Ask(t, asked, dns.TypeA)
			if front != nil {
				r.Answer = r.Answer[1:]
			}
			var ttls []uint32
			for _, rr := range append(append(r.Answer, r.Ns...), r.Extra...) {
				if rr.Header().Rrtype != dns.TypeOPT {
					ttls = append(ttls, rr.Header().Ttl)
				}
			}
			if got := fmt.Sprint(ttls); got != c.ttls {
				t.Errorf("%s, %+v: TTLs %s, want %s\n%v", name, c.o, got, c.ttls, r)
			}
			if o := r.Answer[0].Header().Name; front == nil && o != asked || front != nil && o != "WWW.example.org." {
				t.Errorf("%s: owner %s: letter case is not as asked", name, o)
			}
		}
	}
}

func TestSpliceFlags(t *testing.T) {
	t.Parallel()
	all := wire.FlagAA | wire.FlagRA | wire.FlagAD
	for _, c := range []struct {
		take       wire.Flags
		ad         bool
		aa, ra, ok bool
	}{
		{all, false, true, true, false},
		{all, true, true, true, true},
		{wire.FlagRA, true, false, true, false},
		{0, false, false, false, false},
	} {
		q := servertest.Query("www.example.org.", dns.TypeA, 0)
		q.AuthenticatedData = c.ad
		msg := upstreamReply(t, q, []string{"www.example.org. 100 IN A 192.0.2.1"}, nil, nil)
		r := servertest.Start(t, servertest.Block(".", stage(splices(msg, server.Splice{Flags: c.take})))).Exchange(t, "udp", q)
		if r.Authoritative != c.aa || r.RecursionAvailable != c.ra || r.AuthenticatedData != c.ok {
			t.Errorf("%v, asked for AD %v: %v", c.take, c.ad, r.MsgHdr)
		}
	}
}

// TestSpliceTooLong gives a client as many whole records as it takes, with TC, over TCP all of them; a malformed message is SERVFAIL.
func TestSpliceTooLong(t *testing.T) {
	t.Parallel()
	var rrs []string
	for i := range 200 {
		rrs = append(rrs, fmt.Sprintf("big.example.org. 30 IN A 198.51.100.%d", i))
	}
	q := servertest.Query("big.example.org.", dns.TypeA, 0)
	msg := upstreamReply(t, q, rrs, nil, nil)
	s := servertest.Start(t, servertest.Block(".", stage(splices(msg, server.Splice{}))))
	if r := s.Exchange(t, "udp", q); !r.Truncated || len(r.Answer) != 29 {
		t.Errorf("TC %v, %d records", r.Truncated, len(r.Answer))
	}
	if r := s.Exchange(t, "tcp", q); r.Truncated || len(r.Answer) != len(rrs) {
		t.Errorf("over TCP: TC %v, %d records", r.Truncated, len(r.Answer))
	}
	for _, n := range []int{5, 20, len(msg) - 3} {
		s := servertest.Start(t, servertest.Block(".", stage(splices(msg[:n], server.Splice{}))))
		if r := s.Exchange(t, "tcp", q); r.Rcode != dns.RcodeServerFailure || len(r.Answer) != 0 {
			t.Errorf("message cut at %d: %v", n, r)
		}
	}
}

// TestSpliceCutShort splices in records whose RDATA is a byte shorter than the name in it, where they are taken apart: they are malformed.
func TestSpliceCutShort(t *testing.T) {
	t.Parallel()
	q := servertest.Query("www.example.org.", dns.TypeA, 0)
	for _, rr := range []string{"www.example.org. 100 IN CNAME web.example.net.", "www.example.org. 100 IN NS web.example.net."} {
		for cut, want := range []int{dns.RcodeSuccess, dns.RcodeServerFailure} {
			msg := upstreamReply(t, q, []string{rr}, nil, nil)
			msg[len(msg)-len("\x03web\x07example\x03net\x00")-1] -= byte(cut)
			b := servertest.Block(".", stage(cnames(map[string]string{"alias.": "www.example.org."})), stage(splices(msg, server.Splice{})))
			reply, _ := servertest.Direct(b).Answer(servertest.Pack(t, servertest.Query("alias.", dns.TypeA, 0)), servertest.Client, server.UDP)
			if rc := wire.Flags(reply[3]).RCode(); rc != wire.RCode(want) {
				t.Errorf("%s, %d bytes short: %s", rr, cut, rc)
			}
		}
	}
}

func TestSpliceNoAllocs(t *testing.T) {
	q := servertest.Query("www.example.org.", dns.TypeA, 1232)
	msg := upstreamReply(t, q, []string{"www.example.org. 100 IN A 192.0.2.1", "www.example.org. 100 IN A 192.0.2.2"}, nil, nil)
	b := servertest.Block(".", stage(splices(msg, server.Splice{Age: 1, Flags: wire.FlagRA})))
	b.Options.Shuffle = true
	servertest.NoAllocs(t, q, b)
}

// FuzzSplice takes arbitrary bytes for an upstream's reply: the reply to the client always unpacks and fits.
func FuzzSplice(f *testing.F) {
	q := servertest.Query("www.example.org.", dns.TypeA, 0)
	f.Add(upstreamReply(f, q, []string{"www.example.org. 100 IN CNAME web.example.org.", "web.example.org. 300 IN A 192.0.2.1"}, nil, nil), true)
	f.Add(upstreamReply(f, q, nil, []string{"example.org. 5 IN SOA ns.example.org. h.example.org. 1 2 3 4 5"}, nil), false)
	f.Fuzz(func(t *testing.T, msg []byte, follow bool) {
		chain := []server.Stage{stage(splices(msg, server.Splice{Age: 1}))}
		name := "www.example.org."
		if follow {
			name = "alias.example.org."
			chain = append([]server.Stage{stage(cnames(map[string]string{name: "www.example.org."}))}, chain...)
		}
		b := servertest.Block(".", chain...)
		b.Options.Shuffle = true
		reply, ok := servertest.Direct(b).Answer(servertest.Pack(t, servertest.Query(name, dns.TypeA, 0)), servertest.Client, server.UDP)
		if !ok || len(reply) > dns.MinMsgSize {
			t.Fatalf("replied %v, %d bytes", ok, len(reply))
		}
		h, err := wire.ParseHeader(reply)
		if err != nil {
			t.Fatal(err)
		}
		off, err := wire.SkipQuestion(reply, int(h.QDCount))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wire.FindOPT(reply, h, off); err != nil {
			t.Fatalf("%x: %v", reply, err)
		}
	})
}
