// Package ndots is the latency lab: it looks names up the way the resolvers of Pods do, with every value of ndots, and counts what that
// costs. The subcommand ndots and the console show what it finds.
package ndots

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// Query is one question of a lookup and what came back.
type Query struct {
	Name     string        `json:"name"`
	Type     string        `json:"type"`
	RCode    string        `json:"rcode"` // or "TIMEOUT"
	Upstream bool          `json:"upstream"`
	Start    time.Duration `json:"startNs"` // since the lookup began
	Took     time.Duration `json:"tookNs"`
	Bytes    int           `json:"bytes"` // of query and reply
	Attempts int           `json:"attempts"`
	outcome  Outcome
}

// Lookup is one name looked up once.
type Lookup struct {
	Name    string        `json:"name"`
	Outcome Outcome       `json:"outcome"`
	Took    time.Duration `json:"tookNs"`
	Queries []Query       `json:"queries"`
}

// Lab looks names up. Its fields are set before it is used, and not changed then.
type Lab struct {
	Server string // address and port
	Rules  Rules
	NDots  int
	Search []string
	// Zones are the cluster's own domains: a query outside them goes upstream.
	Zones []string
	// Delay is put before the reply to every query that goes upstream: a synthetic latency of the upstream.
	Delay time.Duration
}

// Lookup tries the candidates for name as the resolver does. It ends early only with ctx.
func (l *Lab) Lookup(ctx context.Context, name string) Lookup {
	begin := time.Now()
	out := Lookup{Name: name, Outcome: NXDomain}
	nodata, failed := false, false
	candidates := l.Rules.Candidates(name, l.NDots, l.Search)
	asIsFirst := candidates[0] == dns.Fqdn(name)
	for i := 0; i < len(candidates) && ctx.Err() == nil; {
		pair := [2]Query{{Name: candidates[i], Type: "A"}, {Name: candidates[i], Type: "AAAA"}}
		var wg sync.WaitGroup
		bursts := make([]atomic.Int64, l.Rules.Attempts)
		for k := range pair {
			wg.Go(func() { l.ask(ctx, &pair[k], begin, bursts) })
		}
		wg.Wait()
		out.Queries = append(out.Queries, pair[:]...)
		o := combine(pair[0].outcome, pair[1].outcome)
		nodata, failed = nodata || o == NoData || o == Lame, failed || o == Failed || o == Silent
		if o == Found {
			out.Outcome, out.Took = o, time.Since(begin)
			return out
		}
		i = l.Rules.Next(o, i, len(candidates), asIsFirst)
	}
	switch { // what resolvers report when nothing was found is the most hopeful of what they saw
	case failed:
		out.Outcome = Failed
	case nodata:
		out.Outcome = NoData
	}
	out.Took = time.Since(begin)
	return out
}

// ask sends one question, as often as the rules say. bursts count, by attempt, what both questions for a candidate sent again at once.
func (l *Lab) ask(ctx context.Context, q *Query, begin time.Time, bursts []atomic.Int64) {
	q.Start = time.Since(begin)
	q.Upstream = !l.inCluster(q.Name)
	q.outcome, q.RCode = Silent, "TIMEOUT"
	start := time.Now()
	for i := 0; i < l.Rules.Attempts && ctx.Err() == nil; i++ {
		end := time.Now().Add(l.Rules.Timeout)
		replied := l.attempt(ctx, q)
		for replied && q.outcome == Failed && bursts[i].Add(1) <= int64(l.Rules.Burst) {
			replied = l.attempt(ctx, q)
		}
		if replied && !slices.Contains(l.Rules.Again, q.outcome) {
			break
		}
		if replied && l.Rules.Burst > 0 {
			pause(ctx, time.Until(end))
		}
	}
	if q.Upstream && l.Delay > 0 {
		pause(ctx, l.Delay)
	}
	q.Took = time.Since(start)
}

// attempt sends a question once, and says whether there was a reply.
func (l *Lab) attempt(ctx context.Context, q *Query) bool {
	q.Attempts++
	reply, size := l.exchange(ctx, q)
	q.Bytes += size
	if reply == nil {
		return false
	}
	q.RCode, q.outcome = dns.RcodeToString[reply.Rcode], outcome(reply, dns.StringToType[q.Type])
	return true
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// exchange asks over UDP, and over TCP after a truncated reply.
func (l *Lab) exchange(ctx context.Context, q *Query) (reply *dns.Msg, size int) {
	m := new(dns.Msg)
	m.SetQuestion(q.Name, dns.StringToType[q.Type])
	ctx, cancel := context.WithTimeout(ctx, l.Rules.Timeout)
	defer cancel()
	for _, proto := range []string{"udp", "tcp"} {
		c := dns.Client{Net: proto, Timeout: l.Rules.Timeout}
		r, _, err := c.ExchangeContext(ctx, m, l.Server)
		size += m.Len()
		if err != nil {
			return nil, size
		}
		r.Compress = true
		size += r.Len()
		if !r.Truncated {
			return r, size
		}
	}
	return nil, size
}

// outcome is what a reply to a question of type asked says.
func outcome(m *dns.Msg, asked uint16) Outcome {
	switch {
	case m.Rcode == dns.RcodeNameError:
		return NXDomain
	case m.Rcode != dns.RcodeSuccess:
		return Failed
	}
	if slices.ContainsFunc(m.Answer, func(rr dns.RR) bool { return rr.Header().Rrtype == asked }) {
		return Found
	}
	if !m.Authoritative && !m.RecursionAvailable && len(m.Answer)+len(m.Extra) == 0 {
		return Lame
	}
	return NoData
}

func (l *Lab) inCluster(name string) bool {
	return slices.ContainsFunc(l.Zones, func(z string) bool { return dns.IsSubDomain(dns.Fqdn(z), strings.ToLower(name)) })
}

// Found says whether the reply had a record of the type asked for.
func (q *Query) Found() bool { return q.outcome == Found }
