package hosts

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server/servertest"
)

const file = `
# comment
127.0.0.1       localhost localhost.localdomain
192.0.2.10      example.org  example   # and more
192.0.2.10      example.org
::1             localhost
fe80::1%eth0    link.example.org
::ffff:192.0.2.4 mapped.example.org
nonsense        x.example.org
192.0.2.99
192.0.2.20      *.apps.example.org
192.0.2.21      one.apps.example.org
2001:db8::1     example.org
`

func parse(t *testing.T, text string, zones ...string) Options {
	t.Helper()
	if len(zones) == 0 {
		zones = []string{"."}
	}
	o, err := Parse(plugintest.Input(t, text, zones...))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// read makes a handler that has read its file.
func read(t *testing.T, o Options) *Hosts {
	t.Helper()
	h := New(o, NewMetrics(nil), nil)
	h.look()
	return h
}

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	name := write(t, file)
	back := plugintest.NewAnswers(t, "other.example.org. 1 IN A 198.51.100.1", "1.2.0.192.in-addr.arpa. 1 IN PTR behind.example.", "example.org. 2 IN TXT behind")
	all := "hosts " + name
	for _, c := range []struct{ text, ask, want string }{
		{all, "Example.org. A", "NOERROR\nExample.org. 3600 IN A 192.0.2.10"},
		{all, "example.org. AAAA", "NOERROR\nexample.org. 3600 IN AAAA 2001:db8::1"},
		{all, "example.org. TXT", "NOERROR"},
		{all, "link.example.org. AAAA", "NOERROR\nlink.example.org. 3600 IN AAAA fe80::1"},
		{all, "mapped.example.org. A", "NOERROR\nmapped.example.org. 3600 IN A 192.0.2.4"},
		{all, "mapped.example.org. AAAA", "NOERROR"},
		{all, "other.example.org. A", "SERVFAIL"},
		{all, "x.example.org. A", "SERVFAIL"},
		{all, "10.2.0.192.in-addr.arpa. PTR", "NOERROR\n10.2.0.192.in-addr.arpa. 3600 IN PTR example.org.\n10.2.0.192.in-addr.arpa. 3600 IN PTR example."},
		{all, "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa. PTR", "NOERROR\n1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa. 3600 IN PTR example.org."},
		{all, "1.2.0.192.in-addr.arpa. PTR", "NOERROR\n1.2.0.192.in-addr.arpa. 1 IN PTR behind.example."},
		{all + " {\nno_reverse\n}", "10.2.0.192.in-addr.arpa. PTR", "NXDOMAIN"},
		{all + " {\nttl 60\nfallthrough\n}", "example.org. A", "NOERROR\nexample.org. 60 IN A 192.0.2.10"},
		{all + " {\nfallthrough\n}", "other.example.org. A", "NOERROR\nother.example.org. 1 IN A 198.51.100.1"},
		{all + " {\nfallthrough example.net\n}", "other.example.org. A", "SERVFAIL"},
		{all + " {\nfallthrough\n}", "example.org. TXT", "NOERROR"},
		{all + " {\nfallthrough\nfallthrough_unsupported\n}", "example.org. TXT", "NOERROR\nexample.org. 2 IN TXT \"behind\""},
		{all + " example.net", "example.org. A", "NOERROR"},
		{all, "two.apps.example.org. A", "NOERROR\ntwo.apps.example.org. 3600 IN A 192.0.2.20"},
		{all, "one.apps.example.org. A", "NOERROR\none.apps.example.org. 3600 IN A 192.0.2.21"},
		{all, "one.apps.example.org. AAAA", "NOERROR"},
		{all, "apps.example.org. A", "SERVFAIL"},
		{all, "deep.two.apps.example.org. A", "SERVFAIL"},
		{all, "20.2.0.192.in-addr.arpa. PTR", "NXDOMAIN"},
		{all + " {\n192.0.2.30 example.org inline.example.org\n}", "example.org. A", "NOERROR\nexample.org. 3600 IN A 192.0.2.30\nexample.org. 3600 IN A 192.0.2.10"},
		{all + " {\n192.0.2.30 inline.example.org\nfallthrough\n192.0.2.31 later.example.org\n}", "later.example.org. A", "NOERROR\nlater.example.org. 3600 IN A 192.0.2.31"},
	} {
		name, typ, _ := strings.Cut(c.ask, " ")
		r := plugintest.Ask(t, "", plugintest.Question(name, typ), read(t, parse(t, c.text)), back)
		plugintest.Check(t, c.text+": "+c.ask, r, c.want)
	}
}

