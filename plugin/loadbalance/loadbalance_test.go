package loadbalance_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/loadbalance"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// input reads a directive as it stands in a Corefile: words, and lines in braces.
func input(text string) *directive.Input {
	in := &directive.Input{Zones: []string{"."}, Root: "/etc/dns"}
	for i, line := range strings.Split(text, "\n") {
		var words []directive.Arg
		for _, w := range strings.Fields(line) {
			if w != "{" && w != "}" {
				words = append(words, directive.Arg{Text: w, File: "Corefile", Line: i + 1})
			}
		}
		if i == 0 {
			in.Name, in.Args = words[0], words[1:]
		} else if len(words) > 0 {
			in.Lines = append(in.Lines, directive.Line{Name: words[0], Args: words[1:]})
		}
	}
	return in
}

func TestParse(t *testing.T) {
	t.Parallel()
	prefixes := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("2001:db8::/32")}
	for text, want := range map[string]loadbalance.Options{
		"loadbalance":             {},
		"loadbalance round_robin": {},
		"loadbalance {\n prefer 10.1.2.3/16 2001:db8::/32\n}":            {Prefer: prefixes},
		"loadbalance {\n prefer ::ffff:10.1.0.0/112 2001:db8::/32\n}":    {Prefer: prefixes},
		"loadbalance weighted w":                                         {File: "/etc/dns/w", Reload: 30 * time.Second},
		"loadbalance weighted /w {\n reload 10s\n prefer 10.1.0.0/16\n}": {File: "/w", Reload: 10 * time.Second, Prefer: prefixes[:1]},
		"loadbalance weighted /w {\n reload 0s\n}":                       {File: "/w"},
		"loadbalance weighted /w {\n reload 1ms\n}":                      {File: "/w", Reload: time.Second},
	} {
		got, err := loadbalance.Parse(input(text))
		if err != nil || !reflect.DeepEqual(got, want) || got.Shuffle() != (want.File == "") {
			t.Errorf("%s\ngot %+v, %v\nwant %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"loadbalance fleeb":                             `Corefile:1: loadbalance: unknown policy "fleeb"; known are round_robin, weighted`,
		"loadbalance round_robin a":                     `Corefile:1: loadbalance: round_robin takes no argument "a"`,
		"loadbalance weighted":                          `Corefile:1: loadbalance: weighted needs the file of weights`,
		"loadbalance weighted a b":                      `Corefile:1: loadbalance: weighted takes no argument "b"`,
		"loadbalance round_robin {\n reload 10s\n}":     `Corefile:2: loadbalance: reload: only the policy weighted has a file to look at`,
		"loadbalance weighted w {\n reload\n}":          `Corefile:2: loadbalance: option "reload" needs more arguments: reload DURATION`,
		"loadbalance weighted w {\n reload a\n}":        `"a" is not a duration`,
		"loadbalance weighted w {\n reload -1s\n}":      `-1s is not within`,
		"loadbalance weighted w {\n reload 30s a\n}":    `option "reload" takes no argument "a"`,
		"loadbalance weighted w {\n prefer 10.0.0.1\n}": `Corefile:2: loadbalance: prefer: "10.0.0.1" is not a network`,
		"loadbalance {\n susu\n}":                       `Corefile:2: loadbalance: unknown option "susu"; known are reload, prefer`,
	} {
		if _, err := loadbalance.Parse(input(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// fixed answers with a message.
type fixed struct{ msg []byte }

func answering(t *testing.T, name string, typ uint16, answer, additional []string) fixed {
	t.Helper()
	m := servertest.Query(name, typ, 0)
	m.Response, m.Compress = true, true
	for _, s := range answer {
		m.Answer = append(m.Answer, record(t, s))
	}
	for _, s := range additional {
		m.Extra = append(m.Extra, record(t, s))
	}
	return fixed{servertest.Pack(t, m)}
}

func record(t *testing.T, s string) dns.RR {
	t.Helper()
	rr, err := dns.NewRR(s)
	if err != nil {
		t.Fatal(err)
	}
	return rr
}

func (f fixed) Answer(r *server.Reply, _ *server.Query) server.Verdict {
	if err := r.Splice(f.msg, server.Splice{}); err != nil {
		return r.Fail(err)
	}
	return server.Done
}

// ask gives the last words of the records of a reply: "CNAME:web 192.0.2.1 192.0.2.2".
func ask(t *testing.T, d *server.Direct, name string, typ uint16) (answer, additional string) {
	t.Helper()
	b, ok := d.Answer(servertest.Pack(t, servertest.Query(name, typ, 1232)), servertest.Client, server.TCP)
	m := new(dns.Msg)
	if !ok || m.Unpack(b) != nil {
		t.Fatalf("got %v %x", ok, b)
	}
	show := func(rrs []dns.RR) string {
		var out []string
		for _, rr := range rrs {
			if rr.Header().Rrtype != dns.TypeOPT {
				f := strings.Fields(rr.String())
				out = append(out, f[len(f)-1])
			}
		}
		return strings.Join(out, " ")
	}
	return show(m.Answer), show(m.Extra)
}

func balanced(b *loadbalance.Balance, o loadbalance.Options, f fixed) *server.Block {
	block := servertest.Block(".", server.Stage{Name: "loadbalance", Handler: b}, server.Stage{Name: "fixed", Handler: f})
	block.Options.Shuffle = o.Shuffle()
	return block
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestPrefer(t *testing.T) {
	t.Parallel()
	f := answering(t, "www.example.org.", dns.TypeA, []string{
		"web.example.org. 60 IN A 10.9.30.1", "web.example.org. 60 IN A 10.9.20.5", "web.example.org. 60 IN A 192.168.1.2",
		"www.example.org. 60 IN CNAME web.example.org.", "web.example.org. 60 IN A 10.9.20.3", "web.example.org. 60 IN AAAA 2001:db8::1", "web.example.org. 60 IN AAAA fd00::1",
	}, []string{"ns.example.org. 60 IN A 192.0.2.1", "ns.example.org. 60 IN A 10.9.20.1"})
	o := loadbalance.Options{Prefer: []netip.Prefix{netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("10.9.20.0/24"), netip.MustParsePrefix("10.9.30.0/24")}}
	block := balanced(loadbalance.New(o, quiet()), o, f)
	block.Options.Shuffle = false
	answer, additional := ask(t, servertest.Direct(block), "www.example.org.", dns.TypeA)
	if want := "web.example.org. 2001:db8::1 10.9.20.5 10.9.20.3 10.9.30.1 192.168.1.2 fd00::1"; answer != want {
		t.Errorf("answer is\n%s, want\n%s", answer, want)
	}
	if want := "10.9.20.1 192.0.2.1"; additional != want {
		t.Errorf("additional is\n%s, want\n%s", additional, want)
	}
}

// counted asks n times and gives how often each order came.
func counted(t *testing.T, block *server.Block, typ uint16, n int) map[string]int {
	t.Helper()
	d := servertest.Direct(block)
	out := map[string]int{}
	for range n {
		answer, _ := ask(t, d, "www.example.org.", typ)
		out[answer]++
	}
	return out
}

func TestRoundRobin(t *testing.T) {
	t.Parallel()
	var o loadbalance.Options
	b := loadbalance.New(o, quiet())
	for typ, records := range map[uint16][]string{
		dns.TypeA:  {"www.example.org. 60 IN A 192.0.2.1", "www.example.org. 60 IN A 192.0.2.2", "www.example.org. 60 IN A 192.0.2.3"},
		dns.TypeMX: {"www.example.org. 60 IN MX 10 a.example.org.", "www.example.org. 60 IN MX 10 b.example.org.", "www.example.org. 60 IN MX 10 c.example.com."},
	} {
		got := counted(t, balanced(b, o, answering(t, "www.example.org.", typ, records, nil)), typ, 3000)
		if len(got) != 6 {
			t.Errorf("%d of 6 orders came: %v", len(got), got)
		}
		for order, n := range got {
			if n < 400 || n > 600 { // five standard deviations
				t.Errorf("%s came %d times of 3000, want 500", order, n)
			}
		}
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "weights")
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestWeighted(t *testing.T) {
	t.Parallel()
	o := loadbalance.Options{File: file(t, "# the first\nWWW.example.org\n192.0.2.1 3\n192.0.2.2 1\n\nother.example.org # none\n192.0.2.3 9\n")}
	b := loadbalance.New(o, quiet())
	if err := b.Load(); err != nil {
		t.Fatal(err)
	}
	f := answering(t, "www.example.org.", dns.TypeA,
		[]string{"www.example.org. 60 IN A 192.0.2.3", "www.example.org. 60 IN A 192.0.2.2", "www.example.org. 60 IN A 192.0.2.1"}, nil)
	got := counted(t, balanced(b, o, f), dns.TypeA, 5000)
	for order, want := range map[string]int{
		"192.0.2.1 192.0.2.3 192.0.2.2": 3000, "192.0.2.2 192.0.2.3 192.0.2.1": 1000, "192.0.2.3 192.0.2.2 192.0.2.1": 1000,
	} {
		if n := got[order]; n < want-200 || n > want+200 {
			t.Errorf("%s came %d times of 5000, want %d", order, n, want)
		}
	}
	if len(got) != 3 {
		t.Errorf("got %v", got)
	}
}

func TestWeightsThatAreBad(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a.org\n192.0.2.1\n":        `:2: "192.0.2.1" has no weight`,
		"192.0.2.1 10\na.org\n":     `:1: a weight stands above the first name`,
		"a.org\n192.0.2.300 10\n":   `:2: "192.0.2.300" is not an address`,
		"a.org\n192.0.2.1 300\n":    `:2: "300" is not a weight within 1 and 255`,
		"a.org\n192.0.2.1 0\n":      `:2: "0" is not a weight within 1 and 255`,
		"a..org\n":                  `:1: domain name "a..org" has an empty label`,
		"a.org\n192.0.2.1 1 more\n": `:2: "192.0.2.1 1 more" is neither a name nor an address with its weight`,
	} {
		o := loadbalance.Options{File: file(t, text)}
		if err := loadbalance.New(o, quiet()).Load(); err == nil || !strings.Contains(err.Error(), o.File+want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	if err := loadbalance.New(loadbalance.Options{File: "/does/not/exist"}, quiet()).Load(); err == nil {
		t.Error("no error for a file that is not there")
	}
}

// lockedBuffer is a log.
type lockedBuffer struct {
	sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.Write(p)
}

func TestReloadOfWeights(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := loadbalance.Options{File: file(t, "www.example.org\n192.0.2.1 255\n"), Reload: 10 * time.Second}
		var log lockedBuffer
		b := loadbalance.New(o, slog.New(slog.NewTextHandler(&log, nil)))
		f := answering(t, "www.example.org.", dns.TypeA, []string{"www.example.org. 60 IN A 192.0.2.1", "www.example.org. 60 IN A 192.0.2.2"}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		synctest.Wait()
		first := func() int { return counted(t, balanced(b, o, f), dns.TypeA, 100)["192.0.2.1 192.0.2.2"] }
		if n := first(); n < 90 {
			t.Errorf("192.0.2.1 came first %d times of 100, want 99.6", n)
		}
		for _, step := range []struct {
			text     string
			min, max int
			log      string
		}{
			{"www.example.org\n192.0.2.2 255\n", 0, 10, ""},
			{"nonsense 1\n", 0, 10, "is not an address"},
			{"nonsense 1\n", 0, 10, ""},
			{"www.example.org\n192.0.2.1 255\n", 90, 100, "weights are good again"},
		} {
			log.Reset()
			if err := os.WriteFile(o.File, []byte(step.text), 0o600); err != nil {
				t.Fatal(err)
			}
			<-time.After(10 * time.Second)
			synctest.Wait()
			if n := first(); n < step.min || n > step.max {
				t.Errorf("%q: 192.0.2.1 came first %d times of 100, want %d to %d", step.text, n, step.min, step.max)
			}
			if got := log.String(); !strings.Contains(got, step.log) || step.log == "" && got != "" {
				t.Errorf("%q: the log says %q, want %q", step.text, got, step.log)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestNothingToDoTakesNoMemory(t *testing.T) {
	var o loadbalance.Options
	f := answering(t, "www.example.org.", dns.TypeA, []string{"www.example.org. 60 IN A 192.0.2.1", "www.example.org. 60 IN A 192.0.2.2"}, nil)
	servertest.NoAllocs(t, servertest.Query("www.example.org.", dns.TypeA, 1232), balanced(loadbalance.New(o, quiet()), o, f))
}

// TestDocs holds docs/loadbalance.md against the options.
func TestDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/loadbalance.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range loadbalance.Table() {
		if !strings.Contains(string(page), "\n| `"+o.Name+" "+o.Usage+"`") {
			t.Errorf("the table of options has no row for %s %s", o.Name, o.Usage)
		}
	}
}
