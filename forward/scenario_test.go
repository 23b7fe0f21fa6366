package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// TestScenarios plays the files of testdata/scenarios: forward lines, then a line "---", then steps. testdata/scenarios/README.md tells
// what steps there are.
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { play(t, file, string(text)) })
		})
	}
}

// stage is a scenario being played.
type stage struct {
	*testing.T
	net   *network
	fwd   *Forward
	reg   *prometheus.Registry
	log   *logLines
	block *server.Block
	dir   string
	asks  sync.WaitGroup
}

type logLines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

// take gives and forgets the lines.
func (l *logLines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.Reset()
	return l.String()
}

func play(t *testing.T, file, text string) {
	conf, steps, ok := strings.Cut(text, "\n---\n")
	if !ok {
		t.Fatalf("%s has no line ---", file)
	}
	s := &stage{T: t, net: newNetwork(), reg: prometheus.NewRegistry(), log: new(logLines), dir: t.TempDir()}
	var opts []Options
	for l := range strings.SplitSeq(conf, "\nforward ") {
		var keep []string
		for k := range strings.SplitSeq(l, "\n") {
			if !strings.HasPrefix(k, "#") {
				keep = append(keep, k)
			}
		}
		if l = strings.TrimPrefix(strings.Join(keep, "\n"), "forward "); strings.TrimSpace(l) != "" {
			opts = append(opts, parsed(t, "forward "+strings.ReplaceAll(l, "$DIR", s.dir)))
		}
	}
	logger := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	s.fwd = newForward(opts, NewMetrics(s.reg), logger, s.net.dial)
	s.block = servertest.Block(".", server.Stage{Name: "forward", Handler: s.fwd})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.fwd.Run(ctx) }()
	defer func() {
		s.asks.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		time.Sleep(time.Minute) // of the test's time: whatever waits for something ends, or the bubble complains
	}()
	for i, l := range strings.Split(steps, "\n") {
		if f := strings.Fields(l); len(f) > 0 && f[0][0] != '#' {
			s.step(fmt.Sprintf("%s, step %d: %s", filepath.Base(file), i+1, l), f)
		}
	}
}

func (s *stage) step(at string, f []string) {
	switch f[0] {
	case "upstream": // upstream ADDR PROTO ACTION, ACTION
		s.net.script(f[1], f[2], strings.Join(f[3:], " "))
	case "file": // file NAME WORD...: a line "nameserver WORD" each
		var b strings.Builder
		for _, w := range f[2:] {
			fmt.Fprintf(&b, "nameserver %s\n", w)
		}
		if err := os.WriteFile(filepath.Join(s.dir, f[1]), []byte(b.String()), 0o600); err != nil {
			s.Fatal(err)
		}
	case "wait":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			s.Fatal(err)
		}
		time.Sleep(d)
	case "hangup":
		s.net.hangUp(f[1])
	case "asked": // asked ADDR PROTO N
		synctest.Wait()
		if n := s.net.taken(s.net.asked, f[1], f[2]); !within(n, f[3]) {
			s.Errorf("%s\n\twas asked %d times", at, n)
		}
	case "dialed":
		synctest.Wait()
		if n := s.net.taken(s.net.dials, f[1], f[2]); !within(n, f[3]) {
			s.Errorf("%s\n\twas dialed %d times", at, n)
		}
	case "log": // log N [TEXT]: that many lines since, each with the text
		s.checkLog(at, f)
	case "metric":
		s.checkMetric(at, f[1], f[2])
	case "ask":
		s.ask(at, f[1:])
	case "meanwhile": // an ask that the next steps do not wait for
		s.asks.Go(func() { s.ask(at, f[2:]) })
		synctest.Wait()
	case "times": // times N ask ...
		n, _ := strconv.Atoi(f[1])
		for range n {
			s.ask(at, f[3:])
		}
	case "settled":
		s.asks.Wait()
	default:
		s.Fatalf("%s: unknown step", at)
	}
}

// within compares a number with "N", "N+" or "N-M".
func within(n int, want string) bool {
	lo, hi, _ := strings.Cut(want, "-")
	if strings.HasSuffix(want, "+") {
		lo, hi = strings.TrimSuffix(want, "+"), "1000000"
	} else if hi == "" {
		hi = lo
	}
	l, _ := strconv.Atoi(lo)
	h, _ := strconv.Atoi(hi)
	return l <= n && n <= h
}

