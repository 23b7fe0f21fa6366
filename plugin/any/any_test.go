package any

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server/servertest"
)

func TestAnswers(t *testing.T) {
	t.Parallel()
	back := plugintest.NewAnswers(t, "a. 1 IN A 192.0.2.1")
	plugintest.Check(t, "ANY", plugintest.Ask(t, "", plugintest.Question("A.", "ANY"), New(Options{}), back), "NOERROR", `A. 8482 IN HINFO "ANY obsoleted" "See RFC 8482"`)
	plugintest.Check(t, "A", plugintest.Ask(t, "", plugintest.Question("a.", "A"), New(Options{}), back), "NOERROR", "a. 1 IN A 192.0.2.1")
}

func TestNoAllocs(t *testing.T) {
	b := servertest.Block(".", plugintest.Stage(New(Options{})), plugintest.Stage(plugintest.NewAnswers(t, "b. 1 IN A 192.0.2.1")))
	servertest.NoAllocs(t, servertest.Query("b.", dns.TypeA, 1232), b)
	servertest.NoAllocs(t, servertest.Query("b.", dns.TypeANY, 1232), b)
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"any": true, "any thing": false, "any {\nx y\n}": false} {
		if _, err := Parse(plugintest.Input(t, text)); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "any", "any", "HINFO")
}
