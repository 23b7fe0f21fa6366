package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Deps are what a Kubernetes needs of its surroundings. All may be nil.
type Deps struct {
	Log *slog.Logger
	// Local are the addresses at which this server is reached: the NS records of a zone name the Service whose endpoints they are. It is
	// called for such questions only.
	Local func() []netip.Addr
	// Metrics show the age of answers that come from a snapshot.
	Metrics *SourceMetrics
}

// Kubernetes answers the names of a cluster from an Index that its Source fills. It is a server.Handler, server.Runner,
// server.Readiness, server.MetadataProvider and server.Finisher.
type Kubernetes struct {
	*Index
	opts        Options
	ignoreEmpty bool        // without endpoints, a Service does not exist
	zones       []wire.Zone // longest first
	primary     wire.Zone
	source      Source
	log         *slog.Logger
	local       func() []netip.Addr
	snapshot    *snapshotter // nil without the option
	metrics     *SourceMetrics

	searches searches
}

// errNotSynced is why cluster names fail before the first sync.
var errNotSynced = errors.New("the cluster's objects have not been read yet")

// New makes a Kubernetes. source may be nil for one whose Index is filled by other means.
func New(o Options, source Source, d Deps) *Kubernetes {
	k := &Kubernetes{
		Index:       newIndex(&o),
		opts:        o,
		ignoreEmpty: o.IgnoreEmpty && o.Endpoints,
		zones:       slices.Clone(o.Zones),
		source:      source,
		log:         d.Log,
		local:       d.Local,
		metrics:     d.Metrics,
	}
	if k.log == nil {
		k.log = slog.New(slog.DiscardHandler)
	}
	if i := o.primary(); i >= 0 {
		k.primary = o.Zones[i]
	}
	if o.Snapshot != "" {
		k.snapshot = newSnapshotter(&o, k.Index, k.log)
	}
	slices.SortStableFunc(k.zones, func(a, b wire.Zone) int { return b.Labels() - a.Labels() })
	return k
}

// Options are those that it was made with.
func (k *Kubernetes) Options() Options { return k.opts }

// Zones are those that it answers, as the directive orders them.
func (k *Kubernetes) Zones() []wire.Zone { return k.opts.Zones }

// Ready says whether the cluster's objects have been read once.
func (k *Kubernetes) Ready() bool { return k.complete.Load() }

// Synced is closed when Ready becomes true.
func (k *Kubernetes) Synced() <-chan struct{} { return k.whole }

// Run reads the cluster until ctx ends. An error before Ready means that waiting will not heal it.
func (k *Kubernetes) Run(ctx context.Context) error {
	if k.source == nil {
		<-ctx.Done()
		return nil
	}
	if k.snapshot == nil {
		return k.source.Run(ctx, k.Index)
	}
	if k.metrics != nil {
		defer k.metrics.trackSnapshot(k.snapshot)()
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { k.snapshot.run(ctx) })
	return k.source.Run(ctx, k.Index)
}

// zone finds the zone of a query and how many labels stand before it.
func (k *Kubernetes) zone(q *server.Query) (z wire.Zone, labels int, ok bool) {
	for _, z := range k.zones {
		if n, in := q.Name.Cut(z); in {
			return z, n, true
		}
	}
	return wire.Zone{}, 0, false
}

// falls says whether a name that does not exist goes on down the chain.
func (k *Kubernetes) falls(q *server.Query) bool {
	for _, z := range k.opts.Fallthrough {
		if _, in := q.Name.Cut(z); in {
			return true
		}
	}
	return false
}

// Answer implements server.Handler.
func (k *Kubernetes) Answer(r *server.Reply, q *server.Query) server.Verdict {
	z, n, ok := k.zone(q)
	if !ok || q.Class != wire.ClassIN && q.Class != wire.ClassANY {
		return server.Pass
	}
	if !k.synced.Load() {
		return k.notSynced(r)
	}
	v := k.answer(r, q, z, n)
	if k.stale.Load() && v != server.Pass {
		r.MarkStale(staleText)
	}
	return v
}

