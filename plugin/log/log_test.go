package log

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// handler is a function as a handler.
type handler func(r *server.Reply, q *server.Query) server.Verdict

func (h handler) Answer(r *server.Reply, q *server.Query) server.Verdict { return h(r, q) }

var errUpstream = errors.New("read udp 10.0.0.1:53:\n\x1b[31mi/o \"timeout\"")

// replies are what the tests' names are answered with.
func replies(r *server.Reply, q *server.Query) server.Verdict {
	switch string(q.Name.Label(0)) {
	case "nx":
		r.SetRCode(wire.RCodeNXDomain)
	case "nodata":
		r.SetAA()
	case "referral":
		r.Begin(server.Authority, server.Owner, wire.TypeNS, 60)
		r.PutName([]byte("\x01a\x00"))
		r.End()
	case "refused":
		r.SetRCode(wire.RCodeRefused)
	case "fail":
		r.AddEDE(22, "No Reachable Authority")
		return r.Fail(errUpstream)
	case "cause":
		r.SetCause(errors.New("no upstream answers"))
		return r.Fail(nil)
	case "drop":
		return server.Drop
	default:
		r.SetAA()
		r.A(server.Answer, server.Owner, 5, [4]byte{192, 0, 2, 1})
	}
	return server.Done
}

// facts is metadata.
type facts struct{}

func (facts) Metadata(_ *server.Query, label string) (string, bool) {
	switch label {
	case "kubernetes/client-namespace":
		return "shop", true
	case "test/hostile":
		return "a\nb\"c", true
	}
	return "", false
}

func block(w *Writer, o ...Options) *server.Block {
	b := servertest.Block(".", server.Stage{Name: "forward", Handler: handler(replies)})
	b.Observers = []server.Observer{New(w, o...)}
	b.Providers = []server.MetadataProvider{facts{}}
	return b
}

func parse(t *testing.T, text string) Options {
	t.Helper()
	o, err := Parse(plugintest.Input(t, text, "."))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// duration hides how long a query took.
var duration = regexp.MustCompile(`(?m)0\.[0-9]{4,9}s`)

// logged asks questions through the directives in text, one a line of it or several with braces, and gives what they wrote.
func logged(t *testing.T, client string, transport server.Transport, directives []string, questions ...*dns.Msg) string {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out)
	var all []Options
	for _, d := range directives {
		all = append(all, parse(t, d))
	}
	d := servertest.Direct(block(w, all...))
	for _, q := range questions {
		d.Answer(servertest.Pack(t, q), netip.MustParseAddrPort(client), transport)
	}
	w.Flush()
	return duration.ReplaceAllString(out.String(), "0.Ts")
}

func question(name string, typ uint16, id uint16) *dns.Msg {
	m := servertest.Query(name, typ, 0)
	m.Id = id
	return m
}

func edns(m *dns.Msg, size uint16, do bool) *dns.Msg { return m.SetEdns0(size, do) }

const v4, v6 = "10.240.0.1:50759", "[2001:db8::1]:50759"

