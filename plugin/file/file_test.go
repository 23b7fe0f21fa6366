package file

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

const db = `$TTL 300
@        IN SOA ns1 hostmaster 2026113001 7200 3600 1209600 60
         IN NS  ns1
         IN NS  ns.elsewhere.example.
         IN MX  10 mail
ns1      IN A   192.0.2.1
mail     IN A   192.0.2.2
mail     IN AAAA 2001:db8::2
mail     60 IN A 192.0.2.3
www      IN CNAME web
web      IN A   192.0.2.4
ext      IN CNAME www.elsewhere.example.
dead     IN CNAME nowhere
a.deep   IN TXT "deep"
*.wild   IN A   192.0.2.5
*.wild   IN TXT "wild"
one.wild IN A   192.0.2.6
*.alias  IN CNAME web
sub      IN NS  ns.sub
sub      IN NS  ns1
ns.sub   IN A   192.0.2.7
old      IN DNAME new
x.new    IN A   192.0.2.8
_s._tcp  IN SRV 1 2 80 mail
outside.example. IN A 192.0.2.99
`

const soaLine = "example.org. 300 IN SOA ns1.example.org. hostmaster.example.org. 2026113001 7200 3600 1209600 60"

func negative() string { return "ns " + strings.Replace(soaLine, " 300 ", " 60 ", 1) }

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func options(t *testing.T, text string, zones ...string) Options {
	t.Helper()
	o, err := Parse(plugintest.Input(t, text, zones...))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// loaded makes a handler whose files have been read.
func loaded(t *testing.T, all ...Options) *File {
	t.Helper()
	return ran(New(all, nil, nil))
}

// ran has a handler read its files once.
func ran(h *File) *File {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = h.Run(ctx)
	return h
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "db.example.org")
	write(t, name, db)
	h := loaded(t, options(t, "file "+name, "example.org."))
	const ns = "\nns example.org. 300 IN NS ns1.example.org.\nns example.org. 300 IN NS ns.elsewhere.example."
	const glue = "\nextra ns1.example.org. 300 IN A 192.0.2.1"
	back := plugintest.NewAnswers(t, "www.elsewhere.example. 9 IN A 198.51.100.1")
	for ask, want := range map[string]string{
		"Web.example.org. A":        "NOERROR\nWeb.example.org. 300 IN A 192.0.2.4" + ns,
		"mail.example.org. A":       "NOERROR\nmail.example.org. 60 IN A 192.0.2.2\nmail.example.org. 60 IN A 192.0.2.3" + ns,
		"example.org. SOA":          "NOERROR\n" + soaLine + ns,
		"example.org. NS":           "NOERROR" + strings.ReplaceAll(ns, "ns example.org.", "example.org.") + glue,
		"example.org. MX":           "NOERROR\nexample.org. 300 IN MX 10 mail.example.org." + ns + "\nextra mail.example.org. 60 IN A 192.0.2.2\nextra mail.example.org. 60 IN A 192.0.2.3\nextra mail.example.org. 300 IN AAAA 2001:db8::2",
		"_s._tcp.example.org. SRV":  "NOERROR\n_s._tcp.example.org. 300 IN SRV 1 2 80 mail.example.org." + ns + "\nextra mail.example.org. 60 IN A 192.0.2.2\nextra mail.example.org. 60 IN A 192.0.2.3\nextra mail.example.org. 300 IN AAAA 2001:db8::2",
		"_s._tcp.example.org. ANY":  "NOERROR\n_s._tcp.example.org. 300 IN SRV 1 2 80 mail.example.org." + ns,
		"web.example.org. AAAA":     "NOERROR\n" + negative(),
		"no.example.org. A":         "NXDOMAIN\n" + negative(),
		"deep.example.org. A":       "NOERROR\n" + negative(),
		"b.deep.example.org. A":     "NXDOMAIN\n" + negative(),
		"www.example.org. A":        "NOERROR\nwww.example.org. 300 IN CNAME web.example.org.\nweb.example.org. 300 IN A 192.0.2.4" + ns,
		"www.example.org. CNAME":    "NOERROR\nwww.example.org. 300 IN CNAME web.example.org." + ns,
		"www.example.org. AAAA":     "NOERROR\nwww.example.org. 300 IN CNAME web.example.org.\n" + negative(),
		"dead.example.org. A":       "NXDOMAIN\ndead.example.org. 300 IN CNAME nowhere.example.org.\n" + negative(),
		"ext.example.org. A":        "NOERROR\next.example.org. 300 IN CNAME www.elsewhere.example.\nwww.elsewhere.example. 9 IN A 198.51.100.1",
		"a.wild.example.org. A":     "NOERROR\na.wild.example.org. 300 IN A 192.0.2.5" + ns,
		"b.a.wild.example.org. A":   "NOERROR\nb.a.wild.example.org. 300 IN A 192.0.2.5" + ns,
		"one.wild.example.org. A":   "NOERROR\none.wild.example.org. 300 IN A 192.0.2.6" + ns,
		"one.wild.example.org. TXT": "NOERROR\n" + negative(),
		"a.one.wild.example.org. A": "NXDOMAIN\n" + negative(),
		"a.wild.example.org. MX":    "NOERROR\n" + negative(),
		"wild.example.org. A":       "NOERROR\n" + negative(),
		"*.wild.example.org. A":     "NOERROR\n*.wild.example.org. 300 IN A 192.0.2.5" + ns,
		"x.alias.example.org. A":    "NOERROR\nx.alias.example.org. 300 IN CNAME web.example.org.\nweb.example.org. 300 IN A 192.0.2.4" + ns,
		"sub.example.org. A":        "NOERROR\nns sub.example.org. 300 IN NS ns.sub.example.org.\nns sub.example.org. 300 IN NS ns1.example.org.\nextra ns.sub.example.org. 300 IN A 192.0.2.7" + glue,
		"x.sub.example.org. TXT":    "NOERROR\nns sub.example.org. 300 IN NS ns.sub.example.org.\nns sub.example.org. 300 IN NS ns1.example.org.\nextra ns.sub.example.org. 300 IN A 192.0.2.7" + glue,
		"sub.example.org. DS":       "NOERROR\n" + negative(),
		"x.old.example.org. A":      "NOERROR\nold.example.org. 300 IN DNAME new.example.org.\nx.old.example.org. 300 IN CNAME x.new.example.org.\nx.new.example.org. 300 IN A 192.0.2.8" + ns,
		"old.example.org. DNAME":    "NOERROR\nold.example.org. 300 IN DNAME new.example.org." + ns,
		"outside.example. A":        "NXDOMAIN",
	} {
		name, typ, _ := strings.Cut(ask, " ")
		r := plugintest.Ask(t, "", plugintest.Question(name, typ), h, back)
		plugintest.Check(t, ask, r, want)
		if referral := strings.Contains(name, "sub."); typ != "DS" && name != "outside.example." && r.Authoritative == referral {
			t.Errorf("%s: AA is %v", ask, r.Authoritative)
		}
	}
	long := strings.Repeat(strings.Repeat("a", 60)+".", 3) + strings.Repeat("b", 44) + ".old.example.org."
	if r := plugintest.Ask(t, "", plugintest.Question(long, "A"), h); r.Rcode != dns.RcodeSuccess && r.Rcode != dns.RcodeYXDomain && r.Rcode != dns.RcodeNameError {
		t.Errorf("a long name under a DNAME: %v", r)
	}
	alone := plugintest.AskBlocks(t, "", plugintest.Question("ext.example.org.", "A"), servertest.Block("example.org.", plugintest.Stage(h)))
	plugintest.Check(t, "a target that nobody serves", alone, "NOERROR", "ext.example.org. 300 IN CNAME www.elsewhere.example.")
	chaos := plugintest.Question("web.example.org.", "A")
	chaos.Question[0].Qclass = dns.ClassCHAOS
	b := servertest.Block(".", plugintest.Stage(h), plugintest.Stage(back))
	b.Options.AnyClass = true
	plugintest.Check(t, "another class", plugintest.AskBlocks(t, "", chaos, b), "NXDOMAIN")
}

