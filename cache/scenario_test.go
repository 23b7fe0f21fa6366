package cache_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/cache"
	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// input reads a directive as it stands in a Corefile: words, and lines in braces.
func input(text string) *directive.Input {
	in := &directive.Input{Zones: []string{"."}, Port: "53"}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		var words []directive.Arg
		for _, w := range strings.Fields(line) {
			words = append(words, directive.Arg{Text: w, File: "Corefile", Line: i + 1})
		}
		if len(words) == 0 || words[0].Text == "}" {
			continue
		}
		if last := len(words) - 1; i == 0 {
			if in.HasBlock = words[last].Text == "{"; in.HasBlock {
				words = words[:last]
			}
			in.Name, in.Args = words[0], words[1:]
			continue
		}
		in.Lines = append(in.Lines, directive.Line{Name: words[0], Args: words[1:]})
	}
	return in
}

func parse(t testing.TB, text string) cache.Options {
	t.Helper()
	o, err := cache.Parse(input(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// script is what the upstream answers to one question.
type script struct {
	msg   *dns.Msg // nil: no reply at all, so that forward gives up
	delay time.Duration
	ede   []server.ExtendedError
}

// upstream stands where forward does, and answers as scripted.
type upstream struct {
	mu      sync.Mutex
	scripts map[string]script
	queries int
}

func (u *upstream) Answer(*server.Reply, *server.Query) server.Verdict { return server.Wait }

func (u *upstream) AwaitAnswer(ctx context.Context, r *server.Reply, q *server.Query) server.Verdict {
	u.mu.Lock()
	u.queries++
	s := u.scripts[strings.ToLower(q.Name.String())+" "+q.Type.String()]
	u.mu.Unlock()
	if s.delay > 0 {
		select {
		case <-ctx.Done():
			return r.Fail(ctx.Err())
		case <-time.After(s.delay):
		}
	}
	for _, e := range s.ede {
		r.AddEDE(e.Code, e.Text)
	}
	if s.msg == nil {
		return r.Fail(fmt.Errorf("no upstream answers"))
	}
	b, err := s.msg.Pack()
	if err != nil {
		panic(err)
	}
	if err := r.Splice(b, server.Splice{Flags: 0xFFFF}); err != nil {
		return r.Fail(err)
	}
	return server.Done
}

func (u *upstream) asked() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.queries
}

func (u *upstream) set(question string, s script) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.scripts[question] = s
}

// bench is a cache in front of a scripted upstream.
type bench struct {
	t       *testing.T
	up      *upstream
	cache   *cache.Cache
	metrics *cache.Metrics
	block   *server.Block
	direct  *server.Direct
	reply   *dns.Msg
	took    time.Duration
	seen    int // upstream queries when the last question was asked
}

func newBench(t *testing.T, corefile string) *bench {
	t.Helper()
	b := &bench{t: t, up: &upstream{scripts: map[string]script{}}, metrics: cache.NewMetrics(nil)}
	b.cache = cache.New(parse(t, corefile), b.metrics)
	b.block = servertest.Block(".",
		server.Stage{Name: "alias", Handler: alias{}},
		server.Stage{Name: "cache", Handler: b.cache}, server.Stage{Name: "forward", Handler: b.up})
	b.direct = servertest.Direct(b.block)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.cache.Run(ctx) }()
	synctest.Wait()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return b
}

// alias is a handler in front of the cache that leads from alias.test. to the name behind it: www.example.org.alias.test. to
// www.example.org., with a TTL of 5 seconds.
type alias struct{}

func (alias) Answer(r *server.Reply, q *server.Query) server.Verdict {
	name, ok := strings.CutSuffix(q.Name.String(), ".alias.test.")
	if !ok {
		return server.Pass
	}
	target := make([]byte, 255)
	n, err := dns.PackDomainName(name+".", target, 0, nil, false)
	if err != nil {
		return r.Fail(err)
	}
	ref, _ := r.CNAME(server.Owner, 5, target[:n])
	if err := q.SetTarget(target[:n], ref); err != nil {
		return r.Fail(err)
	}
	return server.Follow
}

// ask sends a question; flags are "do", "cd", "ad", "noedns", "norec".
func (b *bench) ask(name, typ string, flags ...string) *dns.Msg {
	b.t.Helper()
	m := servertest.Query(name, dns.StringToType[typ], 1232)
	for _, f := range flags {
		switch f {
		case "do":
			m.IsEdns0().SetDo()
		case "cd":
			m.CheckingDisabled = true
		case "ad":
			m.AuthenticatedData = true
		case "noedns":
			m.Extra = nil
		case "norec":
			m.RecursionDesired = false
		default:
			b.t.Fatalf("unknown flag %q", f)
		}
	}
	b.seen = b.up.asked()
	began := time.Now()
	raw, ok := b.direct.Answer(servertest.Pack(b.t, m), servertest.Client, server.TCP)
	b.took = time.Since(began)
	if !ok {
		b.t.Fatalf("no reply to %s %s", name, typ)
	}
	b.reply = new(dns.Msg)
	if err := b.reply.Unpack(raw); err != nil {
		b.t.Fatalf("%s %s: %v", name, typ, err)
	}
	return b.reply
}