// TestLines holds lines against golden ones.
func TestLines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, client string
		transport    server.Transport
		directive    string
		question     *dns.Msg
		want         string
	}{
		{"common", v6, server.UDP, "log", edns(question("Example.org.", dns.TypeA, 29008), 4096, false),
			`[INFO] [2001:db8::1]:50759 - 29008 "A IN example.org. udp 40 false 4096" NOERROR qr,aa,rd 56 0.Ts`},
		{"no EDNS", v4, server.UDP, "log", question("example.org.", dns.TypeMX, 1),
			`[INFO] 10.240.0.1:50759 - 1 "MX IN example.org. udp 29 false 512" NOERROR qr,aa,rd 45 0.Ts`},
		{"small EDNS", v4, server.UDP, "log", edns(question("example.org.", dns.TypeA, 1), 100, true),
			`[INFO] 10.240.0.1:50759 - 1 "A IN example.org. udp 40 true 512" NOERROR qr,aa,rd 56 0.Ts`},
		{"TCP", v4, server.TCP, "log", edns(question("nx.org.", dns.TypeAAAA, 2), 1232, false),
			`[INFO] 10.240.0.1:50759 - 2 "AAAA IN nx.org. tcp 35 false 65535" NXDOMAIN qr,rd 35 0.Ts`},
		{"HTTPS", v4, server.HTTPS, "log", question("nx.org.", dns.TypeAAAA, 2),
			`[INFO] 10.240.0.1:50759 - 2 "AAAA IN nx.org. tcp 24 false 65535" NXDOMAIN qr,rd 24 0.Ts`},
		{"combined", v4, server.UDP, "log . {combined}", question("nx.org.", dns.TypeA, 3),
			`[INFO] 10.240.0.1:50759 - 3 "A IN nx.org. udp 24 false 512" NXDOMAIN qr,rd 24 0.Ts 0`},
		{"dropped", v4, server.UDP, "log", question("drop.org.", dns.TypeA, 4),
			`[INFO] 10.240.0.1:50759 - 4 "A IN drop.org. udp 26 false 512" - - 0 0.Ts`},
		{"custom", v4, server.UDP, `log . "{proto} Request: {name} {type} {>id}"`, question("example.org.", dns.TypeTXT, 5),
			`[INFO] udp Request: example.org. TXT 5`},
		{"format without names", v4, server.UDP, `log "{local} {zone} {view} {plugin}"`, question("example.org.", dns.TypeTXT, 5),
			`[INFO] 10.240.0.1 . - forward`},
		{"metadata", v4, server.UDP, `log . "{/kubernetes/client-namespace} {/kubernetes/client-pod-name} {/test/hostile}"`,
			question("example.org.", dns.TypeTXT, 5), `[INFO] shop - a\nb\"c`},
		{"unknown type and class", v4, server.UDP, `log . "{type} {class}"`,
			&dns.Msg{Question: []dns.Question{{Name: "example.org.", Qtype: 65399, Qclass: dns.ClassINET}}}, `[INFO] TYPE65399 IN`},
		{"hostile name", v4, server.UDP, `log . "{name}"`, question("a\\010\\027[31m\\\"b\\032\\200.org.", dns.TypeA, 1),
			`[INFO] a\010\027[31m\"b\ \200.org.`},
		{"reason", v4, server.UDP, "log {\n failures\n}", edns(question("fail.org.", dns.TypeA, 6), 1232, false),
			`[INFO] 10.240.0.1:50759 - 6 "A IN fail.org. udp 37 false 1232" SERVFAIL qr,rd 65 0.Ts forward ` +
				`"read udp 10.0.0.1:53:\n\u001b[31mi/o \"timeout\"; EDE 22: No Reachable Authority"`},
		{"a cause that somebody else logs", v4, server.UDP, "log {\n failures\n}", question("cause.org.", dns.TypeA, 6),
			`[INFO] 10.240.0.1:50759 - 6 "A IN cause.org. udp 27 false 512" SERVFAIL qr,rd 27 0.Ts forward "no upstream answers"`},
		{"no reason", v4, server.UDP, "log {\n failures\n}", question("refused.org.", dns.TypeA, 6),
			`[INFO] 10.240.0.1:50759 - 6 "A IN refused.org. udp 29 false 512" REFUSED qr,rd 29 0.Ts forward "-"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := logged(t, tt.client, tt.transport, []string{tt.directive}, tt.question); got != tt.want+"\n" {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
		})
	}
}

// TestClasses says which of seven replies each option logs.
// TestKinds shows what a reply is by the labels that are the log's own.
func TestKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, want string }{
		{"ok.", "success NOERROR"}, {"nx.", "denial NXDOMAIN"}, {"nodata.", "denial NODATA"}, {"referral.", "success DELEGATION"},
		{"refused.", "error OTHERERROR"}, {"fail.", "error SERVERERROR"}, {"drop.", "error -"},
	} {
		if got := logged(t, v4, server.UDP, []string{`log . "{/log/class} {/log/type}"`}, question(c.name, dns.TypeA, 1)); got != "[INFO] "+c.want+"\n" {
			t.Errorf("%s: %s", c.name, got)
		}
	}
	json := logged(t, v4, server.UDP, []string{"log {\n json log/class log/type\n}"}, question("nodata.", dns.TypeA, 1))
	if !strings.Contains(json, `"log/class":"denial","log/type":"NODATA"}`) {
		t.Errorf("as JSON: %s", json)
	}
}

func TestClasses(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]string{
		"":                                "ok nx nodata referral refused fail drop",
		"class all":                       "ok nx nodata referral refused fail drop",
		"class success":                   "ok referral",
		"class denial":                    "nx nodata",
		"class error":                     "refused fail drop",
		"class denial error":              "nx nodata refused fail drop",
		"class denial\n class success":    "ok nx nodata referral",
		"class success all":               "ok nx nodata referral refused fail drop",
		"failures":                        "refused fail drop",
		"class denial\n slow 1ns":         "ok nx nodata referral refused fail drop",
		"class denial\n slow 1m":          "nx nodata",
		"class denial error\n sample 100": "refused fail drop",
	} {
		t.Run(options, func(t *testing.T) {
			t.Parallel()
			directive := "log . \"{name}\""
			if options != "" {
				directive += " {\n" + options + "\n}"
			}
			var qs []*dns.Msg
			for _, n := range []string{"ok.", "nx.", "nodata.", "referral.", "refused.", "fail.", "drop."} {
				qs = append(qs, question(n, dns.TypeA, 1))
			}
			got := logged(t, v4, server.UDP, []string{directive}, qs...)
			var names []string
			for line := range strings.Lines(got) {
				f := strings.Fields(line)
				names = append(names, strings.TrimSuffix(f[1], "."))
			}
			if s := strings.Join(names, " "); s != want {
				t.Errorf("logged %s, want %s", s, want)
			}
		})
	}
}

// TestFirstRuleThatNamesTheZoneDecides, whatever it says of the class; it goes by the name as asked, not in part of a label.
func TestFirstRuleThatNamesTheZoneDecides(t *testing.T) {
	t.Parallel()
	got := logged(t, v4, server.UDP, []string{
		"log example.org \"1 {name}\" {\n class denial\n}", `log EXAMPLE.net org "2 {name}"`,
	}, question("a.example.org.", dns.TypeA, 1), question("nx.Example.ORG.", dns.TypeA, 1), question("example.net.", dns.TypeA, 1),
		question("noexample.net.", dns.TypeA, 1), question("b.org.", dns.TypeA, 1), question("net.", dns.TypeA, 1))
	want := "[INFO] 1 nx.example.org.\n[INFO] 2 example.net.\n[INFO] 2 b.org.\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestSample(t *testing.T) {
	t.Parallel()
	var qs []*dns.Msg
	for range 100 {
		qs = append(qs, question("ok.", dns.TypeA, 1))
	}
	got := logged(t, v4, server.UDP, []string{"log {\n sample 10\n}"}, append(qs, question("fail.", dns.TypeA, 1))...)
	if n := strings.Count(got, "NOERROR"); n != 10 {
		t.Errorf("%d of 100 lines with sample 10", n)
	}
	if n := strings.Count(got, "SERVFAIL"); n != 1 {
		t.Errorf("%d lines of one failure", n)
	}
}

// TestJSON: every line is one object, with hostile names and reasons in it.
func TestJSON(t *testing.T) {
	t.Parallel()
	got := logged(t, v6, server.HTTPS, []string{"log {\n json kubernetes/client-namespace test/hostile test/none\n}"},
		edns(question("fail.a\\010\\\"\\\\b.org.", dns.TypeA, 7), 1232, true), question("drop.org.", dns.TypeA, 8))
	var lines []map[string]any
	for line := range strings.Lines(got) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		lines = append(lines, m)
	}
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2:\n%s", len(lines), got)
	}
	for k, want := range map[string]any{
		"client": "2001:db8::1", "port": 50759.0, "proto": "https", "id": 7.0, "type": "A", "class": "IN",
		"name": `fail.a\010\"\\b.org.`, "size": 43.0, "do": true, "bufsize": 65535.0, "rcode": "SERVFAIL", "flags": "qr,rd", "zone": ".",
		"plugin": "forward", "reason": "read udp 10.0.0.1:53:\n\x1b[31mi/o \"timeout\"; EDE 22: No Reachable Authority",
		"kubernetes/client-namespace": "shop", "test/hostile": "a\nb\"c", "rsize": 71.0,
	} {
		if lines[0][k] != want {
			t.Errorf("%s is %#v, want %#v", k, lines[0][k], want)
		}
	}
	if _, ok := lines[0]["test/none"]; ok {
		t.Error("a label without a value is there")
	}
	if d, ok := lines[0]["duration"].(float64); !ok || d <= 0 || d > 60 {
		t.Errorf("duration is %v", lines[0]["duration"])
	}
	if at, err := time.Parse(time.RFC3339Nano, lines[0]["time"].(string)); err != nil || time.Since(at) > time.Hour || at.Location() != time.UTC {
		t.Errorf("time is %v, %v", lines[0]["time"], err)
	}
	if lines[1]["rcode"] != "-" || lines[1]["rsize"] != 0.0 || lines[1]["flags"] != "-" {
		t.Errorf("dropped query: %v", lines[1])
	}
	if _, ok := lines[1]["reason"]; ok {
		t.Errorf("dropped query has a reason: %v", lines[1])
	}
}

