package forward

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// watchPeriod is how often files are looked at. A change has to be used within 5 seconds.
	watchPeriod = 2 * time.Second
	// sweepPeriod is how often unused sockets and connections are looked for.
	sweepPeriod = 5 * time.Second
	// resolvePeriod is how often host names are looked up again: the usual TTL of the names of services.
	resolvePeriod = 30 * time.Second
	// resolveTimeout bounds the look-ups of one round.
	resolveTimeout = 5 * time.Second
)

// errCut is the cause when an answer came truncated and the upstream did not give the rest.
var errCut = errors.New("the upstream's answer is truncated and could not be had over TCP")

// Load reads the certificates and keys that lines name, for configurations to be judged before they are used. Run does it too.
func (f *Forward) Load() error {
	for _, g := range f.groups {
		if err := g.loadTLS(); err != nil {
			return err
		}
	}
	return nil
}

// Run keeps upstream lists, sockets and probes going until ctx ends. Queries that are answered then, or come later, still get replies.
func (f *Forward) Run(ctx context.Context) error {
	f.life.begin(ctx)
	f.states.set(f, true)
	defer f.finish()
	if err := f.Load(); err != nil {
		return err
	}
	for _, g := range f.groups {
		f.life.attend(g.watch)
	}
	tick := time.NewTicker(sweepPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			for _, g := range f.groups {
				g.sweep(now, false)
			}
		}
	}
}

func (f *Forward) finish() {
	f.states.set(f, false)
	f.life.end()
	for _, g := range f.groups {
		g.sweep(time.Now(), true)
	}
}

// loadTLS reads the files of the tls option.
func (g *group) loadTLS() error {
	if !slices.ContainsFunc(g.opts.To, func(t To) bool { return t.TLS }) {
		return nil
	}
	conf := &tls.Config{
		MinVersion:         tls.VersionTLS12, // RFC 9325 3.1.1
		ServerName:         g.opts.TLSServerName,
		ClientSessionCache: tls.NewLRUClientSessionCache(2 * maxUpstreams),
	}
	if o := g.opts.TLS; o.Cert != "" {
		c, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return fmt.Errorf("forward: certificate %s with key %s: %w", o.Cert, o.Key, err)
		}
		conf.Certificates = []tls.Certificate{c}
	}
	if ca := g.opts.TLS.CA; ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return fmt.Errorf("forward: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("forward: %s holds no certificate", ca)
		}
	}
	g.tls = conf
	return nil
}

// watch makes the list of upstreams, and makes it anew when what it comes from changes.
func (g *group) watch(ctx context.Context) {
	src := &sources{g: g, addrs: map[string][]netip.AddrPort{}, said: map[string]bool{}}
	src.refresh(ctx, true)
	close(g.loaded)
	if !slices.ContainsFunc(g.opts.To, func(t To) bool { return !t.Addr.IsValid() }) {
		return // addresses alone do not change
	}
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			again := now.Sub(last) >= resolvePeriod || src.failed
			if again {
				last = now
			}
			src.refresh(ctx, again)
		}
	}
}

// sources is what the list of upstreams comes from, as it was last seen. It belongs to the goroutine of watch.
type sources struct {
	g      *group
	addrs  map[string][]netip.AddrPort // by To.Text: what it stood for when it was last good
	said   map[string]bool             // what has been complained about
	failed bool                        // a host name could not be resolved
}

// refresh reads the files, and resolves the host names if resolve is set, and makes the list anew.
func (s *sources) refresh(ctx context.Context, resolve bool) {
	var all []target
	if resolve {
		s.failed = false
	}
	for _, to := range s.g.opts.To {
		for _, ap := range s.addresses(ctx, to, resolve) {
			t := target{ap, to.TLS, to.ServerName}
			if !slices.Contains(all, t) {
				all = append(all, t)
			}
		}
	}
	if len(all) > maxUpstreams {
		s.complain("many", "more upstreams than are used", "found", len(all), "used", maxUpstreams)
		all = all[:maxUpstreams]
	}
	s.g.install(all)
}

// addresses are those that to stands for. What cannot be read or resolved keeps the addresses that it had.
func (s *sources) addresses(ctx context.Context, to To, resolve bool) []netip.AddrPort {
	if to.Addr.IsValid() {
		return []netip.AddrPort{to.Addr}
	}
	if to.File != "" {
		b, err := os.ReadFile(to.File)
		if err == nil || to.Host == "" {
			s.fromFile(to, b, err)
			return s.addrs[to.Text]
		}
	}
	if resolve {
		s.fromName(ctx, to)
	}
	return s.addrs[to.Text]
}

func (s *sources) fromFile(to To, b []byte, err error) {
	found := nameservers(b, to.Port)
	switch {
	case err != nil:
		s.complain(to.Text, "file with upstreams cannot be read", "cause", err)
	case len(found) == 0:
		s.complain(to.Text, "file names no upstream", "file", to.File)
	default:
		delete(s.said, to.Text)
		s.addrs[to.Text] = found
	}
}

func (s *sources) fromName(ctx context.Context, to To) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	found, err := s.g.resolver().LookupNetIP(ctx, "ip", to.Host)
	if err != nil || len(found) == 0 {
		s.failed = true
		s.complain(to.Text, "host name of an upstream cannot be resolved", "host", to.Host, "cause", err)
		return
	}
	delete(s.said, to.Text)
	var out []netip.AddrPort
	for _, a := range found {
		out = append(out, netip.AddrPortFrom(a.Unmap(), to.Port))
	}
	slices.SortFunc(out, netip.AddrPort.Compare) // the order of replies is random, and none of it is a change
	s.addrs[to.Text] = out
}

// complain logs once what is wrong with a source, until it is right again.
func (s *sources) complain(about, text string, args ...any) {
	if !s.said[about] {
		s.said[about] = true
		s.g.log.Warn(text, append([]any{"upstream", about}, args...)...)
	}
}

// resolver is who resolves host names: the servers of the resolver option in turn, or the system's.
func (g *group) resolver() *net.Resolver {
	if len(g.opts.Resolver) == 0 {
		return net.DefaultResolver
	}
	var n atomic.Uint32
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		to := g.opts.Resolver[int(n.Add(1)-1)%len(g.opts.Resolver)]
		if network != "udp" {
			network = "tcp"
		}
		return g.dial(ctx, network, to, g.opts.SourceAddress)
	}}
}

// installFixed makes the list of upstreams at once where it comes from nothing but plain addresses.
func (g *group) installFixed() {
	var all []target
	for _, to := range g.opts.To {
		if !to.Addr.IsValid() || to.TLS {
			return
		}
		if t := (target{addr: to.Addr}); !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	g.install(all)
}

// install makes targets the upstreams. Those that stay keep their sockets and what is known of them.
func (g *group) install(targets []target) {
	old := *g.ups.Load()
	same := len(old) == len(targets)
	ups := make([]*upstream, 0, len(targets))
	for i, t := range targets {
		k := slices.IndexFunc(old, func(u *upstream) bool { return u.target == t })
		if k < 0 {
			ups = append(ups, newUpstream(g, t, g.tls))
		} else {
			ups = append(ups, old[k])
		}
		same = same && i == k
	}
	if same {
		return
	}
	g.ups.Store(&ups)
	for _, u := range old {
		if !slices.Contains(ups, u) {
			u.drop()
		}
	}
	if len(old) > 0 {
		g.log.Info("upstreams changed", "upstreams", names(ups))
	}
}

func names(ups []*upstream) []string {
	out := make([]string, len(ups))
	for i, u := range ups {
		out[i] = u.to
	}
	return out
}
