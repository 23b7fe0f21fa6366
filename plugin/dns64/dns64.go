// Package dns64 is the directive of that name: for clients that have IPv6 only, behind a NAT64, it makes AAAA records of the A records of
// names that have no AAAA (RFC 6147).
package dns64

import (
	"context"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/metrics"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// maxTTL bounds the TTL of records whose AAAA question was answered without an SOA record (RFC 6147 5.1.7).
const maxTTL = 600

// Options are those of the directive.
type Options struct {
	Prefix       netip.Prefix
	TranslateAll bool // names with AAAA records too
	AllowIPv4    bool // clients that ask over IPv4 too
}

// Rows are the directive's options.
func Rows() []directive.Option[Options] {
	return []directive.Option[Options]{
		{Name: "prefix", Usage: "PREFIX", Min: 1, Max: 1, Help: "prefix of the addresses that are made; 64:ff9b::/96 by default",
			Set: func(o *Options, l *directive.Line) error { return setPrefix(o, l.Args[0]) }},
		{Name: "translate_all", Help: "makes AAAA records of A records although the name has AAAA records",
			Set: func(o *Options, _ *directive.Line) error { o.TranslateAll = true; return nil }},
		{Name: "allow_ipv4", Help: "for clients that ask over IPv4 too",
			Set: func(o *Options, _ *directive.Line) error { o.AllowIPv4 = true; return nil }},
	}
}

// Parse reads the directive.
func Parse(in *directive.Input) (Options, error) {
	o := Options{Prefix: netip.MustParsePrefix("64:ff9b::/96")}
	switch len(in.Args) {
	case 0:
	case 1:
		if err := setPrefix(&o, in.Args[0]); err != nil {
			return o, err
		}
	default:
		return o, in.Args[1].Errorf("dns64: takes one prefix, found %q as well", in.Args[1].Text)
	}
	return o, directive.ParseOptions(in, &o, Rows())
}

func setPrefix(o *Options, a directive.Arg) error {
	p, err := netip.ParsePrefix(a.Text)
	if err != nil || !p.Addr().Is6() || p.Addr().Is4In6() {
		return a.Errorf("dns64: %q is not an IPv6 prefix such as 64:ff9b::/96", a.Text)
	}
	switch p.Bits() {
	case 32, 40, 48, 56, 64, 96:
	default:
		return a.Errorf("dns64: the length of %s is not 32, 40, 48, 56, 64 or 96 (RFC 6052 2.2)", p)
	}
	o.Prefix = p.Masked()
	return nil
}

// Metrics is the directive's counter.
type Metrics struct{ translated *prometheus.CounterVec }

// NewMetrics makes it and registers it, once per process.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	return &Metrics{metrics.Register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "coredns_dns64_requests_translated_total", Help: "Queries that were answered with AAAA records made of A records."}, []string{"server"}))}
}

// DNS64 answers AAAA questions. It stands behind kubernetes, whose answers are never translated: what a Pod reaches in its cluster does
// not pass a NAT64.
type DNS64 struct {
	o       Options
	metrics *Metrics
	counts  metrics.PerBlock[prometheus.Counter]
}

// New makes the handler. m may be nil.
func New(o Options, m *Metrics) *DNS64 {
	h := &DNS64{o: o, metrics: m}
	h.counts.Resolve = func(b *server.Block) prometheus.Counter { return m.translated.WithLabelValues(b.Server) }
	return h
}

// Answer says Wait to AAAA questions of the clients that it is for, and passes all others. A client that checks signatures
// itself would take a made record for a forged one (RFC 6147 5.5).
func (h *DNS64) Answer(_ *server.Reply, q *server.Query) server.Verdict {
	if q.Type != wire.TypeAAAA || q.Class != wire.ClassIN || q.EDNS.DO && q.CD() {
		return server.Pass
	}
	if !h.o.AllowIPv4 && q.Client.Addr().Unmap().Is4() {
		return server.Pass
	}
	return server.Wait
}

// AwaitAnswer asks the handlers behind for AAAA records and, where there are none, for A records.
func (h *DNS64) AwaitAnswer(ctx context.Context, r *server.Reply, q *server.Query) server.Verdict {
	six := h.ask(ctx, q, wire.TypeAAAA)
	rrs, err := server.Records(six.Msg)
	if err != nil {
		return r.Fail(err)
	}
	// Only a name that exists without AAAA records is looked up again; an error stays one (RFC 6147 5.1.2).
	if six.RCode() != wire.RCodeNoError || !h.o.TranslateAll && has(rrs, wire.TypeAAAA) {
		return splice(r, six)
	}
	four := h.ask(ctx, q, wire.TypeA)
	made, err := server.Records(four.Msg)
	if err != nil || four.RCode() != wire.RCodeNoError || !has(made, wire.TypeA) {
		return splice(r, six)
	}
	h.write(r, made, negative(rrs))
	r.SetFlags(wire.Flags(uint16(four.Msg[2])<<8|uint16(four.Msg[3])) & (wire.FlagAA | wire.FlagRA))
	if h.metrics != nil {
		h.counts.Of(q).Inc()
	}
	return server.Done
}

// write puts the answer to an A question into the reply, with AAAA records for its A records.
func (h *DNS64) write(r *server.Reply, rrs []server.Record, limit uint32) {
	for i := range rrs {
		rr := &rrs[i]
		if rr.Section != server.Answer {
			return
		}
		if rr.Type == wire.TypeA && len(rr.Data) == 4 {
			rr.Type, rr.TTL = wire.TypeAAAA, min(rr.TTL, limit)
			rr.Data = Embed(h.o.Prefix, [4]byte(rr.Data))
		}
		r.Record(rr)
	}
}

func (h *DNS64) ask(ctx context.Context, q *server.Query, t wire.Type) *server.Packed {
	return q.Rest().Exchange(ctx, q.OnBehalf(q.Name.Bytes(), t))
}

// splice passes a reply on as it is.
func splice(r *server.Reply, p *server.Packed) server.Verdict {
	for _, err := range p.Faults {
		r.Fault(err)
	}
	for _, e := range p.EDE {
		r.AddEDE(e.Code, e.Text)
	}
	if err := r.Splice(p.Msg, server.Splice{Flags: wire.FlagAA | wire.FlagRA | wire.FlagAD}); err != nil {
		return r.Fail(err)
	}
	return server.Done
}

// has says whether the answer has records of a type. IPv4-mapped addresses do not count as AAAA (RFC 6147 5.1.4).
func has(rrs []server.Record, t wire.Type) bool {
	for i := range rrs {
		rr := &rrs[i]
		if rr.Section != server.Answer || rr.Type != t {
			continue
		}
		if a, ok := netip.AddrFromSlice(rr.Data); ok && !a.Is4In6() {
			return true
		}
	}
	return false
}

// negative is how long the answer without AAAA records holds.
func negative(rrs []server.Record) uint32 {
	for i := range rrs {
		if rr := &rrs[i]; rr.Section == server.Authority && rr.Type == wire.TypeSOA {
			return rr.TTL
		}
	}
	return maxTTL
}

// Embed puts an IPv4 address into a prefix. Bits 64 to 71 stay zero (RFC 6052 2.2).
func Embed(p netip.Prefix, v4 [4]byte) []byte {
	out := p.Addr().As16()
	at := p.Bits() / 8
	for _, b := range v4 {
		if at == 8 {
			at++
		}
		out[at] = b
		at++
	}
	return out[:]
}