// TestFormats: what is no placeholder stays.
func TestFormats(t *testing.T) {
	t.Parallel()
	e := &entry{r: new(server.Reply), q: &server.Query{ID: 7, Client: netip.MustParseAddrPort("192.0.2.1:99")}}
	for format, want := range map[string]string{
		"A": "A", "A {A}": "A {A}", "{{remote}}": "{192.0.2.1}", "{ A {remote} A }": "{ A 192.0.2.1 A }", "{remote}}": "192.0.2.1}",
		"{{remote}": "{192.0.2.1", "Foo } {remote}": "Foo } 192.0.2.1", "{ Foo": "{ Foo", "} Foo": "} Foo", "": "", "{}": "{}",
		"{>id}{>id}": "77", "/{>id}/": "/7/", "{/}": "{/}", "{/a/b}": "-", "{/a/b": "{/a/b", "{a/b}": "{a/b}", "{/a/b}/x{/c/d}": "-/x-",
	} {
		var b []byte
		for _, o := range compile(format) {
			b = o.add(b, e, o.text)
		}
		if string(b) != want {
			t.Errorf("%q gives %q, want %q", format, b, want)
		}
	}
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0", 1: "0.000000001", 37990251: "0.037990251", time.Second: "1", 1500 * time.Millisecond: "1.5", -5: "0", 61 * time.Second: "61",
	} {
		if got := string(appendSeconds(nil, d)); got != want {
			t.Errorf("%d gives %s, want %s", d, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"log":                          ". all 0 0s " + Common,
		"log example.org EXAMPLE.net.": "example.org. example.net. all 0 0s " + Common,
		"log 10.1.0.0/16":              "1.10.in-addr.arpa. all 0 0s " + Common,
		"log . {combined}":             ". all 0 0s " + Combined,
		"log . \"x {common} y\"":       ". all 0 0s x " + Common + " y",
		"log . {\n class success\n class error\n}": ". success error 0 0s " + Common,
		"log {\n json\n}":                          ". all 0 0s ",
		"log {\n json a/b /c/d\n failures\n}":      ". error 0 0s  a/b c/d",
		"log {\n sample 5\n slow 20ms\n}":          ". all 5 20ms " + Common,
		"log {\n failures\n class denial\n}":       ". denial error 0 0s " + Common + ` {plugin} "{reason}"`,
	} {
		o := parse(t, text)
		var got []string
		for _, z := range o.Zones {
			got = append(got, z.String())
		}
		got = append(got, fmt.Sprint(o.Classes), fmt.Sprint(o.Sample), o.Slow.String(), o.Format)
		if s := strings.Join(append(got, o.Labels...), " "); s != want {
			t.Errorf("%q gives %s, want %s", text, s, want)
		}
	}
	for text, want := range map[string]string{
		"log {\n class\n}":             `Corefile:2: log: option "class" needs more arguments: class CLASSES...`,
		"log {\n class abracadabra\n}": `Corefile:2: log: class: unknown class "abracadabra"; known are success, denial, error, all`,
		"log {\n unknown\n}":           `Corefile:2: log: unknown option "unknown"; known are class, json, sample, slow, failures`,
		"log a..b":                     `Corefile:1: log: "a..b" is not a zone`,
		"log {\n json x\n}":            `"x" is no label of metadata`,
		"log {\n sample 0\n}":          `0 is not within 1 and`,
		"log {\n slow fast\n}":         `"fast" is not a duration`,
		"log {\n failures x\n}":        `takes no argument "x"`,
	} {
		if _, err := Parse(plugintest.Input(t, text, ".")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

// TestUnknownPlaceholdersAreSaid as a warning: CoreDNS leaves them as they are, so they are no error.
func TestUnknownPlaceholdersAreSaid(t *testing.T) {
	t.Parallel()
	in := plugintest.Input(t, `log . "{host} {name} {>foo} {/a/b} {}"`, ".")
	var said []string
	in.Warn = func(_ directive.Arg, format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	if _, err := Parse(in); err != nil {
		t.Fatal(err)
	}
	want := "log: {host} is no placeholder and stays as it is|log: {>foo} is no placeholder and stays as it is|log: {} is no placeholder and stays as it is"
	if got := strings.Join(said, "|"); got != want {
		t.Errorf("warnings %s, want %s", got, want)
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "log", plugintest.Names(Rows())...)
	b, err := os.ReadFile("../../docs/log.md")
	if err != nil {
		t.Fatal(err)
	}
	for p := range placeholders {
		if !bytes.Contains(b, []byte("`{"+p+"}`")) {
			t.Errorf("docs/log.md does not mention {%s}", p)
		}
	}
	for _, want := range []string{Common, Combined} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("docs/log.md does not give the format %s", want)
		}
	}
}

// discard takes lines and keeps none.
func discard() *Writer { return NewWriter(io.Discard) }

func TestLoggingDoesNotAllocate(t *testing.T) {
	for _, d := range []string{"log", "log . {combined}", "log {\n json kubernetes/client-namespace\n}",
		`log . "{/kubernetes/client-namespace} {when} {local} {plugin} {zone} {view} {reason}"`} {
		w := discard()
		o := parse(t, d)
		b := block(w, o)
		// A real process flushes while it logs; here each line finds the room that the one before had.
		b.Observers = append(b.Observers, flusher{w})
		servertest.NoAllocs(t, edns(question("web.shop.svc.cluster.local.", dns.TypeA, 1), 1232, false), b)
	}
}

// flusher writes out after each query.
type flusher struct{ w *Writer }

func (f flusher) Observe(*server.Reply, *server.Query) { f.w.Flush() }

func BenchmarkLog(b *testing.B) {
	for _, bb := range []struct{ name, directive string }{
		{"without", ""}, {"common", "log"}, {"json", "log {\n json kubernetes/client-namespace\n}"}, {"errors only", "log {\n class error\n}"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			w := discard()
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan struct{})
			go func() { defer close(done); _ = w.Run(ctx) }()
			bl := block(w)
			if bb.directive == "" {
				bl.Observers = nil
			} else {
				o, err := Parse(plugintest.Input(&testing.T{}, bb.directive, "."))
				if err != nil {
					b.Fatal(err)
				}
				bl.Observers = []server.Observer{New(w, o)}
			}
			d := servertest.Direct(bl)
			msg := servertest.Pack(b, edns(question("web.shop.svc.cluster.local.", dns.TypeA, 1), 1232, false))
			client := netip.MustParseAddrPort(v4)
			b.ReportAllocs()
			for b.Loop() {
				d.Answer(msg, client, server.UDP)
			}
			cancel()
			<-done
			if n := w.Lost(); n > 0 {
				b.Errorf("%d lines lost", n)
			}
		})
	}
}
