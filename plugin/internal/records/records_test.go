package records_test

import (
	"testing"

	"github.com/clusterdns/clusterdns/plugin/internal/records"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

func TestParse(t *testing.T) {
	t.Parallel()
	rr, err := records.Parse("Www.example.org 60 IN MX 10 mail.example.org")
	if err != nil || string(rr.Owner) != "\x03Www\x07example\x03org\x00" || rr.TTL != 60 || rr.Type != wire.TypeMX || string(rr.Data) != "\x00\x0a\x04mail\x07example\x03org\x00" {
		t.Errorf("%+v, %v", rr, err)
	}
	for _, text := range []string{"", "; a comment", "www.example.org", "www.example.org 60 IN A 1.2.3", "www.example.org 60 IN NOTYPE x"} {
		if rr, err := records.Parse(text); err == nil {
			t.Errorf("%q: %+v", text, rr)
		}
	}
}

func TestTarget(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a. CNAME x.": "x.", "a. DNAME x.": "x.", "a. NS x.": "x.", "a. PTR x.": "x.", "a. SOA x. y. 1 2 3 4 5": "x.", "a. MX 1 x.": "x.", "a. SRV 1 2 3 x.": "x.",
		`a. NAPTR 1 2 "u" "e" "re" x.`: "x.", "a. A 192.0.2.1": "", "a. TXT x": "",
	} {
		rr, err := records.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		from, to, ok := records.Target(&rr)
		if ok != (want != "") || ok && string(wire.AppendPresentation(nil, rr.Data[from:to])) != want {
			t.Errorf("%s: %d to %d, %v", text, from, to, ok)
		}
	}
	for typ, data := range map[wire.Type]string{wire.TypeCNAME: "\x03ab", wire.TypeMX: "\x00", wire.TypeSRV: "\x00\x00\x00", wire.TypeNAPTR: "\x00\x01\x00\x02\x05u"} {
		if _, _, ok := records.Target(&server.Record{Type: typ, Data: []byte(data)}); ok {
			t.Errorf("%v that is cut short has a target", typ)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]wire.Type{"a": wire.TypeA, "AAAA": wire.TypeAAAA, "any": wire.TypeANY, "TYPE65": wire.TypeHTTPS, "uri": 256} {
		if got, ok := records.ParseType(s); !ok || got != want {
			t.Errorf("type %s: %v, %v", s, got, ok)
		}
	}
	for s, want := range map[string]wire.RCode{"noerror": 0, "NXDOMAIN": 3, "5": 5, "BADSIG": 16, "BADCOOKIE": 23, "23": 23} {
		if got, ok := records.ParseRCode(s); !ok || got != want {
			t.Errorf("rcode %s: %v, %v", s, got, ok)
		}
	}
	for _, s := range []string{"", "x", "24", "-1", "RCODE99"} {
		if got, ok := records.ParseRCode(s); ok {
			t.Errorf("rcode %q is %v", s, got)
		}
	}
	if c, ok := records.ParseClass("ch"); !ok || c != wire.ClassCH {
		t.Errorf("class ch: %v, %v", c, ok)
	}
}