const signed = `$TTL 60
@   IN SOA ns hostmaster 1 7200 3600 1209600 60
@   IN RRSIG SOA 13 2 60 20300101000000 20200101000000 1 example.org. AAAA
@   IN NS ns
@   IN RRSIG NS 13 2 60 20300101000000 20200101000000 1 example.org. AAAB
@   IN NSEC a NS SOA RRSIG NSEC
@   IN RRSIG NSEC 13 2 60 20300101000000 20200101000000 1 example.org. AAAC
a   IN A 192.0.2.1
a   IN RRSIG A 13 3 60 20300101000000 20200101000000 1 example.org. AAAD
a   IN NSEC sub A RRSIG NSEC
sub IN NS ns
sub IN DS 1 13 2 00
sub IN RRSIG DS 13 3 60 20300101000000 20200101000000 1 example.org. AAAE
sub IN NSEC *.w NS DS RRSIG NSEC
*.w IN A 192.0.2.2
*.w IN RRSIG A 13 3 60 20300101000000 20200101000000 1 example.org. AAAF
*.w IN NSEC m.w A RRSIG NSEC
m.w IN TXT there
m.w IN NSEC @ TXT RRSIG NSEC
`

func TestSigned(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "db")
	write(t, name, signed)
	h := loaded(t, options(t, "file "+name, "example.org."))
	for ask, want := range map[string]string{
		"a.example.org. A":     "A RRSIG | NS RRSIG | ",
		"a.example.org. TXT":   " | SOA RRSIG NSEC | ",
		"b.example.org. A":     " | SOA RRSIG NSEC NSEC RRSIG | ",
		"sub.example.org. DS":  "DS RRSIG | NS RRSIG | ",
		"x.sub.example.org. A": " | NS DS RRSIG | ",
		"x.w.example.org. A":   "A RRSIG | NS RRSIG NSEC | ",
		"x.w.example.org. MX":  " | SOA RRSIG NSEC NSEC | ", // RFC 4035 3.1.3.4: no such name, and no such type at the wildcard
		"b.w.example.org. MX":  " | SOA RRSIG NSEC | ",
		"w.example.org. MX":    " | SOA RRSIG NSEC | ",
	} {
		name, typ, _ := strings.Cut(ask, " ")
		m := plugintest.Question(name, typ)
		m.IsEdns0().SetDo()
		r := plugintest.Ask(t, "", m, h)
		kinds := func(rrs []dns.RR) string {
			var out []string
			for _, rr := range rrs {
				if rr.Header().Rrtype != dns.TypeOPT {
					out = append(out, dns.TypeToString[rr.Header().Rrtype])
				}
			}
			return strings.Join(out, " ")
		}
		if got := kinds(r.Answer) + " | " + kinds(r.Ns) + " | " + kinds(r.Extra); got != want {
			t.Errorf("%s: %s, want %s\n%v", ask, got, want, r)
		}
		if r := plugintest.Ask(t, "", plugintest.Question(name, typ), h); strings.Contains(r.String(), "RRSIG") {
			t.Errorf("%s: a client without DO got\n%v", ask, r)
		}
	}
}

