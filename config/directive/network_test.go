package directive_test

import (
	"testing"

	"github.com/clusterdns/clusterdns/config/directive"
)

func TestNetwork(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.1.2.3/8":             "10.0.0.0/8",
		"2001:db8::1/32":         "2001:db8::/32",
		"::ffff:10.1.2.3/104":    "10.0.0.0/8",
		"::ffff:10.1.2.3/128":    "10.1.2.3/32",
		"::ffff:0:0/96":          "0.0.0.0/0",
		"::ffff:10.1.2.3/95":     "::fffe:0:0/95",
		"::/0":                   "::/0",
		"10.1.2.3":               "invalid Prefix",
		"10.0.0.0/33":            "invalid Prefix",
		"10.0.0.0/255.255.255.0": "invalid Prefix",
	} {
		n, err := directive.Network(text)
		if got := n.String(); got != want || (err != nil) != (want == "invalid Prefix") {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
}
