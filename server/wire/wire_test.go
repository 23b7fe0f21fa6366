package wire_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server/wire"
)

func TestNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 63)
	for _, c := range []struct{ in, want string }{
		{".", "."},
		{"cluster.local", "cluster.local."},
		{"WWW.Example.ORG.", "www.example.org."},
		{`a\.b.c.`, `a\.b.c.`},
		{`\097\000.x`, `a\000.x.`},
		{"_http._tcp.web.prod.svc.cluster.local.", "_http._tcp.web.prod.svc.cluster.local."},
		{long + ".x.", long + ".x."},
		{"", "error"},
		{"a..b", "error"},
		{".a", "error"},
		{long + "a.x.", "error"},
		{strings.Repeat(long+".", 4), "error"},
		{`a\25`, "error"},
		{`a\256.x`, "error"},
		{`a\`, "error"},
	} {
		n, err := wire.ParseCanonical(c.in)
		switch {
		case c.want == "error" && err == nil:
			t.Errorf("%q: got %q, want an error", c.in, n)
		case c.want != "error" && (err != nil || n.String() != c.want):
			t.Errorf("%q: got %q, %v, want %q", c.in, n.String(), err, c.want)
		}
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	zone := wire.NewZone(wire.MustCanonical("cluster.local."))
	for _, c := range []struct {
		name   string
		labels int
		in     bool
	}{
		{"cluster.local.", 0, true},
		{"Web.prod.svc.CLUSTER.local.", 3, true},
		{"local.", 0, false},
		{".", 0, false},
		{"xcluster.local.", 0, false},
		{`a\.cluster.local.`, 0, false},
		{"cluster.local.x.", 0, false},
	} {
		b, err := wire.ParseName(c.name)
		if err != nil {
			t.Fatal(err)
		}
		var n wire.Name
		if err := n.Set(b); err != nil {
			t.Fatal(err)
		}
		if k, ok := n.Cut(zone); k != c.labels || ok != c.in {
			t.Errorf("%s: got %d, %v, want %d, %v", c.name, k, ok, c.labels, c.in)
		}
		if zone.Contains(n.Canonical()) != c.in {
			t.Errorf("%s: Contains differs from Cut", c.name)
		}
		if !wire.NewZone(wire.Root).Contains(n.Canonical()) {
			t.Errorf("%s is not in the root zone", c.name)
		}
	}
}

// TestNamesEndWithData has RDATA that is a byte shorter than what stands in it, so that its last name ends in what follows.
func TestNamesEndWithData(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"NS a.b.", "CNAME a.b.", "MX 1 a.b.", "SRV 1 2 3 a.b.", "RP a.b. c.", "AFSDB 1 a.b.", `NAPTR 1 2 "a" "b" "c" a.b.`} {
		r, err := dns.NewRR(". 5 IN " + text)
		if err != nil {
			t.Fatal(err)
		}
		m := &dns.Msg{Answer: []dns.RR{r}}
		msg, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		rr, err := wire.ReadRR(msg, wire.HeaderLen)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := wire.AppendRData(nil, msg, rr); err != nil || !bytes.Equal(data, msg[rr.Data:]) {
			t.Errorf("%s: %x, %v", text, data, err)
		}
		rr.End--
		if data, err := wire.AppendRData(nil, msg, rr); err == nil {
			t.Errorf("%s, cut short: %x", text, data)
		}
	}
}

// seeds are messages whose every byte matters to the parsers.
func seeds(f *testing.F) {
	m := new(dns.Msg)
	m.SetQuestion("Www.example.org.", dns.TypeA)
	m.SetEdns0(1232, true)
	add := func(m *dns.Msg) {
		m.Compress = true
		if b, err := m.Pack(); err == nil {
			f.Add(b)
		}
	}
	add(m)
	for _, rr := range []string{
		"www.example.org. 30 IN A 192.0.2.1", "www.example.org. 5 IN CNAME x.example.org.", "_s._tcp.example.org. 5 IN SRV 1 2 3 www.example.org.",
		"example.org. 5 IN SOA ns.example.org. h.example.org. 1 2 3 4 5", "example.org. 5 IN MX 1 mail.example.org.",
		`example.org. 5 IN NAPTR 1 2 "a" "b" "c" www.example.org.`, `example.org. 5 IN TXT "a" "b"`,
	} {
		r, err := dns.NewRR(rr)
		if err != nil {
			f.Fatal(err)
		}
		m.Answer = append(m.Answer, r)
		add(m)
	}
	f.Add([]byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 0xC0, 12, 0, 1, 0, 1})
	f.Add([]byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xC0, 12, 0, 1, 0, 1})
	f.Add(append([]byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, bytes.Repeat([]byte{1, 'a'}, 127)...))
}

// FuzzName compares the reading of a name with miekg/dns's: what we take, it takes with the same text.
func FuzzName(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, msg []byte) {
		if len(msg) < wire.HeaderLen {
			return
		}
		want, wantEnd, wantErr := dns.UnpackDomainName(msg, wire.HeaderLen)
		b, end, err := wire.AppendName(nil, msg, wire.HeaderLen)
		if err == nil {
			if wantErr != nil {
				t.Fatalf("AppendName takes %x, miekg/dns says %v", msg, wantErr)
			}
			if got := string(wire.AppendPresentation(nil, b)); got != want || end != wantEnd {
				t.Fatalf("AppendName: %q to %d, miekg/dns %q to %d", got, end, want, wantEnd)
			}
			if s, err := wire.SkipName(msg, wire.HeaderLen); err != nil || s != end {
				t.Fatalf("SkipName: %d, %v, want %d", s, err, end)
			}
			back, err := wire.ParseName(want)
			if err != nil || !bytes.Equal(back, b) {
				t.Fatalf("ParseName(%q): %x, %v, want %x", want, back, err, b)
			}
		}
		var n wire.Name
		if nend, nerr := n.Parse(msg, wire.HeaderLen); nerr == nil {
			if err != nil || nend != end || !bytes.Equal(n.Bytes(), b) {
				t.Fatalf("Name.Parse: %x to %d, AppendName %x to %d, %v", n.Bytes(), nend, b, end, err)
			}
			if string(n.Canonical()) != strings.ToLower(string(b)) && isASCII(b) {
				t.Fatalf("folded %q of %q", n.Canonical(), b)
			}
			if n.Labels() != n.Canonical().Labels() {
				t.Fatalf("labels: %d, %d", n.Labels(), n.Canonical().Labels())
			}
		}
	})
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// FuzzRecords walks the records of a message: whatever is in it, it ends, and RDATA copied out of it unpacks to the same record in miekg/dns.
func FuzzRecords(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, msg []byte) {
		h, err := wire.ParseHeader(msg)
		if err != nil {
			return
		}
		off, err := wire.SkipQuestion(msg, int(h.QDCount))
		if err != nil {
			return
		}
		if _, err := wire.FindOPT(msg, h, off); err == nil {
			if _, err := wire.ParseHeader(msg); err != nil {
				t.Fatal(err)
			}
		}
		for range int(h.ANCount) {
			rr, err := wire.ReadRR(msg, off)
			if err != nil {
				return
			}
			switch rr.Type { // of other types, RDATA moves as it is: names in it may not be compressed (RFC 3597 4)
			case wire.TypeA, wire.TypeAAAA, wire.TypeNS, wire.TypeCNAME, wire.TypePTR, wire.TypeSOA, wire.TypeMX, wire.TypeSRV, wire.TypeTXT, wire.TypeNAPTR:
				checkRData(t, msg, rr)
			}
			off = rr.End
		}
	})
}

func checkRData(t *testing.T, msg []byte, rr wire.RR) {
	t.Helper()
	data, err := wire.AppendRData(nil, msg, rr)
	want, _, werr := dns.UnpackRR(msg, rr.Owner)
	if err != nil || werr != nil || len(data) > 0xFFFF {
		return
	}
	alone, _, err := wire.AppendName(nil, msg, rr.Owner)
	if err != nil {
		return
	}
	alone = append(alone, msg[rr.TTLAt-4:rr.TTLAt+4]...)
	alone = append(alone, byte(len(data)>>8), byte(len(data)))
	got, _, err := dns.UnpackRR(append(alone, data...), 0)
	if err != nil {
		t.Fatalf("%v copied out does not unpack: %v", want, err)
	}
	if got.String() != want.String() {
		t.Fatalf("got  %v\nwant %v", got, want)
	}
}
