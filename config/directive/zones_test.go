package directive_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/clusterdns/clusterdns/config/directive"
)

func TestSplitZone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, zones, port, err string }{
		{in: ".", zones: "."},
		{in: "Example.ORG", zones: "example.org."},
		{in: "example.org.:1053", zones: "example.org.", port: "1053"},
		{in: ".:053", zones: ".", port: "53"},
		{in: "example.org:dns", err: "port dns of \"example.org:dns\" is not a number"},
		{in: "10.0.0.0/8:dns", err: "port dns of"},
		{in: "example.org:53.", err: "port 53. of"},
		{in: "example.org:99999999999999999999", err: "is not a number"},
		{in: "10.0.0.0/8", zones: "10.in-addr.arpa."},
		{in: "10.1.2.3/8", zones: "10.in-addr.arpa."},
		{in: "0.0.0.0/0", zones: "in-addr.arpa."},
		{in: "::/0", zones: "ip6.arpa."},
		{in: "192.0.2.7/32", zones: "7.2.0.192.in-addr.arpa."},
		{in: "10.96.0.0/14:53", zones: "96.10.in-addr.arpa. 97.10.in-addr.arpa. 98.10.in-addr.arpa. 99.10.in-addr.arpa.", port: "53"},
		{in: "10.0.0.0/31", zones: "0.0.0.10.in-addr.arpa. 1.0.0.10.in-addr.arpa."},
		{in: "2001:db8::/32:54", zones: "8.b.d.0.1.0.0.2.ip6.arpa.", port: "54"},
		{in: "2001:db8::/31", zones: "8.b.d.0.1.0.0.2.ip6.arpa. 9.b.d.0.1.0.0.2.ip6.arpa."},
		{in: "10.0.0.0/33", zones: "10.0.0.0/33."},
		{in: "", err: "empty domain name"},
		{in: "a:", err: "a port must follow"},
		{in: "a:70000", err: "not within"},
		{in: "a..b", err: "empty label"},
		{in: strings.Repeat("a", 64) + ".org", err: "is not a zone"},
	} {
		zones, port, err := directive.SplitZone(c.in)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q: error %v, want one with %q", c.in, err, c.err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(zones, strings.Fields(c.zones)) || port != c.port {
			t.Errorf("%q: %q port %q, %v; want %q port %q", c.in, zones, port, err, c.zones, c.port)
		}
	}
}
