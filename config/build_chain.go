package config

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/clusterdns/clusterdns/cache"
	"github.com/clusterdns/clusterdns/forward"
	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/plugin/acl"
	anytype "github.com/clusterdns/clusterdns/plugin/any"
	"github.com/clusterdns/clusterdns/plugin/autopath"
	"github.com/clusterdns/clusterdns/plugin/chaos"
	"github.com/clusterdns/clusterdns/plugin/dns64"
	"github.com/clusterdns/clusterdns/plugin/erratic"
	"github.com/clusterdns/clusterdns/plugin/header"
	"github.com/clusterdns/clusterdns/plugin/hosts"
	"github.com/clusterdns/clusterdns/plugin/loadbalance"
	"github.com/clusterdns/clusterdns/plugin/local"
	"github.com/clusterdns/clusterdns/plugin/loop"
	"github.com/clusterdns/clusterdns/plugin/minimal"
	"github.com/clusterdns/clusterdns/plugin/nsid"
	"github.com/clusterdns/clusterdns/plugin/ratelimit"
	"github.com/clusterdns/clusterdns/plugin/rewrite"
	"github.com/clusterdns/clusterdns/plugin/template"
	"github.com/clusterdns/clusterdns/plugin/whoami"
	"github.com/clusterdns/clusterdns/server/wire"
)

// This file has the directives that put a handler into the chain.

func buildNSID(s *site, o nsid.Options) error {
	s.handle(nsid.New(o, hostname()))
	return nil
}

// hostname is this machine's name, which in a cluster is the Pod's.
func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return h
}

func buildRatelimit(s *site, o ratelimit.Options) error {
	h, err := keep(s, o, func() (*ratelimit.Handler, error) { return ratelimit.New(o, s.shared.ratelimit) })
	if err == nil {
		s.handle(h)
	}
	return err
}

func buildLocal(s *site, o local.Options) error {
	s.handle(local.New(o, s.shared.local))
	return nil
}

func buildACL(s *site, all []acl.Options) error {
	h := acl.New(all, s.shared.acl)
	s.options.Reserved = true
	s.handle(h)
	// What rewrite and its like make of the query is judged once more, before anything answers it.
	s.handleBefore("template", h.Final())
	return nil
}

func buildAny(s *site, o anytype.Options) error {
	s.handle(anytype.New(o))
	return nil
}

func buildChaos(s *site, o chaos.Options) error {
	s.options.AnyClass = true
	s.handle(chaos.New(o, "clusterdns-"+s.shared.build.Version, hostname()))
	return nil
}

func buildLoadbalance(s *site, o loadbalance.Options) error {
	b, err := keep(s, o, func() (*loadbalance.Balance, error) {
		b := loadbalance.New(o, s.logger())
		return b, b.Load()
	})
	if err == nil {
		s.options.Shuffle = o.Shuffle()
		s.handle(b)
	}
	return err
}

func buildRewrite(s *site, rules []rewrite.Options) error {
	for _, r := range rules {
		s.options.AnyClass = s.options.AnyClass || r.Field == rewrite.Class
	}
	s.handle(rewrite.New(rules))
	return nil
}

func buildHeader(s *site, o header.Options) error {
	s.handle(header.New(o))
	return nil
}

// nodeSearch is where the search list of the node is, which Pods have behind the domains of their cluster: a server of the cluster's own runs with its
// node's file.
const nodeSearch = "/etc/resolv.conf"

func buildAutopath(s *site, o autopath.Options) error {
	s.finally(func() error {
		var from autopath.Source
		var err error
		switch {
		case o.File != "":
			from.List, err = autopath.ReadSearch(o.File)
		case s.cluster == nil:
			s.logger().Warn("this server block has no kubernetes to know clients by: nothing is completed")
			return nil
		default:
			from.Pods, from.Zones = s.cluster, s.cluster.Zones()
			from.List, _ = autopath.ReadSearch(nodeSearch) // without one, Pods have the cluster's domains only
		}
		if err == nil {
			s.handle(autopath.New(o, from, s.shared.autopath))
		}
		return err
	})
	return nil
}

func buildMinimal(s *site, o minimal.Options) error {
	s.handle(minimal.New(o))
	return nil
}

