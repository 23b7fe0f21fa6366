package zones_test

import (
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/zones"
	"github.com/clusterdns/clusterdns/server/wire"
)

func name(t *testing.T, s string) *wire.Name {
	t.Helper()
	b, err := wire.ParseName(s)
	if err != nil {
		t.Fatal(err)
	}
	n := new(wire.Name)
	if err := n.Set(b); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFind(t *testing.T) {
	t.Parallel()
	s := zones.New([]string{"example.org.", "sub.example.org.", "example.net.", "example.org."})
	if len(s) != 3 {
		t.Errorf("%v: a zone stands twice", s)
	}
	for n, want := range map[string]string{"example.org.": "example.org.", "a.b.Sub.example.org.": "sub.example.org.", "xexample.org.": "", "org.": "", "x.example.net.": "example.net."} {
		z, labels, ok := s.Find(name(t, n))
		if ok != (want != "") || ok && (z.String() != want || labels != name(t, n).Labels()-z.Labels()) {
			t.Errorf("%s: %v, %d, %v; want %q", n, z, labels, ok, want)
		}
	}
	if !zones.New([]string{"."}).Contains(name(t, "anything.")) {
		t.Error("the root does not hold everything")
	}
}

func TestFallthrough(t *testing.T) {
	t.Parallel()
	n := name(t, "1.2.0.192.in-addr.arpa.")
	if (zones.Fallthrough{}).For(n) {
		t.Error("off")
	}
	all, err := zones.ParseFallthrough(&directive.Line{})
	if err != nil || !all.For(n) {
		t.Errorf("without zones: %v, %v", all, err)
	}
	some, err := zones.ParseFallthrough(&directive.Line{Args: []directive.Arg{{Text: "ip6.arpa"}, {Text: "198.51.100.0/24"}}})
	if err != nil || some.For(n) || !some.For(name(t, "1.100.51.198.in-addr.arpa.")) || !some.For(name(t, "x.ip6.arpa.")) {
		t.Errorf("with zones: %v, %v", some, err)
	}
	if _, err := zones.ParseFallthrough(&directive.Line{Args: []directive.Arg{{Text: "a..b"}}}); err == nil {
		t.Error("a bad zone was taken")
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for _, a := range []string{"192.0.2.1", "0.0.0.0", "255.255.255.255", "2001:db8::1", "::", "fe80::abcd:ef01"} {
		rev, err := dns.ReverseAddr(a)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := zones.Address(name(t, rev)); !ok || got != netip.MustParseAddr(a) {
			t.Errorf("%s: %v, %v", rev, got, ok)
		}
	}
	for _, n := range []string{"1.2.3.in-addr.arpa.", "1.2.3.256.in-addr.arpa.", "01.2.3.4.in-addr.arpa.", "a.2.3.4.in-addr.arpa.", "1.2.3.4.5.in-addr.arpa.", "1.2.3.4.in-addr.example.",
		"x.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.", "8.b.d.0.1.0.0.2.ip6.arpa.", "."} {
		if got, ok := zones.Address(name(t, n)); ok {
			t.Errorf("%s is %v", n, got)
		}
	}
}

func TestTexts(t *testing.T) {
	var texts zones.Texts
	n := name(t, `A\.b.Example.org.`)
	x := texts.Of(n)
	if string(x.B) != `a\.b.example.org.` {
		t.Errorf("got %s", x.B)
	}
	texts.Done(x)
	if got := testing.AllocsPerRun(100, func() { texts.Done(texts.Of(n)) }); got > 0.5 {
		t.Errorf("%v allocations", got)
	}
}
