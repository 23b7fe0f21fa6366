package cache_test

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/cache"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// as answers with a message as it is, whatever was asked.
type as []byte

func (m as) Answer(r *server.Reply, _ *server.Query) server.Verdict {
	if err := r.Splice(m, server.Splice{Flags: 0xFFFF}); err != nil {
		return r.Fail(err)
	}
	return server.Done
}

// ttls reads a reply and gives its TTLs. A reply that does not parse fails the test.
func ttls(t *testing.T, msg []byte) []uint32 {
	t.Helper()
	h, err := wire.ParseHeader(msg)
	if err != nil {
		t.Fatal(err)
	}
	off, err := wire.SkipQuestion(msg, int(h.QDCount))
	if err != nil {
		t.Fatal(err)
	}
	var out []uint32
	for range int(h.ANCount) + int(h.NSCount) + int(h.ARCount) {
		rr, err := wire.ReadRR(msg, off)
		if err != nil {
			t.Fatalf("%v in %x", err, msg)
		}
		var name [wire.MaxName]byte
		if _, _, err := wire.AppendName(name[:0], msg, rr.Owner); err != nil {
			t.Fatalf("owner: %v in %x", err, msg)
		}
		if _, err := wire.AppendRData(nil, msg, rr); err != nil {
			t.Fatalf("RDATA: %v in %x", err, msg)
		}
		if off = rr.End; rr.Type != wire.TypeOPT {
			out = append(out, rr.TTL)
		}
	}
	if off != len(msg) {
		t.Fatalf("%d bytes follow the last record of %x", len(msg)-off, msg)
	}
	return out
}

// FuzzStored gives the cache any message as the upstream's reply to a question. What it then serves is well-formed, has no more
// records than came, and shows one TTL. testdata/fuzz has messages named after what is wrong with them.
func FuzzStored(f *testing.F) {
	for _, s := range []string{
		"upstream www.example.org. A NOERROR ra ad ede=4\n  answer www.example.org. 300 IN CNAME web.example.net.\n  answer web.example.net. 60 IN A 192.0.2.1\n  authority example.net. 1 IN NS ns.example.net.\n  additional ns.example.net. 300 IN A 192.0.2.53",
		"upstream www.example.org. A NXDOMAIN\n  authority example.org. 300 IN SOA ns.example.org. admin.example.org. 1 7200 3600 1209600 60",
		"upstream www.example.org. A SERVFAIL ra\n  additional evil.example.org. 300 IN TXT out of place",
		"upstream www.example.org. A NOERROR\n  answer www.example.org. 300 IN CNAME www.example.org.\n  answer other.example.org. 4294967295 IN A 192.0.2.1",
		"upstream www.example.org. A NOERROR subnet\n  answer www.example.org. 300 IN A 192.0.2.1",
	} {
		sc := newScript(f, steps(s)[0])
		b, err := sc.msg.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	query := servertest.Pack(f, servertest.Query("www.Example.org.", dns.TypeA, 1232))
	f.Fuzz(func(t *testing.T, msg []byte) {
		if len(msg) > wire.MaxMessage {
			t.Skip()
		}
		h := cache.New(parse(t, "cache 30"), cache.NewMetrics(nil))
		from := func(behind server.Handler) []byte {
			d := servertest.Direct(servertest.Block(".", server.Stage{Name: "cache", Handler: h}, server.Stage{Name: "forward", Handler: behind}))
			reply, ok := d.Answer(query, servertest.Client, server.TCP)
			if !ok {
				t.Fatal("no reply")
			}
			return reply
		}
		first := from(as(msg))
		n := int(first[7]) | int(first[9]) | int(first[11])
		second := ttls(t, from(as(nil)))
		if len(second) > 0 && n == 0 {
			t.Errorf("records out of nothing: %x", msg)
		}
		for _, ttl := range second {
			if ttl != second[0] || ttl > 30 {
				t.Errorf("TTLs %v from %x", second, msg)
			}
		}
	})
}