func buildTemplate(s *site, o template.Options) error {
	h, err := template.New(o, s.shared.template)
	if err == nil {
		s.options.AnyClass = s.options.AnyClass || o.Class != wire.ClassIN
		s.handle(h)
	}
	return err
}

func buildHosts(s *site, o hosts.Options) error {
	h, err := keep(s, o, func() (*hosts.Hosts, error) { return hosts.New(o, s.shared.hosts, s.logger()), nil })
	if err == nil {
		s.handle(h)
	}
	return err
}

// cluster is a kubernetes directive that a start waits for.
type cluster struct{ *kubernetes.Kubernetes }

// AwaitStart waits until the cluster has been read, for as long as the directive says.
func (c *cluster) AwaitStart(ctx context.Context) {
	late := time.NewTimer(c.Options().StartupTimeout)
	defer late.Stop()
	select {
	case <-c.Synced():
	case <-ctx.Done():
	case <-late.C:
	}
}

func buildKubernetes(s *site, o kubernetes.Options) error {
	k, err := keep(s, o, func() (*cluster, error) {
		log := s.logger()
		deps := kubernetes.Deps{Log: log, Local: localAddrs(s.hosts), Metrics: s.shared.kubernetes}
		var source kubernetes.Source
		switch {
		case s.shared.source != nil:
			source = s.shared.source(o)
			o.Snapshot = "" // what is only looked at is not kept
		case len(o.Manifests) > 0:
			source = kubernetes.NewManifests(o, s.shared.kubernetes, log)
		default:
			source = kubernetes.NewAPIServer(o, s.shared.kubernetes, log)
		}
		return &cluster{kubernetes.New(o, source, deps)}, nil
	})
	if err == nil {
		s.cluster = k
		s.sources = append(s.sources, k)
		s.handle(k)
	}
	return err
}

func buildDNS64(s *site, o dns64.Options) error {
	s.handle(dns64.New(o, s.shared.dns64))
	return nil
}

// localFresh is how long the addresses of the host are taken to be what they were: they hardly change, and to list them takes system calls.
const localFresh = 10 * time.Second

// localAddrs gives a function that says on which addresses a server block can be reached; hosts are those that it is bound to, none for all.
func localAddrs(hosts []string) func() []netip.Addr {
	if len(hosts) > 0 {
		var bound []netip.Addr
		for _, h := range hosts {
			if a, err := netip.ParseAddr(h); err == nil {
				bound = append(bound, a.Unmap())
			}
		}
		return func() []netip.Addr { return bound }
	}
	type snapshot struct {
		addrs []netip.Addr
		taken time.Time
	}
	var last atomic.Pointer[snapshot]
	return func() []netip.Addr {
		if l := last.Load(); l != nil && time.Since(l.taken) < localFresh {
			return l.addrs
		}
		now := &snapshot{taken: time.Now()}
		all, _ := net.InterfaceAddrs() // a host that cannot tell has no addresses to compare with
		for _, a := range all {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				now.addrs = append(now.addrs, p.Addr().Unmap())
			}
		}
		last.Store(now)
		return now.addrs
	}
}

func buildCache(s *site, o cache.Options) error {
	c, err := keep(s, o, func() (*cache.Cache, error) { return cache.New(o, s.shared.cache), nil })
	if err == nil {
		s.handle(c)
	}
	return err
}

func buildLoop(s *site, o loop.Options) error {
	l, err := keep(s, o, func() (*loop.Loop, error) { return loop.New(o, s.logger()), nil })
	if err == nil {
		s.handle(l)
		s.taken = append(s.taken, func() { l.Watch(s.forwarder) })
	}
	return err
}

func buildForward(s *site, lines []forward.Options) error {
	f, err := keep(s, lines, func() (*forward.Forward, error) {
		f := forward.New(lines, s.shared.forward, s.logger())
		return f, f.Load()
	})
	if err == nil {
		s.options.AnyClass = true
		s.forwarder = f
		s.handle(f)
	}
	return err
}

func buildErratic(s *site, o erratic.Options) error {
	s.handle(erratic.New(o))
	return nil
}

func buildWhoami(s *site, o whoami.Options) error {
	s.handle(whoami.New(o))
	return nil
}