func (s *stage) checkLog(at string, f []string) {
	synctest.Wait()
	text := s.log.take()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if text == "" {
		lines = nil
	}
	want := strings.Join(f[2:], " ")
	for _, l := range lines {
		if !strings.Contains(l, want) {
			s.Errorf("%s\n\tlogged %s", at, l)
		}
	}
	if n, _ := strconv.Atoi(f[1]); n != len(lines) {
		s.Errorf("%s\n\tlogged %d lines:\n%s", at, len(lines), text)
	}
}

// checkMetric compares the sum of the series whose name and labels contain the words of a pattern like name{label=value,label=value}.
func (s *stage) checkMetric(at, pattern, want string) {
	synctest.Wait()
	name, labels, _ := strings.Cut(strings.TrimSuffix(pattern, "}"), "{")
	all, err := s.reg.Gather()
	if err != nil {
		s.Fatal(err)
	}
	sum := 0.0
	for _, fam := range all {
		if fam.GetName() != name {
			continue
		}
	series:
		for _, m := range fam.GetMetric() {
			for pair := range strings.SplitSeq(labels, ",") {
				k, v, ok := strings.Cut(pair, "=")
				if !ok {
					continue
				}
				found := false
				for _, l := range m.GetLabel() {
					found = found || l.GetName() == k && l.GetValue() == v
				}
				if !found {
					continue series
				}
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	if !within(int(sum), want) {
		s.Errorf("%s\n\tis %v", at, sum)
	}
}

// ask is "NAME TYPE [tcp] [do] [cd] [plain] -> RCODE [ADDR...] [tc] [ra] [ede N] [<DURATION] [@DURATION]".
func (s *stage) ask(at string, f []string) {
	m := new(dns.Msg)
	m.SetQuestion(f[0], dns.StringToType[f[1]])
	m.Id = uint16(rand.Uint32())
	m.SetEdns0(4096, false)
	via := server.UDP
	for i, w := range f[2:] {
		switch w {
		case "tcp":
			via = server.TCP
		case "do":
			m.IsEdns0().SetDo()
		case "cd":
			m.CheckingDisabled = true
		case "norec":
			m.RecursionDesired = false
		case "plain":
			m.Extra = nil
		case "->":
			begin := time.Now()
			r := s.exchange(m, via)
			s.compare(at, r, time.Since(begin), f[i+3:])
			return
		}
	}
	s.Fatalf("%s: no ->", at)
}

func (s *stage) exchange(m *dns.Msg, via server.Transport) *dns.Msg {
	b, err := m.Pack()
	if err != nil {
		s.Fatal(err)
	}
	out, ok := servertest.Direct(s.block).Answer(b, netip.MustParseAddrPort("127.0.0.1:40000"), via)
	if !ok {
		return nil
	}
	r := new(dns.Msg)
	if err := r.Unpack(out); err != nil {
		s.Errorf("reply %x does not parse: %v", out, err)
	}
	return r
}

func (s *stage) compare(at string, r *dns.Msg, took time.Duration, want []string) {
	if r == nil {
		s.Errorf("%s\n\tgot no reply", at)
		return
	}
	var got []string
	got = append(got, dns.RcodeToString[r.Rcode])
	for _, rr := range r.Answer {
		if a, ok := rr.(*dns.A); ok && len(r.Answer) < 5 {
			got = append(got, a.A.String())
		}
	}
	if len(r.Answer) >= 5 {
		got = append(got, strconv.Itoa(len(r.Answer))+"-records")
	}
	if r.Truncated {
		got = append(got, "tc")
	}
	bounds := true
	var rest []string
	for i := 0; i < len(want); i++ {
		switch w := want[i]; {
		case w[0] == '<':
			d, err := time.ParseDuration(w[1:])
			bounds = bounds && err == nil && took < d
		case w[0] == '>':
			d, err := time.ParseDuration(w[1:])
			bounds = bounds && err == nil && took >= d
		case w[0] == '@':
			d, err := time.ParseDuration(w[1:])
			bounds = bounds && err == nil && took == d
		case w == "ede":
			i++
			if !hasEDE(r, want[i]) {
				s.Errorf("%s\n\thas no EDE %s:\n%v", at, want[i], r)
			}
		default:
			rest = append(rest, w)
		}
	}
	if strings.Join(got, " ") != strings.Join(rest, " ") && (len(rest) != 2 || rest[1] != "any" || len(got) != 2) || !bounds {
		s.Errorf("%s\n\tgot %s after %v", at, strings.Join(got, " "), took)
	}
}

func hasEDE(r *dns.Msg, code string) bool {
	if r.IsEdns0() == nil {
		return false
	}
	for _, o := range r.IsEdns0().Option {
		if e, ok := o.(*dns.EDNS0_EDE); ok && strconv.Itoa(int(e.InfoCode)) == code {
			return true
		}
	}
	return false
}

// TestManyInFlight: more questions at a time than the usual sockets have room for.
func TestManyInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.script("10.0.0.1", "udp", "answer 192.0.2.1 @90ms")
		f := newForward([]Options{parsed(t, "forward . 10.0.0.1")}, NewMetrics(nil), quiet(), n.dial)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		block := servertest.Block(".", server.Stage{Name: "forward", Handler: f})
		const questions = 3000
		var all sync.WaitGroup
		var bad atomic.Int32
		for i := range questions {
			all.Go(func() {
				q := servertest.Pack(t, servertest.Query(fmt.Sprintf("n%d.example.org.", i), dns.TypeA, 0))
				if r, ok := servertest.Direct(block).Answer(q, servertest.Client, server.UDP); !ok || r[3]&0xF != 0 {
					bad.Add(1)
				}
			})
		}
		all.Wait()
		if b, q, d := bad.Load(), n.taken(n.asked, "10.0.0.1", "udp"), n.taken(n.dials, "10.0.0.1", "udp"); b > 0 || q != questions || d <= usualSockets || d > maxSockets {
			t.Errorf("%d of %d failed; %d were sent by %d sockets", b, questions, q, d)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute) // of the test's time
	})
}

