// Command failover measures what clients feel of an upstream that is silent: it serves a forward line with two upstream servers on
// loopback, one of which answers nothing, asks queries of different names, and prints how many failed and how long they took.
// It exits with 1 if one failed or if, from the fifth query on, the 99th percentile is 300 ms or more.
//
//	go run ./test/failover [-n 2000] [-clients 1] [-policy random]
//
// -server ADDR measures another DNS server instead, which is to forward to the addresses that are printed.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/forward"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// The figures that have to be met.
const (
	warmUp = 4 // queries that may still find out
	limit  = 300 * time.Millisecond
)

type config struct {
	queries, clients int
	policy, other    string
	failures         bool // the silent upstream falls silent half-way
}

func main() {
	var c config
	flag.IntVar(&c.queries, "n", 2000, "queries in all")
	flag.IntVar(&c.clients, "clients", 1, "clients that ask at the same time, each one query after the other")
	flag.StringVar(&c.policy, "policy", "random", "policy of the forward line")
	flag.StringVar(&c.other, "server", "", "address of another server to measure")
	flag.BoolVar(&c.failures, "midway", false, "let the upstream fall silent half-way instead of from the start")
	flag.Parse()
	ok, err := run(c)
	if err != nil {
		fmt.Fprintln(os.Stderr, "failover:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func run(c config) (ok bool, err error) {
	var mute atomic.Bool
	mute.Store(!c.failures)
	silent, err := upstream(&mute)
	if err != nil {
		return false, err
	}
	good, err := upstream(new(atomic.Bool))
	if err != nil {
		return false, err
	}
	addr := c.other
	if addr == "" {
		if addr, err = serve(c.policy, silent, good); err != nil {
			return false, err
		}
	} else {
		fmt.Printf("let %s forward to %s and %s, then press return\n", addr, silent, good)
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
			return false, err
		}
	}
	return report(c, ask(c, addr, &mute)), nil
}

// upstream is a DNS server on loopback that answers every name, unless it is mute.
func upstream(mute *atomic.Bool) (string, error) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	h := dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
		if mute.Load() {
			return
		}
		r := new(dns.Msg).SetReply(m)
		r.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, 1)}}
		_ = w.WriteMsg(r) // a reply that cannot be sent shows as a failure of its query
	})
	s := &dns.Server{PacketConn: pc, Handler: h}
	go func() {
		if err := s.ActivateAndServe(); err != nil {
			fmt.Fprintln(os.Stderr, "failover: upstream:", err)
		}
	}()
	return pc.LocalAddr().String(), nil
}

// serve starts the server under test in this process.
func serve(policy string, upstreams ...string) (string, error) {
	arg := func(s string) directive.Arg { return directive.Arg{Text: s, File: "failover", Line: 1} }
	in := &directive.Input{Line: directive.Line{
		Name: arg("forward"), Args: []directive.Arg{arg("."), arg(upstreams[0]), arg(upstreams[1])}, HasBlock: true,
		Lines: []directive.Line{{Name: arg("policy"), Args: []directive.Arg{arg(policy)}}},
	}}
	o, err := forward.Parse(in)
	if err != nil {
		return "", err
	}
	f := forward.New([]forward.Options{o}, forward.NewMetrics(nil), slog.New(slog.NewTextHandler(os.Stdout, nil)))
	go func() {
		if err := f.Run(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "failover:", err)
		}
	}()
	s := server.New(server.DefaultLimits(), server.Hooks{})
	block := &server.Block{Zone: wire.NewZone(wire.Root), ZoneName: ".", Server: "dns://:53", Chain: []server.Stage{{Name: "forward", Handler: f}}}
	if err := s.Apply([]server.Listener{{Host: "127.0.0.1", Port: "0", Blocks: []*server.Block{block}}}); err != nil {
		return "", err
	}
	return s.Addrs()["127.0.0.1:0"].String(), nil
}

// outcome is what became of one query.
type outcome struct {
	number int
	took   time.Duration
	failed string
}

func ask(c config, addr string, mute *atomic.Bool) []outcome {
	var next atomic.Int64
	out := make([]outcome, c.queries)
	var wg sync.WaitGroup
	for range c.clients {
		wg.Go(func() {
			client := dns.Client{Timeout: 5 * time.Second} // what resolvers wait for
			for i := int(next.Add(1)) - 1; i < c.queries; i = int(next.Add(1)) - 1 {
				if i == c.queries/2 {
					mute.Store(true)
				}
				m := new(dns.Msg).SetQuestion(fmt.Sprintf("n%d.example.org.", i), dns.TypeA)
				begin := time.Now()
				r, _, err := client.Exchange(m, addr)
				o := outcome{number: i, took: time.Since(begin)}
				switch {
				case err != nil:
					o.failed = err.Error()
				case r.Rcode != dns.RcodeSuccess || len(r.Answer) != 1:
					o.failed = dns.RcodeToString[r.Rcode]
				}
				out[i] = o
			}
		})
	}
	wg.Wait()
	return out
}

func report(c config, all []outcome) bool {
	failed := 0
	for _, o := range all {
		if o.failed != "" {
			failed++
			fmt.Printf("query %d failed after %v: %s\n", o.number+1, o.took, o.failed)
		}
	}
	var early []string
	for _, o := range all[:min(warmUp, len(all))] {
		early = append(early, o.took.Round(100*time.Microsecond).String())
	}
	rest := slices.Clone(all[min(warmUp, len(all)):])
	slices.SortFunc(rest, func(a, b outcome) int { return int(a.took - b.took) })
	at := func(q float64) time.Duration { return rest[int(q*float64(len(rest)-1))].took }
	fmt.Printf("%d queries, %d clients, policy %s, midway %v: %d failed\n", c.queries, c.clients, c.policy, c.failures, failed)
	fmt.Printf("first %d: %s\n", warmUp, strings.Join(early, ", "))
	fmt.Printf("from the fifth on: p50 %v, p90 %v, p99 %v, p99.9 %v, max %v\n", at(0.5), at(0.9), at(0.99), at(0.999), at(1))
	return failed == 0 && at(0.99) < limit
}
