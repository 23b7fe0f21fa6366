package cache_test

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clusterdns/clusterdns/cache"
	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// with is the defaults changed by f.
func with(t *testing.T, f func(*cache.Options)) cache.Options {
	t.Helper()
	o := parse(t, "cache")
	f(&o)
	return o
}

func TestParse(t *testing.T) {
	t.Parallel()
	def := parse(t, "cache")
	if want := (cache.Options{
		Zones: []string{"."}, Success: cache.Bounds{Capacity: 9984, TTL: time.Hour, MinTTL: 5 * time.Second},
		Denial:   cache.Bounds{Capacity: 9984, TTL: 30 * time.Minute, MinTTL: 5 * time.Second},
		Prefetch: cache.Prefetch{Gap: time.Minute, Percent: 10}, ServFail: 5 * time.Second,
	}); !reflect.DeepEqual(def, want) {
		t.Fatalf("defaults are %+v, want %+v", def, want)
	}
	for text, change := range map[string]func(*cache.Options){
		"cache {\n}": nil,
		"cache 30":   func(o *cache.Options) { o.Success.TTL, o.Denial.TTL = 30*time.Second, 30*time.Second },
		"cache Example.ORG 10.0.0.0/9": func(o *cache.Options) {
			o.Zones = []string{"example.org."}
			for i := range 128 {
				o.Zones = append(o.Zones, fmt.Sprintf("%d.10.in-addr.arpa.", i))
			}
		},
		"cache 25 example.nl {\n success 5000\n denial 10 15 2\n}": func(o *cache.Options) {
			o.Zones = []string{"example.nl."}
			o.Success.TTL, o.Success.Capacity = 25*time.Second, 5000
			o.Denial = cache.Bounds{Capacity: 1024, TTL: 15 * time.Second, MinTTL: 2 * time.Second}
		},
		"cache {\n prefetch 10\n}":          func(o *cache.Options) { o.Prefetch.Amount = 10 },
		"cache {\n prefetch 1 2m 90%\n}":    func(o *cache.Options) { o.Prefetch = cache.Prefetch{Amount: 1, Gap: 2 * time.Minute, Percent: 90} },
		"cache {\n serve_stale\n}":          func(o *cache.Options) { o.Stale.UpTo = time.Hour },
		"cache {\n serve_stale 1h20m\n}":    func(o *cache.Options) { o.Stale.UpTo = 80 * time.Minute },
		"cache {\n serve_stale 0 VERIFY\n}": func(o *cache.Options) { o.Stale.Verify = true },
		"cache {\n serve_stale 1m immediate 30s 10s\n}": func(o *cache.Options) {
			o.Stale = cache.Stale{UpTo: time.Minute, TTL: 30 * time.Second, Recheck: 10 * time.Second}
		},
		"cache {\n serve_stale 1m verify 100ms 30s 5m\n serve_stale_policy Prefer_Positive\n}": func(o *cache.Options) {
			o.Stale = cache.Stale{UpTo: time.Minute, Verify: true, Timeout: 100 * time.Millisecond, TTL: 30 * time.Second, Recheck: 5 * time.Minute, PreferPositive: true}
		},
		"cache {\n servfail 0\n}":  func(o *cache.Options) { o.ServFail = 0 },
		"cache {\n servfail 5m\n}": func(o *cache.Options) { o.ServFail = 5 * time.Minute },
		"cache {\n disable denial\n disable success A.org b.org\n}": func(o *cache.Options) {
			o.NoDenial, o.NoSuccess = []string{"."}, []string{"a.org.", "b.org."}
		},
		"cache {\n keepttl\n}": func(o *cache.Options) { o.KeepTTL = true },
	} {
		want := def
		if change != nil {
			want = with(t, change)
		}
		got, err := cache.Parse(input(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot %+v, %v\nwant %+v", text, got, err, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"cache 0 example.nl":                                   `Corefile:1: cache: TTL: 0 is not within 1 and 2147483647`,
		"cache -1":                                             `Corefile:1: cache: TTL: -1 is not within 1 and 2147483647`,
		"cache a..b":                                           `Corefile:1: cache: "a..b" is not a zone`,
		"cache {\n success\n}":                                 `Corefile:2: cache: option "success" needs more arguments: success CAPACITY [TTL] [MINTTL]`,
		"cache {\n denial aaa\n}":                              `Corefile:2: cache: denial: "aaa" is not a whole number`,
		"cache {\n denial 10 0\n}":                             `Corefile:2: cache: denial: 0 is not within`,
		"cache {\n positive 15\n}":                             `Corefile:2: cache: unknown option "positive"; known are success, denial, prefetch`,
		"cache {\n prefetch -1\n}":                             `Corefile:2: cache: prefetch: -1 is not within`,
		"cache {\n prefetch 0 blurp\n}":                        `"blurp" is not a duration`,
		"cache {\n prefetch 1 1m 20\n}":                        `"20" does not end with a percent sign`,
		"cache {\n prefetch 1 1m 91%\n}":                       `91 is not within 10 and 90`,
		"cache {\n serve_stale 20\n}":                          `"20" is not a duration`,
		"cache {\n serve_stale -20m\n}":                        `-20m0s is not within`,
		"cache {\n serve_stale 1m nono\n}":                     `"nono" is not a refresh mode; known are immediate, verify`,
		"cache {\n serve_stale 1m immediate 1s 6m\n}":          `6m0s is not within 0s and 5m0s`,
		"cache {\n serve_stale 1m immediate 1s 1s 1s\n}":       `takes no argument "1s" behind FAILURE_RECHECK`,
		"cache {\n serve_stale_policy prefer_positive\n}":      `serve_stale_policy needs serve_stale`,
		"cache {\n serve_stale\n serve_stale_policy newest\n}": `"newest" is not a policy; known is prefer_positive`,
		"cache {\n servfail\n}":                                `needs more arguments`,
		"cache {\n servfail 20\n}":                             `"20" is not a duration`,
		"cache {\n servfail 6m\n}":                             `6m0s is not within 0s and 5m0s`,
		"cache {\n servfail 1m invalid\n}":                     `takes no argument "invalid"`,
		"cache {\n disable all\n}":                             `"all" is not a kind of answer; known are success, denial`,
		"cache {\n disable success a..b\n}":                    `Corefile:2: cache: disable: "a..b" is not a zone`,
		"cache {\n keepttl yes\n}":                             `takes no argument "yes"`,
		"cache {\n keepttl\n keepttl\n}":                       `Corefile:3: cache: option "keepttl" appears more than once`,
	} {
		if _, err := cache.Parse(input(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func TestParseWarnsOfDurations(t *testing.T) {
	t.Parallel()
	in := input("cache 60s")
	var got string
	in.Warn = func(at directive.Arg, format string, args ...any) { got = fmt.Sprintf(format, args...) }
	o, err := cache.Parse(in)
	if err != nil || o.Zones[0] != "60s." || !strings.Contains(got, `"60s" is taken as a zone`) {
		t.Errorf("got %v, %v, warning %q", o.Zones, err, got)
	}
}

// answer gives every A question as many addresses, and names below nx.test. NXDOMAIN.
type answer struct{ addresses int }

func (a answer) Answer(r *server.Reply, q *server.Query) server.Verdict {
	m := new(dns.Msg)
	m.SetQuestion(q.Name.String(), dns.TypeA)
	m.Response, m.RecursionAvailable, m.Compress = true, true, true
	if strings.HasSuffix(m.Question[0].Name, ".nx.test.") {
		m.Rcode = dns.RcodeNameError
		m.Ns = append(m.Ns, &dns.SOA{Hdr: dns.RR_Header{Name: "nx.test.", Rrtype: dns.TypeSOA, Class: 1, Ttl: 60}, Ns: "ns.nx.test.", Mbox: "admin.nx.test.", Minttl: 60})
	} else {
		for i := range a.addresses {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeA, Class: 1, Ttl: 300}, A: []byte{192, 0, 2, byte(i)}})
		}
	}
	b, err := m.Pack()
	if err == nil {
		err = r.Splice(b, server.Splice{})
	}
	if err != nil {
		return r.Fail(err)
	}
	return server.Done
}

func block(c *cache.Cache, behind server.Handler) *server.Block {
	return servertest.Block(".", server.Stage{Name: "cache", Handler: c}, server.Stage{Name: "forward", Handler: behind})
}

func TestHitsTakeNoMemory(t *testing.T) {
	for _, corefile := range []string{"cache 30", "cache {\n prefetch 1000000\n serve_stale\n keepttl\n}"} {
		b := block(cache.New(parse(t, corefile), cache.NewMetrics(nil)), answer{4})
		b.Options.Shuffle = true
		servertest.NoAllocs(t, servertest.Query("www.example.org.", dns.TypeA, 1232), b)
		servertest.NoAllocs(t, servertest.Query("no.nx.test.", dns.TypeA, 1232), b)
	}
}

// fill asks n questions of different names.
func fill(t *testing.T, d *server.Direct, n int, pattern string) {
	t.Helper()
	for i := range n {
		if _, ok := d.Answer(servertest.Pack(t, servertest.Query(fmt.Sprintf(pattern, i), dns.TypeA, 1232)), servertest.Client, server.TCP); !ok {
			t.Fatal("no reply")
		}
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMemory keeps 100,000 replies of the size that is usual for outside names in a cluster: 40 bytes of name, four addresses.
func TestMemory(t *testing.T) {
	if testing.Short() || servertest.RaceEnabled {
		t.Skip("fills a cache with 100,000 entries and measures the heap")
	}
	const entries, limit = 100_000, 40_000_000
	// Shards do not fill evenly: room for a tenth more keeps all of them.
	c := cache.New(parse(t, fmt.Sprintf("cache {\n success %d\n}", entries*11/10)), cache.NewMetrics(nil))
	d := servertest.Direct(block(c, answer{4}))
	before := heap()
	fill(t, d, entries, "svc-%07d.production.eu.example.com.")
	got := heap() - before
	t.Logf("%d entries take %d bytes, %d each", entries, got, got/entries)
	if got > limit {
		t.Errorf("%d entries take %d bytes, want at most %d", entries, got, limit)
	}
	if kept := size(t, c, "coredns_cache_entries", "success"); kept < entries {
		t.Errorf("%v entries are kept, want %d", kept, entries)
	}
	if counted := size(t, c, "clusterdns_cache_bytes", "success"); counted < float64(got)*0.8 || counted > float64(got)*1.2 {
		t.Errorf("clusterdns_cache_bytes says %v, the heap grew by %d", counted, got)
	}
	runtime.KeepAlive(d)
}

// size reads a gauge of c, by a registry of the test's own.
func size(t *testing.T, c *cache.Cache, name, typ string) float64 {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	defer func() { cancel(); <-done }()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); runtime.Gosched() {
		if v, ok := gauge(t, c.Metrics(), name, typ); ok {
			return v
		}
	}
	t.Fatalf("there is no %s of type %s", name, typ)
	return 0
}

func gauge(t *testing.T, m prometheus.Collector, name, typ string) (float64, bool) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(m)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetName() == "type" && l.GetValue() == typ {
					return m.GetGauge().GetValue() + m.GetCounter().GetValue(), true
				}
			}
		}
	}
	return 0, false
}

