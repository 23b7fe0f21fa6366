package ratelimit_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/plugin/ratelimit"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// long is as much as a TXT record holds in one string.
var long = strings.Repeat("x", 255)

// txt answers with a TXT record of 255 bytes.
type txt struct{}

func (txt) Answer(r *server.Reply, _ *server.Query) server.Verdict {
	r.TXT(server.Answer, server.Owner, 30, long)
	return server.Done
}

// limited is a chain with the directive in front.
func limited(t *testing.T, text string) *server.Direct {
	t.Helper()
	return servertest.Direct(block(t, text))
}

func block(t *testing.T, text string) *server.Block {
	t.Helper()
	o, err := ratelimit.Parse(plugintest.Input(t, text, "."))
	if err != nil {
		t.Fatal(err)
	}
	h, err := ratelimit.New(o, ratelimit.NewMetrics(prometheus.NewRegistry()))
	if err != nil {
		t.Fatal(err)
	}
	return servertest.Block(".", plugintest.Stage(h), plugintest.Stage(txt{}))
}

// ask sends n queries from a client and counts what it gets.
func ask(t *testing.T, d *server.Direct, client string, tr server.Transport, n int) string {
	t.Helper()
	msg := servertest.Pack(t, servertest.Query("a.name.long.enough.for.a.reply.of.four.times.the.length.of.its.question.example.", dns.TypeTXT, 1232))
	var answered, dropped, truncated, refused int
	for range n {
		reply, ok := d.Answer(msg, netip.AddrPortFrom(netip.MustParseAddr(client), 4000), tr)
		var m dns.Msg
		if !ok {
			dropped++
			continue
		}
		if err := m.Unpack(reply); err != nil {
			t.Fatal(err)
		}
		switch {
		case m.Rcode == dns.RcodeRefused:
			refused++
		case m.Truncated:
			truncated++
		default:
			answered++
		}
	}
	return fmt.Sprintf("%d answered, %d dropped, %d truncated, %d refused", answered, dropped, truncated, refused)
}

// TestLimit counts what clients get, on a clock that stands still but for the steps named.
func TestLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var current *server.Direct
		for _, c := range []struct {
			what, corefile, client string
			tr                     server.Transport
			wait                   time.Duration
			n                      int
			want                   string
		}{
			{"a burst", "ratelimit 100", "10.0.0.1", server.UDP, 0, 300, "200 answered, 50 dropped, 50 truncated, 0 refused"},
			{"a second later", "", "10.0.0.1", server.UDP, time.Second, 300, "100 answered, 100 dropped, 100 truncated, 0 refused"},
			{"another client", "", "10.0.0.2", server.UDP, 0, 200, "200 answered, 0 dropped, 0 truncated, 0 refused"},
			{"over TCP", "", "10.0.0.2", server.TCP, 0, 10, "0 answered, 0 dropped, 0 truncated, 10 refused"},
			{"after a long time", "", "10.0.0.1", server.TCP, time.Hour, 201, "200 answered, 0 dropped, 0 truncated, 1 refused"},
			// The slots' 44 bits of microseconds are over after 203 days and twelve hours.
			{"before the clock of the slots wraps", "ratelimit 100", "10.0.0.1", server.TCP, (1<<44-1)*time.Microsecond - time.Second, 201, "200 answered, 0 dropped, 0 truncated, 1 refused"},
			{"after it", "", "10.0.0.1", server.TCP, 2 * time.Second, 201, "200 answered, 0 dropped, 0 truncated, 1 refused"},
			{"over it", "ratelimit 1", "10.0.0.1", server.TCP, (1<<44-1)*time.Microsecond - time.Second, 3, "2 answered, 0 dropped, 0 truncated, 1 refused"},
			{"the bucket empties as before", "", "10.0.0.1", server.TCP, 1500 * time.Millisecond, 3, "1 answered, 0 dropped, 0 truncated, 2 refused"},
			{"no slip", "ratelimit 10 {\n burst 1\n slip 0\n}", "10.0.0.1", server.UDP, 0, 5, "1 answered, 4 dropped, 0 truncated, 0 refused"},
			{"exempt", "ratelimit 1 {\n exempt 10.0.0.0/8 2001:db8::1 ::ffff:192.0.2.1 ::ffff:198.51.100.0/120\n}", "10.1.2.3", server.UDP, 0, 50, "50 answered, 0 dropped, 0 truncated, 0 refused"},
			{"exempt by a mapped address", "", "192.0.2.1", server.UDP, 0, 50, "50 answered, 0 dropped, 0 truncated, 0 refused"},
			{"exempt by a mapped network", "", "198.51.100.9", server.UDP, 0, 50, "50 answered, 0 dropped, 0 truncated, 0 refused"},
			{"exempt by address", "", "2001:db8::1", server.UDP, 0, 50, "50 answered, 0 dropped, 0 truncated, 0 refused"},
			{"by prefix", "ratelimit 1 {\n prefix 24 64\n burst 4\n slip 0\n}", "10.0.0.1", server.UDP, 0, 3, "3 answered, 0 dropped, 0 truncated, 0 refused"},
			{"its neighbour", "", "10.0.0.2", server.UDP, 0, 3, "1 answered, 2 dropped, 0 truncated, 0 refused"},
			{"IPv6", "", "2001:db8::1", server.UDP, 0, 3, "3 answered, 0 dropped, 0 truncated, 0 refused"},
			{"its neighbour", "", "2001:db8::ffff", server.UDP, 0, 3, "1 answered, 2 dropped, 0 truncated, 0 refused"},
		} {
			if c.corefile != "" {
				current = limited(t, c.corefile)
			}
			<-time.After(c.wait)
			if got := ask(t, current, c.client, c.tr, c.n); got != c.want {
				t.Errorf("%s: %s, want %s", c.what, got, c.want)
			}
		}
	})
}

