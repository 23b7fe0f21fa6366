// Package local is the directive of that name: it answers for names that mean the machine itself, so that they do not leave it (RFC 6761
// 6.3, RFC 6303 4.2).
package local

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/metrics"
	"github.com/clusterdns/clusterdns/plugin/internal/zones"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Options are those of a local directive.
type Options struct {
	LocalhostPrefix directive.Switch // localhost with a domain behind it is the machine itself as well
}

// Rows are the directive's options.
func Rows() []directive.Option[Options] {
	return []directive.Option[Options]{
		{Name: "localhost_prefix", Usage: "on|off", Min: 1, Max: 1, Help: "whether localhost with a domain behind it is the machine itself; on by default",
			Set: func(o *Options, l *directive.Line) (err error) {
				o.LocalhostPrefix, err = l.Args[0].Switch()
				return err
			}},
	}
}

// Parse reads the directive.
func Parse(in *directive.Input) (Options, error) {
	o := Options{LocalhostPrefix: true}
	if err := in.NoArgs(); err != nil {
		return o, err
	}
	return o, directive.ParseOptions(in, &o, Rows())
}

// Metrics is the directive's counter.
type Metrics struct{ localhost prometheus.Counter }

// NewMetrics makes it and registers it, once per process.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	return &Metrics{metrics.Register(reg, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "coredns_local_localhost_requests_total", Help: "Queries for localhost with a domain behind it, or for names under localhost."}))}
}

const (
	localhost = "\x09localhost\x00"
	// ttl is a week: what is said here never changes.
	ttl = 604800
)

// Local answers for the local zones.
type Local struct {
	zones   zones.Set
	prefix  bool
	metrics *Metrics
}

// New makes the handler. m may be nil.
func New(o Options, m *Metrics) *Local {
	return &Local{zones.New([]string{"localhost.", "0.in-addr.arpa.", "127.in-addr.arpa.", "255.in-addr.arpa."}), bool(o.LocalhostPrefix), m}
}

// Answer answers for the local zones, and for localhost with a search domain behind it.
func (l *Local) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if q.Class != wire.ClassIN && q.Class != wire.ClassANY {
		return server.Pass
	}
	zone, labels, ok := l.zones.Find(&q.Name)
	host := zone.Name() == localhost
	if !ok {
		if host = l.prefix && completed(q); !host {
			return server.Pass
		}
	}
	l.reply(r, q, host)
	if ok && labels == 0 {
		apex(r, q, zone)
	}
	if r.Count(server.Answer) > 0 {
		return server.Done
	}
	owner := []byte(zone.Name())
	if !ok {
		owner = q.Name.Bytes() // a negative answer needs the SOA of a name above the one asked for (RFC 2308 3)
	}
	soa(r, server.Authority, owner)
	return server.Done
}

// completed says whether somebody appended a domain to localhost.
func completed(q *server.Query) bool {
	return q.Name.Labels() > 1 && string(q.Name.Label(0)) == "localhost"
}

// reply answers what a name other than a zone's has.
func (l *Local) reply(r *server.Reply, q *server.Query, host bool) {
	r.SetAA()
	if host {
		if q.Name.Labels() > 1 && l.metrics != nil {
			l.metrics.localhost.Inc()
		}
		addresses(r, q)
	} else if !reverse(r, q) {
		r.SetRCode(wire.RCodeNXDomain)
	}
}

// addresses answers what localhost has.
func addresses(r *server.Reply, q *server.Query) {
	switch q.Type {
	case wire.TypeA:
		r.A(server.Answer, server.Owner, ttl, [4]byte{127, 0, 0, 1})
	case wire.TypeAAAA:
		r.AAAA(server.Answer, server.Owner, ttl, [16]byte{15: 1})
	}
}

// loopback is the one name with a record among the reverse zones.
const loopback = "\x011\x010\x010\x03127\x07in-addr\x04arpa\x00"

// reverse answers what a name of the reverse zones has, and says whether it exists: 1.0.0.127.in-addr.arpa, the empty names above it, and
// the zones themselves.
func reverse(r *server.Reply, q *server.Query) (exists bool) {
	name := string(q.Name.Folded())
	if name == loopback && q.Type == wire.TypePTR {
		r.PTR(server.Owner, ttl, []byte(localhost))
	}
	return strings.HasSuffix(loopback, name) || q.Name.Labels() == 3
}

// apex answers what a zone's own name has.
func apex(r *server.Reply, q *server.Query, zone wire.Zone) {
	switch q.Type {
	case wire.TypeSOA:
		soa(r, server.Answer, []byte(zone.Name()))
	case wire.TypeNS:
		r.Begin(server.Answer, server.Owner, wire.TypeNS, ttl)
		r.PutName([]byte(localhost))
		r.End()
	}
}

func soa(r *server.Reply, s server.Section, owner []byte) {
	r.SOA(s, owner, ttl, &server.SOA{MName: []byte(localhost), RName: []byte("\x04root\x09localhost\x00"), Serial: 1, Negative: ttl})
}