func TestFloodHoldsTheCap(t *testing.T) {
	t.Parallel()
	c := cache.New(parse(t, "cache {\n success 1024\n denial 1024\n}"), cache.NewMetrics(nil))
	d := servertest.Direct(block(c, answer{2}))
	fill(t, d, 5000, "name-%d.example.org.")
	fill(t, d, 5000, "name-%d.nx.test.")
	for _, typ := range []string{"success", "denial"} {
		if n := size(t, c, "coredns_cache_entries", typ); n > 1024 || n < 900 {
			t.Errorf("%v entries of %s are kept, want 1024", n, typ)
		}
		if n, ok := gauge(t, c.Metrics(), "coredns_cache_evictions_total", typ); !ok || n < 3900 {
			t.Errorf("%v evictions of %s are counted, want 3976", n, typ)
		}
	}
}

// TestFloodOfHugeReplies: the cap in entries would let 1,024 replies of 16 KiB take 16 MiB.
func TestFloodOfHugeReplies(t *testing.T) {
	t.Parallel()
	c := cache.New(parse(t, "cache {\n success 1024\n}"), cache.NewMetrics(nil))
	d := servertest.Direct(block(c, answer{250}))
	fill(t, d, 3000, "name-%d.example.org.")
	if n := size(t, c, "clusterdns_cache_bytes", "success"); n > 1<<20 || n < 1<<19 {
		t.Errorf("the cache holds %v bytes, want about 1 MiB", n)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "cache {\n serve_stale\n prefetch 1\n}")
		ok := newScript(t, steps("upstream www.example.org. A NOERROR\n  answer www.example.org. 10 IN A 192.0.2.1")[0])
		ok.delay = 100 * time.Millisecond
		b.up.set("www.example.org. A", ok)
		b.up.set("lie.example.org. A", newScript(t, steps("upstream lie.example.org. A NOERROR question=x.org.\n  answer x.org. 10 IN A 192.0.2.1")[0]))
		b.ask("www.example.org.", "A")
		b.ask("www.example.org.", "A")
		b.ask("lie.example.org.", "A")
		b.ask("down.example.org.", "A")
		b.ask("down.example.org.", "A")
		<-time.After(9500 * time.Millisecond)
		b.ask("www.example.org.", "A") // prefetched
		b.ask("www.example.org.", "A") // meanwhile
		synctest.Wait()
		<-time.After(11 * time.Second)
		b.ask("www.example.org.", "A") // stale
		synctest.Wait()
		want := `
# HELP coredns_cache_drops_total Replies not kept because they answer another question than was asked.
# TYPE coredns_cache_drops_total counter
coredns_cache_drops_total{server="dns://:53",view="",zones="."} 1
# HELP coredns_cache_entries Entries in the cache.
# TYPE coredns_cache_entries gauge
coredns_cache_entries{server="dns://:53",type="denial",view="",zones="."} 1
coredns_cache_entries{server="dns://:53",type="success",view="",zones="."} 1
# HELP coredns_cache_evictions_total Entries that had to go because the cache was full.
# TYPE coredns_cache_evictions_total counter
coredns_cache_evictions_total{server="dns://:53",type="denial",view="",zones="."} 0
coredns_cache_evictions_total{server="dns://:53",type="success",view="",zones="."} 0
# HELP coredns_cache_hits_total Queries that the cache answered.
# TYPE coredns_cache_hits_total counter
coredns_cache_hits_total{server="dns://:53",type="denial",view="",zones="."} 1
coredns_cache_hits_total{server="dns://:53",type="success",view="",zones="."} 4
# HELP coredns_cache_misses_total Queries that the cache could not answer.
# TYPE coredns_cache_misses_total counter
coredns_cache_misses_total{server="dns://:53",view="",zones="."} 3
# HELP coredns_cache_prefetch_total Times that a popular entry was asked for again before it expired.
# TYPE coredns_cache_prefetch_total counter
coredns_cache_prefetch_total{server="dns://:53",view="",zones="."} 1
# HELP coredns_cache_requests_total Queries that were looked up in the cache.
# TYPE coredns_cache_requests_total counter
coredns_cache_requests_total{server="dns://:53",view="",zones="."} 8
# HELP coredns_cache_served_stale_total Queries that an expired entry answered.
# TYPE coredns_cache_served_stale_total counter
coredns_cache_served_stale_total{server="dns://:53",view="",zones="."} 1
`
		names := []string{"drops_total", "entries", "evictions_total", "hits_total", "misses_total", "prefetch_total", "requests_total", "served_stale_total"}
		for i := range names {
			names[i] = "coredns_cache_" + names[i]
		}
		if err := testutil.CollectAndCompare(b.metrics, strings.NewReader(want), names...); err != nil {
			t.Error(err)
		}
		if problems, err := testutil.CollectAndLint(b.metrics); err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
	})
}

