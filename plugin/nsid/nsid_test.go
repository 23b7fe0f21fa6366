package nsid

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server/servertest"
)

func TestIdentity(t *testing.T) {
	t.Parallel()
	back := plugintest.NewAnswers(t, "a. 1 IN CNAME b.", "b. 1 IN A 192.0.2.1")
	for text, want := range map[string]string{"nsid": "686f73742d31", "nsid Use The Source": "5573652054686520536f75726365"} {
		o, err := Parse(plugintest.Input(t, text))
		if err != nil {
			t.Fatal(err)
		}
		h := New(o, "host-1")
		m := plugintest.Question("a.", "A")
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_NSID{Code: dns.EDNS0NSID}}
		r := plugintest.Ask(t, "", m, h, back).IsEdns0()
		if len(r.Option) != 1 || r.Option[0].(*dns.EDNS0_NSID).Nsid != want {
			t.Errorf("%s: got %v, want %s", text, r, want)
		}
		if r := plugintest.Ask(t, "", plugintest.Question("a.", "A"), h, back).IsEdns0(); len(r.Option) != 0 {
			t.Errorf("a client that did not ask got %v", r)
		}
	}
}

func TestNoAllocs(t *testing.T) {
	b := servertest.Block(".", plugintest.Stage(New(Options{}, "host-1")), plugintest.Stage(plugintest.NewAnswers(t, "b. 1 IN A 192.0.2.1")))
	servertest.NoAllocs(t, servertest.Query("b.", dns.TypeA, 1232), b)
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"nsid " + strings.Repeat("x", 513): "more than 512 bytes",
		"nsid {\nx y\n}":                   "takes no options in braces",
	} {
		if _, err := Parse(plugintest.Input(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "nsid", "nsid", "DATA...")
}
