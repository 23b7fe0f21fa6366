package loop_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/plugin/loop"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

func TestParse(t *testing.T) {
	t.Parallel()
	in := &directive.Input{Line: directive.Line{Name: directive.Arg{Text: "loop", File: "Corefile", Line: 3}}, Zones: []string{"."}}
	if o, err := loop.Parse(in); err != nil || len(o.Zones) != 1 {
		t.Errorf("got %v, %v", o, err)
	}
	in.Lines = []directive.Line{{Name: in.Name}}
	if _, err := loop.Parse(in); err == nil || err.Error() != "Corefile:3: loop: takes no options in braces" {
		t.Errorf("got %v", err)
	}
	in.Args = []directive.Arg{{Text: "x", File: "Corefile", Line: 3}}
	if _, err := loop.Parse(in); err == nil || err.Error() != `Corefile:3: loop: takes no argument, found "x"` {
		t.Errorf("got %v", err)
	}
}

// path is what an upstream does with a probe.
type path func(ctx context.Context, qu server.Question) error

// answers replies at once.
func answers(context.Context, server.Question) error { return nil }

// silent never replies.
func silent(ctx context.Context, _ server.Question) error {
	<-ctx.Done()
	return ctx.Err()
}

// upstream is one of forward's.
type upstream struct {
	name, zone string

	mu        sync.Mutex
	path      path
	suspended bool
	probes    []string
}

func (u *upstream) String() string  { return u.name }
func (u *upstream) Zone() wire.Zone { return wire.NewZone(wire.MustCanonical(u.zone)) }

func (u *upstream) Suspend(on bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.suspended = on
}

func (u *upstream) State() (server.UpstreamState, string) { return server.UpstreamUp, "" }

func (u *upstream) Probe(ctx context.Context, qu server.Question) error {
	u.mu.Lock()
	p := u.path
	u.probes = append(u.probes, wire.Canonical(qu.Name).String())
	u.mu.Unlock()
	return p(ctx, qu)
}

func (u *upstream) set(p path) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.path = p
}

func (u *upstream) cut() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.suspended
}

func (u *upstream) probed() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.probes
}

// forwarder has upstreams.
type forwarder struct {
	mu  sync.Mutex
	ups []server.Upstream
}

func (f *forwarder) Upstreams() []server.Upstream {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ups
}

func (f *forwarder) set(ups ...*upstream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ups = nil
	for _, u := range ups {
		f.ups = append(f.ups, u)
	}
}

// said is a log, and how often it says something.
type said struct{ plugintest.Log }

func (s *said) count(text string) int { return strings.Count(s.String(), text) }

// bench is a loop directive that runs.
type bench struct {
	t     *testing.T
	loop  *loop.Loop
	f     *forwarder
	log   *said
	block *server.Block
	stop  func()
}

func newBench(t *testing.T, zones []string, ups ...*upstream) *bench {
	t.Helper()
	b := &bench{t: t, f: new(forwarder), log: new(said)}
	b.loop = loop.New(loop.Options{Zones: zones}, slog.New(slog.NewTextHandler(b.log, nil)))
	b.f.set(ups...)
	b.loop.Watch(b.f)
	b.block = servertest.Block(zones[0], server.Stage{Name: "loop", Handler: b.loop})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.loop.Run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(b.stop)
	b.wait(0)
	return b
}

// wait lets time pass, and all that happens then.
func (b *bench) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// leadBack is the path of an upstream that leads to this server, with the letter case of names changed on the way. After its patience the
// probe's name still comes.
func (b *bench) leadBack(delay time.Duration) path {
	return func(ctx context.Context, qu server.Question) error {
		select {
		case <-ctx.Done():
			b.ask(strings.ToUpper(wire.Canonical(qu.Name).String()), qu.Type)
			return ctx.Err()
		case <-time.After(delay):
		}
		if rcode := b.ask(strings.ToUpper(wire.Canonical(qu.Name).String()), qu.Type); rcode != dns.RcodeNameError {
			b.t.Errorf("the probe was not recognised: rcode %d", rcode)
		}
		return nil
	}
}

func (b *bench) ask(name string, typ wire.Type) int {
	m, ok := servertest.Direct(b.block).Answer(servertest.Pack(b.t, servertest.Query(name, uint16(typ), 0)), servertest.Client, server.UDP)
	if !ok {
		b.t.Fatal("no reply")
	}
	return int(m[3] & 0xF)
}

func TestLoopIsCutAndUsedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		good, bad := &upstream{name: "192.0.2.1:53", zone: ".", path: answers}, &upstream{name: "192.0.2.2:53", zone: ".", path: silent}
		b := newBench(t, []string{"."}, good, bad)
		if good.cut() || bad.cut() {
			t.Fatal("an upstream is cut off that has done nothing")
		}
		bad.set(b.leadBack(time.Millisecond))
		b.wait(5 * time.Second)
		if !bad.cut() || good.cut() {
			t.Fatalf("cut off: %v, and the other %v", bad.cut(), good.cut())
		}
		b.wait(time.Hour)
		if n := b.log.count("leads back to this server"); n != 1 || b.log.count("upstream=192.0.2.2:53") != 1 {
			t.Errorf("the loop is named %d times, want once", n)
		}
		bad.set(answers)
		b.wait(6 * time.Second)
		if bad.cut() || b.log.count("does not lead back any more") != 1 {
			t.Error("the loop is gone, and the upstream still cut off")
		}
		// It can come at any time.
		good.set(b.leadBack(time.Second))
		b.wait(time.Minute + 2*time.Second)
		if !good.cut() {
			t.Error("a loop that arises later is not found")
		}
		b.stop()
		if good.cut() {
			t.Error("an upstream stays cut off though nobody watches it")
		}
	})
}

func TestSilenceIsNoLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{name: "192.0.2.1:53", zone: ".", path: silent}
		b := newBench(t, []string{"."}, up)
		b.wait(time.Hour)
		if up.cut() || b.log.count("\n") != 0 {
			t.Errorf("cut off: %v", up.cut())
		}
		// Nobody is asked too often, and no name twice.
		names := map[string]bool{}
		for _, n := range up.probed() {
			names[n] = true
			if l := strings.Split(n, "."); len(l) != 3 || len(l[0]) != 16 || len(l[1]) != 16 {
				t.Errorf("the probe is %s", n)
			}
		}
		if n := len(names); n != len(up.probed()) || n < 60 || n > 80 {
			t.Errorf("%d probes, %d of different names", len(up.probed()), n)
		}
		// A loop whose replies are late is one.
		up.set(b.leadBack(3 * time.Second))
		b.wait(time.Minute + 5*time.Second)
		if !up.cut() {
			t.Error("a slow loop is not found")
		}
		b.wait(time.Hour)
		if n := b.log.count("leads back to this server"); !up.cut() || n != 1 {
			t.Errorf("a slow loop is named %d times, want once", n)
		}
		// Silence ends it, but not a single lost packet.
		up.set(silent)
		b.wait(8 * time.Second)
		if !up.cut() {
			t.Error("one probe without a reply ends the loop")
		}
		b.wait(20 * time.Second)
		if up.cut() {
			t.Error("an upstream that is silent now is still said to loop")
		}
	})
}

func TestUpstreamsComeAndGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := &upstream{name: "192.0.2.1:53", zone: "."}, &upstream{name: "192.0.2.2:53", zone: "."}
		b := newBench(t, []string{"."})
		first.set(b.leadBack(0))
		second.set(b.leadBack(0))
		b.f.set(first)
		b.wait(2 * time.Second)
		if !first.cut() {
			t.Error("an upstream that came later is not looked at")
		}
		b.f.set(second)
		b.wait(2 * time.Second)
		if first.cut() || !second.cut() {
			t.Errorf("cut off: the one that went %v, the one that came %v", first.cut(), second.cut())
		}
		b.loop.Watch(nil)
		b.wait(2 * time.Second)
		if second.cut() {
			t.Error("cut off, and not watched any more")
		}
	})
}

// TestNames: probes are for names that the upstream is asked for and that come to the server block.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ block, from, want string }{
		{".", ".", "."},
		{".", "example.org.", ".example.org."},
		{"example.org.", ".", ".example.org."},
		{"a.example.org. b.example.org. example.org.", ".", ".example.org."},
		{"example.org. example.com.", "www.example.com.", ".www.example.com."},
		{"example.org.", "example.com.", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			up := &upstream{name: "192.0.2.1:53", zone: c.from, path: answers}
			newBench(t, strings.Fields(c.block), up)
			got := up.probed()
			if c.want == "" {
				if len(got) != 0 {
					t.Errorf("%s from %s: probed %v", c.from, c.block, got)
				}
				return
			}
			if len(got) != 1 || got[0][33:] != c.want {
				t.Errorf("%s from %s: probed %v, want names in %s", c.from, c.block, got, c.want)
			}
		})
	}
}

// TestOthersQuestions: only its own probes are the handler's.
func TestOthersQuestions(t *testing.T) {
	l := loop.New(loop.Options{Zones: []string{"."}}, slog.New(slog.DiscardHandler))
	block := servertest.Block(".", server.Stage{Name: "loop", Handler: l}, server.Stage{Name: "behind", Handler: refuse{}})
	for _, typ := range []uint16{dns.TypeHINFO, dns.TypeA} {
		m := servertest.Query("0123456789abcdef.0123456789abcdef.", typ, 0)
		servertest.NoAllocs(t, m, block)
		b, _ := servertest.Direct(block).Answer(servertest.Pack(t, m), servertest.Client, server.UDP)
		if b[3]&0xF != dns.RcodeRefused {
			t.Errorf("got %x", b)
		}
	}
}

type refuse struct{}

func (refuse) Answer(r *server.Reply, _ *server.Query) server.Verdict {
	r.SetRCode(wire.RCodeRefused)
	return server.Done
}

func TestDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/loop.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"HINFO", "every 5 seconds", "once a minute", "D15"} {
		if !strings.Contains(string(page), s) {
			t.Errorf("docs/loop.md does not say %q", s)
		}
	}
}