// TestBurstCostsOneQuery: many clients ask for an expired name at once.
func TestBurstCostsOneQuery(t *testing.T) {
	t.Parallel()
	for _, corefile := range []string{"cache {\n serve_stale 1h verify\n}", "cache {\n serve_stale\n}"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, corefile)
			s := newScript(t, steps("upstream www.example.org. A NOERROR delay=200ms\n  answer www.example.org. 10 IN A 192.0.2.1")[0])
			b.up.set("www.example.org. A", s)
			b.ask("www.example.org.", "A")
			<-time.After(time.Minute)
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					d := servertest.Direct(b.block)
					m, ok := d.Answer(servertest.Pack(t, servertest.Query("www.example.org.", dns.TypeA, 1232)), servertest.Client, server.UDP)
					if !ok || m[3]&0xF != 0 || m[7] != 1 {
						t.Errorf("got %v %x", ok, m)
					}
				})
			}
			wg.Wait()
			<-time.After(time.Second)
			if n := b.up.asked(); n != 2 {
				t.Errorf("%s: %d upstream queries, want 2", corefile, n)
			}
		})
	}
}

// TestManyAtOnce is for the race detector: workers, refreshes, evictions and scrapes at once.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	c := cache.New(parse(t, "cache 1 {\n success 1024\n serve_stale 1h verify 1ms\n prefetch 1\n}"), cache.NewMetrics(nil))
	b := block(c, answer{1})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			d := servertest.Direct(b)
			for i := range 3000 {
				m := servertest.Query(fmt.Sprintf("n%d.example.org.", i*(w+1)%2000), dns.TypeA, 1232)
				if _, ok := d.Answer(servertest.Pack(t, m), servertest.Client, server.UDP); !ok {
					t.Error("no reply")
				}
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			gauge(t, c.Metrics(), "coredns_cache_entries", "success")
		}
	})
	wg.Wait()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestKeptOverReload: handlers of a new configuration go on with the entries of the old one's.
