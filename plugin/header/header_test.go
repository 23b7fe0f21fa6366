package header

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ aa, ra, rd, asked bool }{
		"header {\nresponse set ra\n}":                       {true, true, true, true},
		"header {\nresponse set ra aa\nresponse clear rd\n}": {true, true, false, true},
		"header {\nresponse clear aa\n}":                     {false, false, true, true},
		"header {\nresponse set ra\nresponse clear ra\n}":    {true, false, true, true},
		"header {\nresponse clear ra\nRESPONSE Set RA\n}":    {true, true, true, true},
		"header {\nquery clear rd\n}":                        {true, false, true, false},
		"header {\nquery clear rd\nquery set rd\nset ra\n}":  {true, true, true, true},
	} {
		o, err := Parse(plugintest.Input(t, text))
		if err != nil {
			t.Fatal(err)
		}
		back := plugintest.NewAnswers(t, "a. 1 IN A 192.0.2.1")
		asked := false
		back.Asked = func(q *server.Query) { asked = q.RD() }
		r := plugintest.Ask(t, "", plugintest.Question("a.", "A"), New(o), back)
		if r.Authoritative != want.aa || r.RecursionAvailable != want.ra || r.RecursionDesired != want.rd || asked != want.asked {
			t.Errorf("%q: the chain saw RD %v, the client\n%v", text, asked, r)
		}
	}
}

func TestNoAllocs(t *testing.T) {
	o, err := Parse(plugintest.Input(t, "header {\nresponse set ra\nquery set rd\n}"))
	if err != nil {
		t.Fatal(err)
	}
	b := servertest.Block(".", plugintest.Stage(New(o)), plugintest.Stage(plugintest.NewAnswers(t, "b. 1 IN A 192.0.2.1")))
	servertest.NoAllocs(t, servertest.Query("b.", dns.TypeA, 1232), b)
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"header":                          "needs lines in braces",
		"header x {\nresponse set ra\n}":  "takes no argument",
		"header {\nreply set ra\n}":       `Corefile:2: header: unknown word "reply"`,
		"header {\nresponse set\n}":       "at least one of the flags",
		"header {\nresponse flip ra\n}":   `unknown action "flip"`,
		"header {\nresponse set ra ad\n}": `unknown flag "ad"; known are aa, ra, rd`,
	} {
		if _, err := Parse(plugintest.Input(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
	in, warned := plugintest.Input(t, "header {\nset ra\n}"), 0
	in.Warn = func(directive.Arg, string, ...any) { warned++ }
	if _, err := Parse(in); err != nil || warned != 1 {
		t.Errorf("the old form: %v, %d warnings", err, warned)
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "header", Words()...)
}
