// Package forward answers queries by asking other servers: the forward directive.
//
// A query (call.go) is asked once for all who want to know the same (flight.go) by an exchange (exchange.go): a few attempts at upstream servers, the
// next one begun when the one before takes longer than its upstream usually does (rtt.go). Attempts leave by UDP sockets (udp.go) or
// connections (stream.go), which hand the reply that fits back to the exchange. Nothing of that has a goroutine: whoever reads the reply answers
// the queries that wait for it. Upstreams in trouble are probed (health.go), and the
// list of them follows the files and names that it comes from (source.go).
package forward

import (
	"cmp"
	"log/slog"
	"slices"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// taken are the flags that an upstream's reply decides about.
const taken = wire.FlagAA | wire.FlagRA | wire.FlagAD

// Forward is all forward lines of one server block. It implements server.Parker, server.Runner and server.MetadataProvider.
type Forward struct {
	groups []*group // those with the longest zone first, else in the order written
	life   *lifetime
	states *states
}

// New makes a handler of the forward lines of a server block. It opens nothing: what is asked before Run has read the files that
// lines name waits for that.
func New(lines []Options, m *Metrics, log *slog.Logger) *Forward {
	return newForward(lines, m, log, dialSystem)
}

func newForward(lines []Options, m *Metrics, log *slog.Logger, dial dialer) *Forward {
	f := &Forward{life: new(lifetime), states: &m.states}
	for _, o := range lines {
		f.groups = append(f.groups, newGroup(o, m, log, dial, f.life))
	}
	slices.SortStableFunc(f.groups, func(a, b *group) int {
		return cmp.Compare(b.opts.From[0].Labels(), a.opts.From[0].Labels())
	})
	return f
}

// Answer implements server.Handler. It never answers by itself but for what it refuses.
func (f *Forward) Answer(r *server.Reply, q *server.Query) server.Verdict {
	g := f.from(0, q)
	if g < 0 {
		return server.Pass
	}
	if q.Type == wire.TypeAXFR || q.Type == wire.TypeIXFR {
		// A zone comes in many messages, of which one would be passed on (RFC 5936 2.2).
		r.SetRCode(wire.RCodeNotImp)
		return server.Done
	}
	if f.groups[g].full() {
		return f.groups[g].refuse(r)
	}
	return server.Wait
}

// from gives the first line at or behind i that takes q, or -1.
func (f *Forward) from(i int, q *server.Query) int {
	for ; i < len(f.groups); i++ {
		if f.groups[i].takes(q) {
			return i
		}
	}
	return -1
}

// labelUpstream is the label of metadata that CoreDNS has.
const labelUpstream = "forward/upstream"

// Metadata implements server.MetadataProvider: which upstream's reply the answer is made of, "" if it is made of none.
func (f *Forward) Metadata(q *server.Query, label string) (value string, known bool) {
	if label != labelUpstream {
		return "", false
	}
	return q.Upstream, true
}

// refuse answers a query over max_concurrent.
func (g *group) refuse(r *server.Reply) server.Verdict {
	g.metrics.rejects.Inc()
	r.SetRCode(wire.RCodeRefused)
	r.AddEDE(server.EDEOther, "too many queries wait for upstream servers")
	return server.Done
}

// goesOn says whether the next line is to be asked. An upstream that cannot be reached counts as SERVFAIL.
func (g *group) goesOn(res *result) bool {
	if g.next == 0 && !g.opts.NextOnNoData {
		return false
	}
	if res.err != nil {
		return g.next.has(wire.RCodeServFail)
	}
	return g.next.has(rcodeOf(res.msg)) || g.opts.NextOnNoData && noData(res.msg)
}

// answer makes the reply of what came of the question. Failures are the upstreams', which have lines of their own in the log: they are
// no fault of the query.
func (g *group) answer(r *server.Reply, q *server.Query, res *result) server.Verdict {
	err := res.err
	q.Upstream = res.from
	if err == nil && res.partial && q.Transport != server.UDP {
		err = errCut
	}
	if err != nil {
		if r.WantsEDE() {
			r.AddEDE(server.EDENoReachable, err.Error())
		}
		r.SetCause(err)
		return r.Fail(nil)
	}
	if err := r.Splice(res.msg, server.Splice{Flags: taken}); err != nil {
		return r.Fail(err)
	}
	if res.partial {
		r.SetFlags(wire.FlagTC)
	}
	ednsErrors(r, res.msg)
	return server.Done
}