func TestKeptOverReload(t *testing.T) {
	t.Parallel()
	c := cache.New(parse(t, "cache 30"), cache.NewMetrics(nil))
	d := servertest.Direct(block(c, answer{1}))
	fill(t, d, 1, "www%d.example.org.")
	silent := servertest.Direct(block(c, server.Handler(answer{0})))
	m, _ := silent.Answer(servertest.Pack(t, servertest.Query("www0.example.org.", dns.TypeA, 0)), servertest.Client, server.UDP)
	if m[7] != 1 {
		t.Errorf("the entry is gone: %x", m)
	}
}

func BenchmarkHit(b *testing.B) {
	c := cache.New(parse(b, "cache 30"), cache.NewMetrics(nil))
	d := servertest.Direct(block(c, answer{4}))
	msg := servertest.Pack(b, servertest.Query("www.example.org.", dns.TypeA, 1232))
	d.Answer(msg, servertest.Client, server.UDP)
	b.ReportAllocs()
	for b.Loop() {
		d.Answer(msg, servertest.Client, server.UDP)
	}
}

func BenchmarkMiss(b *testing.B) {
	c := cache.New(parse(b, "cache 30"), cache.NewMetrics(nil))
	m := servertest.Query("00000000.example.org.", dns.TypeA, 1232)
	r := new(dns.Msg)
	r.SetReply(m)
	rr, err := dns.NewRR("00000000.example.org. 60 IN A 192.0.2.1")
	if err != nil {
		b.Fatal(err)
	}
	r.Answer, r.Compress = []dns.RR{rr}, true
	d := servertest.Direct(block(c, raw(servertest.Pack(b, r))))
	msg := servertest.Pack(b, m)
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		n++ // another name each time
		for i := range 8 {
			msg[13+i] = 'a' + byte(n>>(4*i))&15
		}
		d.Answer(msg, servertest.Client, server.UDP)
	}
}