// TestMoreThanFits: what no socket has room for fails at once, and is not held against the upstream.
func TestMoreThanFits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.script("10.0.0.1", "udp", "silent")
		f := newForward([]Options{parsed(t, "forward . 10.0.0.1")}, NewMetrics(nil), quiet(), n.dial)
		g := f.groups[0]
		u := (*g.ups.Load())[0]
		var under []*exchange
		turn := server.NewTurn()
		var err error
		for i := 0; i < maxSockets*tableSize && err == nil; i++ {
			x := g.take()
			x.question.set([]byte("\x07example\x00"), wire.TypeA, wire.ClassIN, 0, false, nil)
			a := x.attempt(u, overUDP, time.Now())
			if err = u.send(a, turn); err != nil {
				a.done = true
				x.failed(a, err)
			}
			turn.End()
			under = append(under, x)
		}
		if !errors.Is(err, errCrowded) || len(under) < maxSockets*tableSize/2 {
			t.Errorf("after %d questions: %v", len(under), err)
		}
		if u.ailing.Load() {
			t.Error("the upstream is held to be in trouble")
		}
		block, cause := servertest.Block(".", server.Stage{Name: "forward", Handler: f}), new(causes)
		block.Observers = append(block.Observers, cause)
		servertest.Direct(block).Answer(servertest.Pack(t, servertest.Query("a.example.org.", dns.TypeA, 0)), servertest.Client, server.UDP)
		if !errors.Is(cause.last, server.ErrOverload) {
			t.Errorf("one more fails with %v", cause.last)
		}
		end := func(x *exchange) {
			x.decide(nil, errClosed)
			x.land(nil)
		}
		for _, x := range under {
			end(x)
		}
		again := g.take()
		if u.send(again.attempt(u, overUDP, time.Now()), turn) != nil {
			t.Error("no room after all were given up")
		}
		end(again)
		g.sweep(time.Now(), true)
		synctest.Wait()
	})
}

// causes observes why queries fail.
type causes struct{ last error }

func (c *causes) Observe(r *server.Reply, _ *server.Query) { c.last = r.Cause() }