// TestServersLeftOut has an answer that fits a datagram, and the zone's servers that do not fit behind it: nothing that was asked for is missing, so TC is not set
// (RFC 2181 9).
func TestServersLeftOut(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "db")
	write(t, name, "$TTL 5\n@ SOA ns h 1 2 3 4 5\n@ NS ns\n$GENERATE 1-29 big A 192.0.2.$\n$GENERATE 1-30 more A 192.0.2.$\n")
	d := servertest.Direct(servertest.Block(".", plugintest.Stage(loaded(t, options(t, "file "+name, "example.org.")))))
	for _, c := range []struct {
		name               string
		truncated          bool
		answers, authority int
	}{{"big.example.org.", false, 29, 0}, {"more.example.org.", true, 29, 0}, {"ns.example.org.", false, 0, 1}} {
		b, _ := d.Answer(servertest.Pack(t, servertest.Query(c.name, dns.TypeA, 0)), servertest.Client, server.UDP)
		var r dns.Msg
		if err := r.Unpack(b); err != nil {
			t.Fatal(err)
		}
		if r.Truncated != c.truncated || len(r.Answer) != c.answers || len(r.Ns) != c.authority {
			t.Errorf("%s: TC %v, %d answers, %d in authority", c.name, r.Truncated, len(r.Answer), len(r.Ns))
		}
	}
}

