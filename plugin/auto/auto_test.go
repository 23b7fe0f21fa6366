package auto

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func db(serial, addr string) string {
	return "$TTL 5\n@ SOA ns h " + serial + " 2 3 4 5\nwww A " + addr + "\n"
}

func options(t *testing.T, text string, zones ...string) Options {
	t.Helper()
	o, err := Parse(plugintest.Input(t, text, zones...))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/db.example.org", db("1", "192.0.2.1"))
	write(t, dir+"/below/db.sub.example.org", db("1", "192.0.2.2"))
	write(t, dir+"/db.example.com", db("1", "192.0.2.3"))
	write(t, dir+"/readme", "nothing")
	write(t, dir+"/..data/db.hidden.example.org", db("1", "192.0.2.4"))
	synctest.Test(t, func(t *testing.T) {
		changed := map[string]int{}
		h := New(options(t, "auto org {\ndirectory "+dir+"\nreload 30s\n}", "."), slog.New(slog.DiscardHandler), func(z wire.Zone) { changed[z.String()]++ })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = h.Run(ctx) }()
		h.AwaitStart(ctx)
		back := plugintest.NewAnswers(t)
		check := func(name, want string) {
			t.Helper()
			plugintest.Check(t, name, plugintest.Ask(t, "", plugintest.Question(name, "A"), h, back), want)
		}
		step := func() { <-time.After(31 * time.Second); synctest.Wait() }
		check("www.example.org.", "NOERROR\nwww.example.org. 5 IN A 192.0.2.1")
		check("www.sub.example.org.", "NOERROR\nwww.sub.example.org. 5 IN A 192.0.2.2")
		check("www.example.com.", "NXDOMAIN")
		check("www.hidden.example.org.", "NXDOMAIN\nns example.org. 5 IN SOA ns.example.org. h.example.org. 1 2 3 4 5")
		write(t, dir+"/db.new.org", db("1", "192.0.2.5"))
		write(t, dir+"/db.example.org", db("22", "192.0.2.22"))
		if err := os.Remove(dir + "/below/db.sub.example.org"); err != nil {
			t.Fatal(err)
		}
		step()
		check("www.new.org.", "NOERROR\nwww.new.org. 5 IN A 192.0.2.5")
		check("www.example.org.", "NOERROR\nwww.example.org. 5 IN A 192.0.2.22")
		check("www.sub.example.org.", "NXDOMAIN\nns example.org. 5 IN SOA ns.example.org. h.example.org. 22 2 3 4 5")
		write(t, dir+"/db.bad.org", "nonsense")
		step()
		check("www.bad.org.", "SERVFAIL")
		if err := os.Rename(dir, dir+"-away"); err != nil {
			t.Fatal(err)
		}
		step()
		check("www.example.org.", "NOERROR\nwww.example.org. 5 IN A 192.0.2.22")
		cancel()
		<-done
		if changed["example.org."] != 2 || changed["new.org."] != 1 {
			t.Errorf("changes told: %v", changed)
		}
	})
}

func TestPattern(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir+"/www.db.example.org", db("1", "192.0.2.1"))
	h := New(options(t, `auto {`+"\n"+`directory `+dir+` www\.db\.(.*) {1} 45`+"\nfallthrough\n}", "org."), nil, nil)
	if h.o.Reload != 45*time.Second {
		t.Errorf("reload is %v", h.o.Reload)
	}
	h.look()
	back := plugintest.NewAnswers(t, "no.example.org. 1 IN A 192.0.2.9")
	plugintest.Check(t, "found", plugintest.Ask(t, "", plugintest.Question("www.example.org.", "A"), h, back), "NOERROR\nwww.example.org. 5 IN A 192.0.2.1")
	plugintest.Check(t, "falls through", plugintest.Ask(t, "", plugintest.Question("no.example.org.", "A"), h, back), "NOERROR\nno.example.org. 1 IN A 192.0.2.9")
	if all, serial, ok := h.TransferZone(wire.NewZone(wire.MustCanonical("example.org"))); !ok || serial != 1 || all == nil {
		t.Error("the zone cannot be transferred")
	}
}

func TestNoAllocs(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/db.example.org", db("1", "192.0.2.1"))
	h := New(options(t, "auto {\ndirectory "+dir+"\n}", "."), nil, nil)
	h.look()
	b := servertest.Block(".", plugintest.Stage(h), plugintest.Stage(plugintest.NewAnswers(t, "b. 1 IN A 192.0.2.1")))
	servertest.NoAllocs(t, servertest.Query("b.", dns.TypeA, 1232), b)
	servertest.NoAllocs(t, servertest.Query("www.example.org.", dns.TypeA, 1232), b)
}

func TestParse(t *testing.T) {
	t.Parallel()
	if o := options(t, "auto {\ndirectory x\nreload 0\nupstream\n}", "."); o.Reload != 0 || o.Pattern != `db\.(.*)` || o.Origin != "{1}" {
		t.Errorf("got %+v", o)
	}
	if o := options(t, "auto", "."); o.Dir != "." {
		t.Errorf("without a directory it is %q", o.Dir)
	}
	for text, want := range map[string]string{
		"auto {\ndirectory x (\n}":               "a template of the zone's name must follow",
		"auto {\ndirectory x ( {1}\n}":           "is not a regular expression",
		"auto {\ndirectory x db {1}\n}":          "has only 0 groups",
		"auto {\ndirectory x db\\.(.*) {1} 0\n}": "is not within",
		"auto {\ndirectory x\nreload soon\n}":    "is not a duration",
		"auto {\ndirectory x\nsign\n}":           `unknown option "sign"; known are directory, reload, fallthrough, upstream, no_reload, transfer`,
	} {
		if _, err := Parse(plugintest.Input(t, text, ".")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "auto", plugintest.Names(Rows())...)
}