func TestReload(t *testing.T) {
	name := write(t, "192.0.2.1 a.example.org\n")
	reg := prometheus.NewRegistry()
	synctest.Test(t, func(t *testing.T) {
		h := New(parse(t, "hosts "+name+" {\n192.0.2.7 inline.example.org\n}"), NewMetrics(reg), nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = h.Run(ctx) }()
		h.AwaitStart(ctx)
		ask := func(name, want string) {
			t.Helper()
			plugintest.Check(t, name, plugintest.Ask(t, "", plugintest.Question(name, "A"), h), want)
		}
		step := func() { <-time.After(6 * time.Second); synctest.Wait() }
		ask("a.example.org.", "NOERROR\na.example.org. 3600 IN A 192.0.2.1")
		if err := os.WriteFile(name, []byte("192.0.2.22 a.example.org\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		step()
		ask("a.example.org.", "NOERROR\na.example.org. 3600 IN A 192.0.2.22")
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		step()
		ask("a.example.org.", "SERVFAIL")
		ask("inline.example.org.", "NOERROR\ninline.example.org. 3600 IN A 192.0.2.7")
		if err := os.WriteFile(name, []byte("192.0.2.33 a.example.org\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		step()
		ask("a.example.org.", "NOERROR\na.example.org. 3600 IN A 192.0.2.33")
		cancel()
		<-done
	})
	if n, err := testutil.GatherAndCount(reg, "coredns_hosts_entries", "coredns_hosts_reload_timestamp_seconds"); n != 2 || err != nil {
		t.Errorf("%d metrics, %v", n, err)
	}
}

// TestSaidOnce has a file come and go: the log says so once each time, however often the file is looked for.
func TestSaidOnce(t *testing.T) {
	name := filepath.Join(t.TempDir(), "hosts")
	synctest.Test(t, func(t *testing.T) {
		var log plugintest.Log
		h := New(parse(t, "hosts "+name), nil, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = h.Run(ctx) }()
		step := func(want int) {
			t.Helper()
			<-time.After(time.Minute)
			synctest.Wait()
			if n := strings.Count(log.String(), "cannot be read"); n != want {
				t.Errorf("said %d times, want %d:\n%s", n, want, log.String())
			}
		}
		step(1)
		if err := os.WriteFile(name, []byte("192.0.2.1 a.example.org\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		step(1)
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		step(2)
		cancel()
		<-done
	})
}

func TestNeverReload(t *testing.T) {
	name := write(t, "192.0.2.1 a.example.org\n")
	synctest.Test(t, func(t *testing.T) {
		h := New(parse(t, "hosts "+name+" {\nreload 0s\n}"), nil, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = h.Run(ctx) }()
		h.AwaitStart(ctx)
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		plugintest.Check(t, "a", plugintest.Ask(t, "", plugintest.Question("a.example.org.", "A"), h), "NOERROR\na.example.org. 3600 IN A 192.0.2.1")
		cancel()
		<-done
	})
}

func TestNoAllocs(t *testing.T) {
	h := read(t, parse(t, "hosts "+write(t, file)+" {\nfallthrough\n}"))
	back := plugintest.NewAnswers(t, "www.example. 5 IN A 192.0.2.1")
	b := servertest.Block(".", plugintest.Stage(h), plugintest.Stage(back))
	servertest.NoAllocs(t, servertest.Query("www.example.", dns.TypeA, 1232), b)
	servertest.NoAllocs(t, servertest.Query("example.org.", dns.TypeA, 1232), b)
	servertest.NoAllocs(t, servertest.Query("10.2.0.192.in-addr.arpa.", dns.TypePTR, 1232), b)
}

func TestParse(t *testing.T) {
	t.Parallel()
	o := parse(t, "hosts", "example.org.")
	if o.File != "/etc/hosts" || o.TTL != 3600 || o.Reload != 5*time.Second || len(o.Zones) != 1 || o.Zones[0].String() != "example.org." {
		t.Errorf("defaults are %+v", o)
	}
	if two := parse(t, "hosts", "example.org."); !reflect.DeepEqual(o, two) {
		t.Error("equal options are not deeply equal")
	}
	for text, want := range map[string]string{
		"hosts x {\nttl 0\n}":                   "0 is not within 1 and 65535",
		"hosts x {\nttl 70000\n}":               "70000 is not within",
		"hosts x {\nreload soon\n}":             `"soon" is not a duration`,
		"hosts x {\nreload -1s\n}":              "is not within",
		"hosts x {\nfallthrough_unsupported\n}": "needs fallthrough",
		"hosts x a..b":                          "has an empty label",
	} {
		if _, err := Parse(plugintest.Input(t, text, ".")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

// TestLines warns of lines that do nothing, and takes the others.
func TestLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"192.0.2.1":          "a name must follow the address 192.0.2.1; this line does nothing",
		"fallthru":           `"fallthru" is neither an address nor an option, so this line does nothing; did you mean "fallthrough"?`,
		"www.example.org ::": `"www.example.org" is neither an address nor an option, so this line does nothing`,
		"192.0.2 a.example":  `"192.0.2" is neither an address nor an option, so this line does nothing`,
	} {
		in := plugintest.Input(t, "hosts x {\n"+line+"\n192.0.2.7 b.example\n}", ".")
		var warned []string
		in.Warn = func(_ directive.Arg, format string, args ...any) {
			warned = append(warned, fmt.Sprintf(format, args...))
		}
		o, err := Parse(in)
		if err != nil || len(o.Inline) != 1 || len(warned) != 1 || !strings.HasSuffix(warned[0], want) {
			t.Errorf("%q: %v, %q, %v; want one line, and a warning that ends with %q", line, o.Inline, warned, err, want)
		}
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "hosts", append(plugintest.Names(Rows()), "coredns_hosts_entries", "coredns_hosts_reload_timestamp_seconds")...)
}
