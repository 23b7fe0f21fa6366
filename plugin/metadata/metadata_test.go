package metadata

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// knows is a provider of one label.
type knows struct{ label, value string }

func (k knows) Metadata(_ *server.Query, label string) (string, bool) {
	return k.value, label == k.label
}

// asker is a handler that notes what labels say.
type asker struct{ labels, got []string }

func (a *asker) Answer(_ *server.Reply, q *server.Query) server.Verdict {
	a.got = nil
	for _, l := range a.labels {
		a.got = append(a.got, q.Metadata(l))
	}
	return server.Done
}

// TestZones: labels have values for names within the directive's zones only, and the first provider that knows one gives it.
func TestZones(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, name, want string }{
		{"metadata", "a.example.org.", "one,,two"},
		{"metadata", "example.net.", ",,"},
		{"metadata example.NET.", "x.Example.net.", "one,,two"},
		{"metadata example.net", "a.example.org.", ",,"},
		{"metadata .", "a.example.org.", "one,,two"},
		{"metadata 10.0.0.0/8 example.com", "1.2.3.10.in-addr.arpa.", "one,,two"},
	} {
		o, err := Parse(plugintest.Input(t, tt.text, "example.org."))
		if err != nil {
			t.Fatal(err)
		}
		a := &asker{labels: []string{"p/a", "p/none", "q/b"}}
		b := servertest.Block(".", server.Stage{Name: "x", Handler: a})
		b.Providers = []server.MetadataProvider{New(o, knows{"p/a", "one"}, knows{"q/b", "two"}, knows{"p/a", "three"})}
		servertest.Direct(b).Answer(servertest.Pack(t, servertest.Query(tt.name, dns.TypeA, 0)), servertest.Client, server.UDP)
		if got := strings.Join(a.got, ","); got != tt.want {
			t.Errorf("%s, %s: labels say %q, want %q", tt.text, tt.name, got, tt.want)
		}
	}
}

// TestTheNameAskedCounts, not what a directive before made of it.
func TestTheNameAskedCounts(t *testing.T) {
	t.Parallel()
	o, err := Parse(plugintest.Input(t, "metadata", "example.org."))
	if err != nil {
		t.Fatal(err)
	}
	a := &asker{labels: []string{"p/a"}}
	b := servertest.Block(".", server.Stage{Name: "rewrite", Handler: renamer{}}, server.Stage{Name: "x", Handler: a})
	b.Providers = []server.MetadataProvider{New(o, knows{"p/a", "one"})}
	servertest.Direct(b).Answer(servertest.Pack(t, servertest.Query("a.Example.org.", dns.TypeA, 0)), servertest.Client, server.UDP)
	if a.got[0] != "one" {
		t.Errorf("the label says %q, want one", a.got[0])
	}
}

// renamer makes the handlers behind it look for another name.
type renamer struct{}

func (renamer) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if err := q.SetName([]byte("\x03com\x00")); err != nil {
		return r.Fail(err)
	}
	return server.Pass
}

// TestLabelsHaveASlash: what has none is nobody's.
func TestLabelsHaveASlash(t *testing.T) {
	t.Parallel()
	p := New(Options{}, knows{"plain", "x"})
	if v, ok := p.Metadata(new(server.Query), "plain"); ok || v != "" {
		t.Errorf("got %q %v", v, ok)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"metadata a..b":         `Corefile:1: metadata: "a..b" is not a zone`,
		"metadata {\n map x\n}": `metadata: takes no options in braces`,
	} {
		if _, err := Parse(plugintest.Input(t, text, ".")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "metadata", "metadata", "kubernetes/client-namespace", "kubernetes/client-pod-name")
}