// TestFirstLeaves: who shares a question goes on waiting for the reply when the one that it was first asked for has waited long enough.
func TestFirstLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.script("10.0.0.1", "udp", "answer 192.0.2.1 @1400ms")
		f := newForward([]Options{parsed(t, "forward . 10.0.0.1")}, NewMetrics(nil), quiet(), n.dial)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		hasty, patient := servertest.Block(".", server.Stage{Name: "forward", Handler: f}), servertest.Block(".", server.Stage{Name: "forward", Handler: f})
		hasty.Options.Patience = time.Second
		query := servertest.Pack(t, servertest.Query("a.example.org.", dns.TypeA, 0))
		var all sync.WaitGroup
		ask := func(b *server.Block, rcode int, after time.Duration) {
			begin := time.Now()
			all.Go(func() {
				r, ok := servertest.Direct(b).Answer(query, servertest.Client, server.UDP)
				if took := time.Since(begin); !ok || int(r[3]&0xF) != rcode || took.Round(10*time.Millisecond) != after {
					t.Errorf("%x after %s, want rcode %d after %s", r, took, rcode, after)
				}
			})
			synctest.Wait()
		}
		ask(hasty, dns.RcodeServerFailure, time.Second)
		time.Sleep(500 * time.Millisecond)
		ask(patient, dns.RcodeSuccess, 900*time.Millisecond)
		ask(hasty, dns.RcodeSuccess, 900*time.Millisecond)
		all.Wait()
		if m := f.groups[0].waiting.Load(); m != 0 {
			t.Errorf("%d queries wait", m)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute) // of the test's time
	})
}

// TestReasons: clients are told why the upstreams did not answer, three of them at the most, each once.
func TestReasons(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"10.0.0.1":                   "no upstream answered in 3 attempts: 10.0.0.1:53 over udp: recvmsg: connection refused",
		"10.0.0.1 10.0.0.2":          "no upstream answered in 4 attempts: 10.0.0.2:53 over udp: no reply in time; 10.0.0.1:53 over udp: recvmsg: connection refused",
		"10.0.0.2 10.0.0.3 10.0.0.1": "no upstream answered in 6 attempts: 10.0.0.2:53 over udp: no reply in time; 10.0.0.1:53 over udp: recvmsg: connection refused; 10.0.0.3:53 over udp: SERVFAIL without the question",
		"10.0.0.2 10.0.0.3 10.0.0.1 10.0.0.4": "no upstream answered in 8 attempts: 10.0.0.2:53 over udp: no reply in time; " +
			"10.0.0.4:53 over udp: recvmsg: connection refused; 10.0.0.1:53 over udp: recvmsg: connection refused",
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork()
			n.script("10.0.0.1", "udp", "refused")
			n.script("10.0.0.2", "udp", "silent")
			n.script("10.0.0.3", "udp", "bare SERVFAIL")
			n.script("10.0.0.4", "udp", "refused")
			f := newForward([]Options{parsed(t, "forward . "+line+" {\n policy sequential\n}")}, NewMetrics(nil), quiet(), n.dial)
			q := servertest.Pack(t, servertest.Query("a.example.org.", dns.TypeA, 1232))
			r, ok := servertest.Direct(servertest.Block(".", server.Stage{Name: "forward", Handler: f})).Answer(q, servertest.Client, server.UDP)
			var m dns.Msg
			if !ok || m.Unpack(r) != nil || m.IsEdns0() == nil || len(m.IsEdns0().Option) != 1 {
				t.Fatalf("%s: %x", line, r)
			}
			if e := m.IsEdns0().Option[0].(*dns.EDNS0_EDE); e.InfoCode != dns.ExtendedErrorCodeNoReachableAuthority || e.ExtraText != want {
				t.Errorf("%s: %s, want %s", line, e.ExtraText, want)
			}
			f.groups[0].sweep(time.Now(), true)
			time.Sleep(time.Minute) // of the test's time
		})
	}
}

