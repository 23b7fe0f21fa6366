package forward

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterdns/clusterdns/server"
)

// plainFor is how long an upstream that refused EDNS is asked without it. It may learn EDNS with its next update.
const plainFor = 15 * time.Minute

// dialer opens sockets and connections; network is "udp" or "tcp". Tests put a network of their own in its place.
type dialer func(ctx context.Context, network string, to netip.AddrPort, from netip.Addr) (net.Conn, error)

// dialSystem is the dialer of the operating system.
func dialSystem(ctx context.Context, network string, to netip.AddrPort, from netip.Addr) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1} // connections that are in use say so themselves, others are closed soon
	if from.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
		if network == "udp" {
			d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
		}
	}
	return d.DialContext(ctx, network, to.String())
}

// target is what tells upstreams of a group apart.
type target struct {
	addr netip.AddrPort
	tls  bool
	name string // in the certificate
}

// upstream is one server that questions go to: its sockets and connections, and what is known of its health.
type upstream struct {
	group   *group
	target  target
	to      string // the address, as metrics and logs have it
	tls     *tls.Config
	metrics *upstreamMetrics
	log     *slog.Logger

	udp     udpSockets
	streams streams
	rtt     [protos]rtt
	plain   atomic.Int64 // asked without EDNS until then, in nanoseconds of the Unix epoch

	// repliedAt is when the last reply came, in nanoseconds of the Unix epoch.
	repliedAt atomic.Int64

	// ailing is set from the first sign of trouble until the next reply; such an upstream is asked after the others. down is set when
	// probes failed too.
	ailing atomic.Bool
	down   atomic.Bool
	gone   atomic.Bool // out of the configuration
	// suspended is set while the upstream leads back to this server: no query goes there.
	suspended atomic.Bool

	health struct {
		sync.Mutex
		probing bool
		fails   int
		since   time.Time // of the first failure
		cause   error     // of the last probe's failure since then; nil while there is none
	}
	faults faults
}

func newUpstream(g *group, t target, conf *tls.Config) *upstream {
	u := &upstream{group: g, target: t, to: t.addr.String(), log: g.log.With("upstream", t.addr.String())}
	u.udp.up, u.streams.up = u, u
	if t.tls {
		u.tls = conf.Clone()
		if t.name != "" {
			u.tls.ServerName = t.name
		} else if u.tls.ServerName == "" {
			u.tls.ServerName = t.addr.Addr().WithZone("").String()
		}
		u.metrics = g.metrics.upstream(u.to, overTLS)
	} else {
		u.metrics = g.metrics.upstream(u.to, overUDP, overTCP)
	}
	return u
}

// opened counts whether a question found a socket or connection.
func (u *upstreamMetrics) opened(p proto, fresh bool) {
	if fresh {
		u.misses[p].Inc()
	} else {
		u.hits[p].Inc()
	}
}

func (u *upstream) dial(ctx context.Context, network string) (net.Conn, error) {
	return u.group.dial(ctx, network, u.target.addr, u.group.opts.SourceAddress)
}

// send lets a's question leave, at the end of t. A failure that shows at once is returned; any other comes to a's exchange.
func (u *upstream) send(a *attempt, t *server.Turn) error {
	if a.over == overUDP {
		return u.udp.send(a, t)
	}
	return u.streams.send(a)
}

// patience is how long an attempt over p may be alone.
func (u *upstream) patience(p proto) time.Duration {
	d := u.rtt[p].patience()
	if p != overUDP && !u.streams.connected() {
		return min(dialFactor*d, patienceCeiling)
	}
	return d
}

// passing says that a socket or connection that is opened now serves one question and is closed: the configuration that u belongs to is
// not in use any more, and nobody would close it later.
func (u *upstream) passing() bool { return u.gone.Load() || u.group.life.ended() }

// repliedSince says whether the upstream has replied to anything since t. If it has, it works, and what it has not replied to is a name that
// it cannot find an answer for, or a datagram that was lost.
func (u *upstream) repliedSince(t time.Time) bool { return u.repliedAt.Load() > t.UnixNano() }

// heard notes a reply by p, at now: the upstream works.
func (u *upstream) heard(p proto, took time.Duration, now time.Time) {
	u.rtt[p].add(took)
	u.repliedAt.Store(now.UnixNano())
	u.faults.cleared(u, p)
	if u.ailing.Load() {
		u.recovered()
	}
}

// rank is the order of asking: well ones, ailing ones, ones that are down.
func (u *upstream) rank() int {
	switch {
	case u.down.Load():
		return 2
	case u.ailing.Load():
		return 1
	}
	return 0
}

// sweep closes what is not used any more, or all of it.
func (u *upstream) sweep(now time.Time, all bool) {
	u.udp.sweep(now, all)
	u.streams.sweep(now, all)
}

// drop ends an upstream that is not configured any more. Questions in flight still get their replies.
func (u *upstream) drop() {
	u.gone.Store(true)
	u.sweep(time.Now(), true)
}