func TestSeveral(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	write(t, one, "$TTL 5\n@ SOA ns h 1 2 3 4 5\nwww A 192.0.2.1\nx.sub A 192.0.2.9\n")
	write(t, two, "$TTL 5\n@ SOA ns h 1 2 3 4 5\nwww A 192.0.2.2\n")
	h := loaded(t, options(t, "file "+one+" example.org example.net"), options(t, "file "+two+" sub.example.org {\nfallthrough\n}"))
	back := plugintest.NewAnswers(t, "no.sub.example.org. 1 IN A 198.51.100.1")
	for name, want := range map[string]string{
		"www.example.org.":     "NOERROR\nwww.example.org. 5 IN A 192.0.2.1",
		"www.example.net.":     "NOERROR\nwww.example.net. 5 IN A 192.0.2.1",
		"www.sub.example.org.": "NOERROR\nwww.sub.example.org. 5 IN A 192.0.2.2",
		"no.sub.example.org.":  "NOERROR\nno.sub.example.org. 1 IN A 198.51.100.1",
		"no.example.net.":      "NXDOMAIN\nns example.net. 5 IN SOA ns.example.net. h.example.net. 1 2 3 4 5",
	} {
		plugintest.Check(t, name, plugintest.Ask(t, "", plugintest.Question(name, "A"), h, back), want)
	}
	plugintest.Check(t, "DS", plugintest.Ask(t, "", plugintest.Question("sub.example.org.", "DS"), h, back), "NOERROR\nns example.org. 5 IN SOA ns.example.org. h.example.org. 1 2 3 4 5")
	if _, serial, ok := h.TransferZone(wire.NewZone(wire.MustCanonical("example.net"))); serial != 1 || !ok {
		t.Errorf("serial %d, %v", serial, ok)
	}
}

func TestReload(t *testing.T) {
	name := filepath.Join(t.TempDir(), "db")
	zone := func(serial, addr string) string {
		return "$TTL 5\n@ SOA ns h " + serial + " 2 3 4 5\nwww A " + addr + "\n"
	}
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		changes := 0
		h := New([]Options{options(t, "file "+name, "example.org.")}, slog.New(slog.NewTextHandler(&log, nil)), func(wire.Zone) { changes++ })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = h.Run(ctx) }()
		h.AwaitStart(ctx)
		check := func(what, want string) {
			t.Helper()
			plugintest.Check(t, what, plugintest.Ask(t, "", plugintest.Question("www.example.org.", "A"), h), want)
		}
		step := func() { <-time.After(61 * time.Second); synctest.Wait() }
		check("no file", "SERVFAIL")
		write(t, name, zone("1", "192.0.2.1"))
		step()
		check("the file is there", "NOERROR\nwww.example.org. 5 IN A 192.0.2.1")
		write(t, name, zone("1", "192.0.2.222"))
		step()
		check("the same serial", "NOERROR\nwww.example.org. 5 IN A 192.0.2.1")
		write(t, name, "nonsense")
		step()
		check("a bad file", "NOERROR\nwww.example.org. 5 IN A 192.0.2.1")
		write(t, name, zone("22", "192.0.2.2"))
		step()
		check("another serial", "NOERROR\nwww.example.org. 5 IN A 192.0.2.2")
		cancel()
		<-done
		if changes != 2 {
			t.Errorf("%d changes told, want 2", changes)
		}
		for _, want := range []string{"its names are SERVFAIL", "serial 1 is still served", "serial 22 with 2 records"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, log.String())
			}
		}
	})
}

// TestReloadByMtime takes up a file that was changed whatever its serial, and leaves one alone that was not.
func TestReloadByMtime(t *testing.T) {
	name := filepath.Join(t.TempDir(), "db")
	zone := "$TTL 5\n@ SOA ns h 1 2 3 4 5\nwww A 192.0.2."
	synctest.Test(t, func(t *testing.T) {
		write(t, name, zone+"1\n")
		changes := 0
		h := New([]Options{options(t, "file "+name+" {\nreload 10s\nreload_by_mtime\n}", "example.org.")}, nil, func(wire.Zone) { changes++ })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = h.Run(ctx) }()
		h.AwaitStart(ctx)
		<-time.After(31 * time.Second)
		write(t, name, zone+"222\n")
		<-time.After(11 * time.Second)
		synctest.Wait()
		plugintest.Check(t, "the same serial", plugintest.Ask(t, "", plugintest.Question("www.example.org.", "A"), h), "NOERROR\nwww.example.org. 5 IN A 192.0.2.222")
		cancel()
		<-done
		if changes != 2 {
			t.Errorf("%d changes told, want 2", changes)
		}
	})
}