// TestLastLeaves: nobody joins an exchange that the only one who waited for it has given up.
func TestLastLeaves(t *testing.T) {
	t.Parallel()
	f := newForward([]Options{parsed(t, "forward . 10.0.0.1")}, NewMetrics(nil), quiet(), newNetwork().dial)
	g := f.groups[0]
	lead := func() (x *exchange, joined bool) {
		x = g.take()
		x.question.set([]byte("\x07example\x00"), wire.TypeA, wire.ClassIN, 0, false, nil)
		x.waiters = append(x.waiters, call{})
		return x, g.flights.join(x, call{})
	}
	x, _ := lead()
	if _, joined := lead(); !joined {
		t.Error("the same question does not join")
	}
	if !g.flights.leave(x) {
		t.Error("one of two takes the exchange with it")
	}
	if g.flights.leave(x) {
		t.Error("nobody is left, but it goes on")
	}
	if _, joined := lead(); joined {
		t.Error("one joins what is given up")
	}
}

// TestRetiredSocketFails: a socket that was waiting for its last replies is closed when the system reports, in place of them, that the port is closed.
func TestRetiredSocketFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.script("10.0.0.1", "udp", "silent")
		var sock *datagrams
		dial := func(ctx context.Context, network string, to netip.AddrPort, from netip.Addr) (net.Conn, error) {
			c, err := n.dial(ctx, network, to, from)
			sock = c.(*datagrams)
			return c, err
		}
		f := newForward([]Options{parsed(t, "forward . 10.0.0.1 {\n max_connect_attempts 1\n}")}, NewMetrics(nil), quiet(), dial)
		block := servertest.Block(".", server.Stage{Name: "forward", Handler: f})
		var ask sync.WaitGroup
		ask.Go(func() {
			r, ok := servertest.Direct(block).Answer(servertest.Pack(t, servertest.Query("a.example.org.", dns.TypeA, 0)), servertest.Client, server.UDP)
			if !ok || r[3]&0xF != dns.RcodeServerFailure {
				t.Errorf("%x", r)
			}
		})
		synctest.Wait()
		f.groups[0].sweep(time.Now(), true)
		sock.push(os.NewSyscallError("recvmsg", syscall.ECONNREFUSED))
		ask.Wait()
		synctest.Wait()
		select {
		case <-sock.closed:
		default:
			t.Error("the socket is still open")
			sock.Close()
		}
	})
}

// TestUpstreamUpOfWhatRuns: the gauge tells of the upstreams of the configuration in use: not of one that is gone, which might have been down to its end,
// nor of one that was never taken into use. An upstream of two lines is down if one of them says so.
func TestUpstreamUpOfWhatRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg, n := prometheus.NewRegistry(), newNetwork()
		m := NewMetrics(reg)
		up := func() string {
			all, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, fam := range all {
				for _, m := range fam.GetMetric() {
					if fam.GetName() == "clusterdns_forward_upstream_up" {
						out = append(out, fmt.Sprintf("%s=%v", m.GetLabel()[0].GetValue(), m.GetGauge().GetValue()))
					}
				}
			}
			return strings.Join(out, " ")
		}
		start := func(lines ...string) (f *Forward, stop func()) {
			var opts []Options
			for _, l := range lines {
				opts = append(opts, parsed(t, l))
			}
			f = newForward(opts, m, quiet(), n.dial)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- f.Run(ctx) }()
			synctest.Wait()
			return f, func() {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
		}
		newForward([]Options{parsed(t, "forward . 10.0.0.9")}, m, quiet(), n.dial)
		n.script("10.0.0.1", "udp", "silent")
		before, stop := start("forward . 10.0.0.1", "forward example.com 10.0.0.1 10.0.0.2")
		for range 2 { // until it is down
			q := servertest.Pack(t, servertest.Query("a.example.org.", dns.TypeA, 0))
			servertest.Direct(servertest.Block(".", server.Stage{Name: "forward", Handler: before})).Answer(q, servertest.Client, server.UDP)
		}
		if got, want := up(), "10.0.0.1:53=0 10.0.0.2:53=1"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		_, stopNext := start("forward . 10.0.0.3")
		stop()
		if got, want := up(), "10.0.0.3:53=1"; got != want {
			t.Errorf("after the change: %s, want %s", got, want)
		}
		stopNext()
		if got := up(); got != "" {
			t.Errorf("at the end: %s", got)
		}
		time.Sleep(time.Minute) // of the test's time
	})
}