// shown is a reply as scenarios write it.
func shown(m *dns.Msg) string {
	words := []string{dns.RcodeToString[m.Rcode]}
	for _, f := range []struct {
		on   bool
		name string
	}{{m.Authoritative, "aa"}, {m.Truncated, "tc"}, {m.RecursionAvailable, "ra"}, {m.AuthenticatedData, "ad"}} {
		if f.on {
			words = append(words, f.name)
		}
	}
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok {
				words = append(words, strings.TrimSuffix(fmt.Sprintf("ede=%d:%s", e.InfoCode, strings.ReplaceAll(e.ExtraText, " ", "_")), ":"))
			}
		}
	}
	lines := []string{strings.Join(words, " ")}
	for i, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			if rr.Header().Rrtype != dns.TypeOPT {
				lines = append(lines, sectionNames[i]+" "+strings.ReplaceAll(rr.String(), "\t", " "))
			}
		}
	}
	return strings.Join(lines, "\n")
}

var sectionNames = [...]string{"answer", "authority", "additional"}

// TestScenarios runs the files in testdata/scenarios. In each, a cache directive stands above a line of dashes. Then, in order:
//
//	upstream NAME TYPE RCODE [ra] [ad] [aa] [tc] [delay=D] [ede=N] [question=NAME]   what is answered from now on, with records below
//	upstream NAME TYPE silent [delay=D]                                      forward gives up
//	ask NAME TYPE [do] [cd] [ad] [noedns] [norec]                            one question
//	want RCODE [flags] [ede=N:text]                                          its reply, with records below
//	asked N                                                                  upstream queries that the last question caused
//	took D                                                                   how long its reply took
//	wait D                                                                   time passes
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			head, body, ok := strings.Cut(string(text), "\n----\n")
			if !ok {
				t.Fatal("no line of dashes")
			}
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, uncomment(head))
				for _, s := range steps(body) {
					b.step(s)
				}
			})
		})
	}
}

func uncomment(s string) string {
	var out []string
	for _, l := range strings.Split(s, "\n") {
		if !strings.HasPrefix(l, "#") {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}

// step is one line of a scenario and the indented ones below it.
type step struct {
	line  int
	words []string
	below []string
}

func steps(body string) (out []step) {
	for i, l := range strings.Split(body, "\n") {
		switch {
		case strings.TrimSpace(l) == "" || l[0] == '#':
		case l[0] == ' ':
			s := &out[len(out)-1]
			s.below = append(s.below, strings.TrimSpace(l))
		default:
			out = append(out, step{line: i, words: strings.Fields(l)})
		}
	}
	return out
}

func (b *bench) step(s step) {
	b.t.Helper()
	w := s.words
	where := fmt.Sprintf("step %d, %q", s.line, strings.Join(w, " "))
	switch w[0] {
	case "upstream":
		b.up.set(w[1]+" "+w[2], newScript(b.t, s))
	case "ask":
		b.ask(w[1], w[2], w[3:]...)
	case "want":
		want := strings.Join(append([]string{strings.Join(w[1:], " ")}, s.below...), "\n")
		if got := shown(b.reply); got != want {
			b.t.Errorf("%s: got\n%s\nwant\n%s", where, got, want)
		}
	case "asked":
		synctest.Wait()
		if got := b.up.asked() - b.seen; strconv.Itoa(got) != w[1] {
			b.t.Errorf("%s: got %d", where, got)
		}
	case "took":
		if b.took.String() != w[1] {
			b.t.Errorf("%s: got %s", where, b.took)
		}
	case "wait":
		d, err := time.ParseDuration(w[1])
		if err != nil {
			b.t.Fatal(err)
		}
		<-time.After(d)
		synctest.Wait()
	default:
		b.t.Fatalf("%s: unknown step", where)
	}
}

func newScript(t testing.TB, s step) (out script) {
	t.Helper()
	m := servertest.Query(s.words[1], dns.StringToType[s.words[2]], 0)
	m.Response, m.Compress = true, true
	code, ok := dns.StringToRcode[s.words[3]]
	m.Rcode = code
	opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT, Class: 1232}}
	for _, f := range s.words[4:] {
		name, value, _ := strings.Cut(f, "=")
		switch name {
		case "ra":
			m.RecursionAvailable = true
		case "ad":
			m.AuthenticatedData = true
		case "aa":
			m.Authoritative = true
		case "tc":
			m.Truncated = true
		case "delay":
			d, err := time.ParseDuration(value)
			if err != nil {
				t.Fatal(err)
			}
			out.delay = d
		case "question":
			m.Question[0].Name = value
		case "ede":
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			opt.Option = append(opt.Option, &dns.EDNS0_EDE{InfoCode: uint16(n), ExtraText: "upstream"})
		case "subnet":
			opt.Option = append(opt.Option, &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, SourceScope: 24, Address: []byte{192, 0, 2, 0}})
		default:
			t.Fatalf("unknown flag %q", f)
		}
	}
	for _, l := range s.below {
		section, text, _ := strings.Cut(l, " ")
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		to := []*[]dns.RR{&m.Answer, &m.Ns, &m.Extra}[slices.Index(sectionNames[:], section)]
		*to = append(*to, rr)
	}
	if len(opt.Option) > 0 {
		m.Extra = append(m.Extra, opt)
	}
	if ok {
		out.msg = m
	}
	return out
}
