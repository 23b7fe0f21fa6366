package ratelimit

import (
	"crypto/rand"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// amplification is how many times longer than the query a reply to an unproven address may be: longer ones are truncated, and a real client
// asks again over TCP, or has a cookie.
const amplification = 4

// Metrics count what the directive did.
type Metrics struct {
	limited *prometheus.CounterVec
}

// NewMetrics registers the metrics; it is called once a process.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{limited: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "clusterdns_ratelimit_queries_total",
		Help: "Queries over a client's limit by what they got: nothing (dropped), an empty truncated reply (truncated), or REFUSED (refused, over TCP).",
	}, []string{"action"})}
	reg.MustRegister(m.limited)
	return m
}

// Handler stands at the front of a chain.
type Handler struct {
	o         Options
	buckets   *buckets
	secret    secret
	slip      atomic.Uint64
	dropped   prometheus.Counter
	truncated prometheus.Counter
	refused   prometheus.Counter
}

// New makes the handler. It reads the file of the secret, once; an error names it.
func New(o Options, m *Metrics) (*Handler, error) {
	h := &Handler{
		o: o, buckets: newBuckets(o.Rate, o.Burst, time.Now()),
		dropped:   m.limited.WithLabelValues("dropped"),
		truncated: m.limited.WithLabelValues("truncated"),
		refused:   m.limited.WithLabelValues("refused"),
	}
	var key [secretLen]byte
	_, _ = rand.Read(key[:]) // it never fails (crypto/rand)
	if o.Secret != "" {
		var err error
		if key, err = readSecret(o.Secret); err != nil {
			return nil, err
		}
	}
	h.secret = newSecret(key)
	return h, nil
}

// Answer lets a query pass that is within its client's limit.
func (h *Handler) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if q.Transport == server.Internal || q.Followed() {
		return server.Pass
	}
	proven := q.Transport != server.UDP
	if h.o.Cookies {
		ok, malformed := h.cookie(r, q)
		if malformed {
			r.SetRCode(wire.RCodeFormErr)
			return server.Done
		}
		proven = proven || ok
	}
	addr := q.Client.Addr()
	if h.exempt(addr) {
		return server.Pass
	}
	if !proven {
		r.LimitSize(amplification * q.Size())
	}
	bits := h.o.Prefix6
	if addr.Is4() {
		bits = h.o.Prefix4
	}
	client, err := addr.Prefix(bits)
	if err != nil || h.buckets.take(client, q.Received) {
		return server.Pass
	}
	return h.over(r, q)
}

// over treats a query over the limit.
func (h *Handler) over(r *server.Reply, q *server.Query) server.Verdict {
	switch {
	case q.Transport != server.UDP:
		h.refused.Inc()
		r.SetRCode(wire.RCodeRefused)
		if r.WantsEDE() {
			r.AddEDE(server.EDEProhibited, "over the rate limit of this client")
		}
		return server.Done
	case h.o.Slip > 0 && h.slip.Add(1)%uint64(h.o.Slip) == 0:
		h.truncated.Inc()
		r.SetFlags(wire.FlagTC)
		return server.Done
	}
	h.dropped.Inc()
	return server.Drop
}

// cookie answers a client's cookie with ours and says whether it brought one of ours along (RFC 7873 5.2).
func (h *Handler) cookie(r *server.Reply, q *server.Query) (ok, malformed bool) {
	c, found := q.EDNS.Option(optCookie)
	if !found {
		return false, false
	}
	if len(c) != clientLen && (len(c) < 16 || len(c) > 40) {
		return false, true
	}
	ok = h.secret.verify(c, q.Client.Addr(), q.Received)
	mine := h.secret.cookie(c[:clientLen], q.Client.Addr(), uint32(q.Received.Unix()))
	r.AddOption(optCookie, string(mine[:]))
	return ok, false
}

func (h *Handler) exempt(a netip.Addr) bool {
	for _, p := range h.o.Exempt {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