// answer answers a query in zone z, before which n labels stand.
func (k *Kubernetes) answer(r *server.Reply, q *server.Query, z wire.Zone, n int) server.Verdict {
	a := asked{k: k, r: r, q: q, zone: n, apex: server.NoRef}
	if bytes.HasPrefix(q.Question(), q.Name.Bytes()) {
		a.apex = r.Sub(n)
	}
	if n == 0 {
		return a.answerApex(z)
	}
	switch {
	case q.Type == wire.TypeAXFR || q.Type == wire.TypeIXFR:
		r.SetRCode(wire.RCodeRefused)
		return server.Done
	case isArpa(&q.Name):
		return a.answerReverse()
	}
	return a.answerName()
}

// notSynced fails a query, with a reason for those who can read it. It is never NXDOMAIN, which clients would remember.
func (k *Kubernetes) notSynced(r *server.Reply) server.Verdict {
	r.AddEDE(server.EDENotReady, errNotSynced.Error())
	return r.Fail(errNotSynced)
}

// asked is one query in one zone while it is answered. It lives on the stack.
type asked struct {
	k    *Kubernetes
	r    *server.Reply
	q    *server.Query
	zone int        // labels before the zone
	apex server.Ref // where the zone stands in the question, in the letters of the client; NoRef if the name is not the question's
	tail server.Ref // where svc and the primary zone stand in the reply, for PTR records; NoRef if nowhere
}

// label is label i of the name.
func (a *asked) label(i int) []byte { return a.q.Name.Label(i) }

// zoneName is the zone in the letters of the client.
func (a *asked) zoneName() []byte { return a.q.Name.Bytes()[a.q.Name.Offset(a.zone):] }

// done completes a reply that has an answer.
func (a *asked) done() server.Verdict {
	a.r.SetAA()
	return server.Done
}

// nodata says that the name exists without the type (RFC 2308 2.2).
func (a *asked) nodata() server.Verdict {
	if a.r.WantsEDE() && a.r.RCode() == wire.RCodeNoError {
		a.explainNodata()
	}
	a.soa(server.Authority)
	return a.done()
}

// missing says that the name does not exist, or passes it on.
func (a *asked) missing(why reason) server.Verdict {
	if a.k.falls(a.q) {
		return server.Pass
	}
	a.r.SetRCode(wire.RCodeNXDomain)
	if a.r.WantsEDE() {
		a.explain(why)
	}
	return a.nodata()
}

// The timers of the zone's SOA record are CoreDNS's; nobody transfers the zone by them.
const (
	soaRefresh = 7200
	soaRetry   = 1800
	soaExpire  = 86400
	maxSOATTL  = 300
)

// soa appends the zone's SOA record.
func (a *asked) soa(s server.Section) {
	r, ttl := a.r, a.k.opts.TTL
	zone := a.apex
	if zone == server.NoRef {
		zone = r.BeginName(s, a.zoneName(), wire.TypeSOA, min(ttl, maxSOATTL))
	} else {
		r.Begin(s, zone, wire.TypeSOA, min(ttl, maxSOATTL))
	}
	r.PutString("\x02ns\x03dns")
	r.PutLabels(nil, zone)
	r.PutString("\x0ahostmaster")
	r.PutLabels(nil, zone)
	r.PutUint32(a.k.serial.Load())
	r.PutUint32(soaRefresh)
	r.PutUint32(soaRetry)
	r.PutUint32(soaExpire)
	r.PutUint32(ttl)
	r.End()
}

// putZone ends a name, whose labels before the zone have been written, with the zone.
func (a *asked) putZone() {
	if a.apex != server.NoRef {
		a.r.PutLabels(nil, a.apex)
		return
	}
	a.r.PutName(a.zoneName())
}