// raw answers with a message whose question it makes the one that is asked.
type raw []byte

func (m raw) Answer(r *server.Reply, q *server.Query) server.Verdict {
	copy(m[12:], q.Name.Bytes())
	if err := r.Splice(m, server.Splice{}); err != nil {
		return r.Fail(err)
	}
	return server.Done
}

// renaming makes the handlers behind the cache look for another name.
type renaming struct{ to []byte }

func (h renaming) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if err := q.SetName(h.to); err != nil {
		return r.Fail(err)
	}
	return server.Pass
}

// TestRenamedBehindTheCache: an answer for another name than was looked up is kept under neither.
func TestRenamedBehindTheCache(t *testing.T) {
	t.Parallel()
	c := cache.New(parse(t, "cache"), cache.NewMetrics(nil))
	calls := 0
	counting := handlerFunc(func(*server.Reply, *server.Query) server.Verdict { calls++; return server.Pass })
	d := servertest.Direct(servertest.Block(".", server.Stage{Name: "cache", Handler: c}, server.Stage{Name: "rename", Handler: renaming{[]byte("\x03new\x00")}},
		server.Stage{Name: "count", Handler: counting}, server.Stage{Name: "forward", Handler: answer{1}}))
	for _, name := range []string{"old.", "old.", "new."} {
		if m, ok := d.Answer(servertest.Pack(t, servertest.Query(name, dns.TypeA, 0)), servertest.Client, server.UDP); !ok || m[7] != 1 {
			t.Errorf("%s: got %x", name, m)
		}
	}
	if calls != 3 {
		t.Errorf("forward was asked %d times, want 3", calls)
	}
}