// TestAmplification gives a client without a cookie no more than four times what it sent.
func TestAmplification(t *testing.T) {
	t.Parallel()
	d := limited(t, "ratelimit 1000 {\n cookies\n}")
	m := servertest.Query("x.example.", dns.TypeTXT, 1232)
	exchange := func(tr server.Transport) *dns.Msg {
		reply, ok := d.Answer(servertest.Pack(t, m), servertest.Client, tr)
		if !ok {
			t.Fatal("no reply")
		}
		r := new(dns.Msg)
		if err := r.Unpack(reply); err != nil {
			t.Fatal(err)
		}
		if n := m.Len(); tr == server.UDP && len(reply) > 4*n && r.IsEdns0().Option == nil {
			t.Errorf("%d bytes for %d", len(reply), n)
		}
		return r
	}
	if r := exchange(server.UDP); !r.Truncated {
		t.Errorf("without a cookie: %v", r)
	}
	if r := exchange(server.TCP); r.Truncated {
		t.Errorf("over TCP: %v", r)
	}
	m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"}}
	r := exchange(server.UDP)
	c, ok := r.IsEdns0().Option[0].(*dns.EDNS0_COOKIE)
	if !ok || len(c.Cookie) != 48 || !strings.HasPrefix(c.Cookie, "0102030405060708") || !r.Truncated {
		t.Fatalf("with a client's cookie alone: %v", r)
	}
	m.IsEdns0().Option = []dns.EDNS0{c}
	if r := exchange(server.UDP); r.Truncated {
		t.Errorf("with our cookie: %v", r)
	}
	m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "01020304"}}
	if r := exchange(server.UDP); r.Rcode != dns.RcodeFormatError {
		t.Errorf("with a malformed cookie: %v", r)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	short := filepath.Join(dir, "short")
	if err := os.WriteFile(short, []byte("0011"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, want string }{
		{"ratelimit", "Corefile:1: ratelimit: want one number"},
		{"ratelimit 0", "Corefile:1: 0 is not within 1 and 1000000"},
		{"ratelimit many", `"many" is not a whole number`},
		{"ratelimit 1 {\n burst 0\n}", "Corefile:2: ratelimit: burst: 0 is not within"},
		{"ratelimit 1 {\n exempt 10.0.0.0/33\n}", "no network"},
		{"ratelimit 1 {\n prefix 32\n}", "prefix BITS4 BITS6"},
		{"ratelimit 1 {\n window 5\n}", "known are burst, slip, prefix, exempt, cookies"},
		{"ratelimit 1 {\n cookies " + short + "\n}", "must hold 32 hexadecimal digits"},
		{"ratelimit 1 {\n cookies " + dir + "/none\n}", "no such file"},
	} {
		o, err := ratelimit.Parse(plugintest.Input(t, c.text, "."))
		if err == nil {
			_, err = ratelimit.New(o, ratelimit.NewMetrics(prometheus.NewRegistry()))
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
	plugintest.Mentions(t, "ratelimit", plugintest.Names(ratelimit.Table())...)
}

func TestNoAllocs(t *testing.T) {
	servertest.NoAllocs(t, servertest.Query("x.example.", dns.TypeTXT, 1232), block(t, "ratelimit 1000000"))
}