func TestBadZones(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"$TTL 5\nwww A 192.0.2.1\n":                          "no SOA record",
		"$TTL 5\n@ SOA a b 1 2 3 4 5\n@ SOA a b 2 2 3 4 5\n": "more than one SOA record",
		"$TTL 5\n@ SOA a b 1 2 3 4 5\nwww A 192.0.2.999\n":   "bad A",
	} {
		name := filepath.Join(t.TempDir(), "db")
		write(t, name, text)
		var log bytes.Buffer
		ran(New([]Options{options(t, "file "+name, "example.org.")}, slog.New(slog.NewTextHandler(&log, nil)), nil))
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q: the log is %s, want %q in it", text, log.String(), want)
		}
	}
}

// TestAnyIsMinimal shows one set to who asks for all by UDP, where the address may be forged, and all of them by TCP (RFC 8482 4.1, 4.4).
func TestAnyIsMinimal(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "db")
	write(t, name, db)
	s := servertest.Start(t, servertest.Block(".", plugintest.Stage(loaded(t, options(t, "file "+name, "example.org.")))))
	for owner, want := range map[string][2]int{"mail.example.org.": {2, 3}, "example.org.": {1, 4}, "x.wild.example.org.": {1, 2}} {
		for i, proto := range []string{"udp", "tcp"} {
			r := s.Exchange(t, proto, servertest.Query(owner, dns.TypeANY, 1232))
			if r.Rcode != dns.RcodeSuccess || r.Truncated || len(r.Answer) != want[i] {
				t.Errorf("%s ANY over %s: %d records, want %d\n%v", owner, proto, len(r.Answer), want[i], r)
			}
		}
	}
}

func TestNoAllocs(t *testing.T) {
	name := filepath.Join(t.TempDir(), "db")
	write(t, name, db)
	b := servertest.Block(".", plugintest.Stage(loaded(t, options(t, "file "+name, "example.org."))), plugintest.Stage(plugintest.NewAnswers(t, "b. 1 IN A 192.0.2.1")))
	for _, n := range []string{"b.", "web.example.org.", "mail.example.org.", "no.example.org.", "x.wild.example.org.", "www.example.org.", "x.sub.example.org."} {
		servertest.NoAllocs(t, servertest.Query(n, dns.TypeA, 1232), b)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	o := options(t, "file db.x", "example.org.")
	if o.Reload != time.Minute || o.Zones[0].String() != "example.org." {
		t.Errorf("defaults are %+v", o)
	}
	if o := options(t, "file db.x {\nreload 0\n}", "example.org."); o.Reload != 0 {
		t.Errorf("reload 0 is %v", o.Reload)
	}
	var warned []string
	in := plugintest.Input(t, "file db.x {\nno_reload\ntransfer to *\nupstream 192.0.2.1\n}", ".")
	in.Warn = func(at directive.Arg, format string, args ...any) {
		warned = append(warned, fmt.Sprintf("%d: "+format, append([]any{at.Line}, args...)...))
	}
	if o, err := Parse(in); err != nil || o.Reload != 0 || len(warned) != 3 || warned[0] != "2: file: no_reload is now: reload 0" {
		t.Errorf("old options: %+v, %v, %q", o, err, warned)
	}
	for text, want := range map[string]string{
		"file":                     "the zone file must follow",
		"file x a..b":              "has an empty label",
		"file x {\nreload soon\n}": "is not a duration",
		"file x {\nsign\n}":        `unknown option "sign"; known are reload, reload_by_mtime, fallthrough, upstream, no_reload, transfer`,
	} {
		if _, err := Parse(plugintest.Input(t, text, ".")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

var _ server.Runner = (*File)(nil)

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "file", plugintest.Names(Rows())...)
}