type handlerFunc func(*server.Reply, *server.Query) server.Verdict

func (f handlerFunc) Answer(r *server.Reply, q *server.Query) server.Verdict { return f(r, q) }

// TestOverloadIsNoFailure: what the server itself could not do says nothing about a name.
func TestOverloadIsNoFailure(t *testing.T) {
	t.Parallel()
	c := cache.New(parse(t, "cache"), cache.NewMetrics(nil))
	block := servertest.Block(".", server.Stage{Name: "cache", Handler: c}, server.Stage{Name: "forward", Handler: waiting{}})
	limits := server.DefaultLimits()
	limits.Parked = 0
	m := servertest.Pack(t, servertest.Query("www.example.org.", dns.TypeA, 1232))
	if b, ok := server.New(limits, server.Hooks{}).Direct([]*server.Block{block}).Answer(m, servertest.Client, server.UDP); !ok || b[3]&0xF != dns.RcodeServerFailure {
		t.Fatalf("with no room to wait: got %x", b)
	}
	if b, ok := servertest.Direct(block).Answer(m, servertest.Client, server.UDP); !ok || b[3]&0xF != dns.RcodeSuccess {
		t.Errorf("with room again: got %x", b)
	}
}

// TestCrowdedIsNoFailure: nor does what forward has no room for.
func TestCrowdedIsNoFailure(t *testing.T) {
	t.Parallel()
	room := false
	forward := handlerFunc(func(r *server.Reply, q *server.Query) server.Verdict {
		if room {
			return answer{1}.Answer(r, q)
		}
		r.SetCause(fmt.Errorf("10.0.0.1:53 over udp: %w", server.ErrOverload))
		return r.Fail(nil)
	})
	c := cache.New(parse(t, "cache"), cache.NewMetrics(nil))
	d := servertest.Direct(servertest.Block(".", server.Stage{Name: "cache", Handler: c}, server.Stage{Name: "forward", Handler: forward}))
	m := servertest.Pack(t, servertest.Query("www.example.org.", dns.TypeA, 1232))
	for _, rcode := range []byte{dns.RcodeServerFailure, dns.RcodeSuccess} {
		if b, ok := d.Answer(m, servertest.Client, server.UDP); !ok || b[3]&0xF != rcode {
			t.Errorf("room %v: got %x", room, b)
		}
		room = true
	}
}

// waiting answers after a wait.
type waiting struct{}

func (waiting) Answer(*server.Reply, *server.Query) server.Verdict { return server.Wait }

func (waiting) AwaitAnswer(_ context.Context, r *server.Reply, q *server.Query) server.Verdict {
	return answer{1}.Answer(r, q)
}
