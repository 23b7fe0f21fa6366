package config

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/clusterdns/clusterdns/cache"
	"github.com/clusterdns/clusterdns/forward"
	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/plugin/hosts"
	"github.com/clusterdns/clusterdns/plugin/rewrite"
	"github.com/clusterdns/clusterdns/plugin/template"
	"github.com/clusterdns/clusterdns/plugin/whoami"
)

// This file has the directives that put a handler into the chain.

func buildRewrite(s *site, rules []rewrite.Options) error {
	s.handle(rewrite.New(rules))
	return nil
}

func buildTemplate(s *site, o template.Options) error {
	h, err := template.New(o, s.shared.template)
	if err == nil {
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
type cluster struct {
	*kubernetes.Kubernetes
	s *Shared
}

// AwaitStart waits until the cluster has been read, for as long as the directive says.
func (c *cluster) AwaitStart(ctx context.Context) {
	log := c.s.Logger("kubernetes")
	late := time.NewTimer(c.Options().StartupTimeout)
	defer late.Stop()
	select {
	case <-c.Synced():
	case <-ctx.Done():
	case <-late.C:
		log.Warn("starting without having read the cluster: its names are answered with SERVFAIL until that is done")
	}
}

func buildKubernetes(s *site, o kubernetes.Options) error {
	k, err := keep(s, o, func() (*cluster, error) {
		log := s.logger()
		deps := kubernetes.Deps{Log: log, Local: localAddrs(s.hosts)}
		return &cluster{kubernetes.New(o, kubernetes.NewAPIServer(o, s.shared.kubernetes, log), deps), s.shared}, nil
	})
	if err == nil {
		s.handle(k)
	}
	return err
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

func buildForward(s *site, lines []forward.Options) error {
	f, err := keep(s, lines, func() (*forward.Forward, error) {
		f := forward.New(lines, s.shared.forward, s.logger())
		return f, f.Load()
	})
	if err == nil {
		s.handle(f)
	}
	return err
}

func buildWhoami(s *site, o whoami.Options) error {
	s.handle(whoami.New(o))
	return nil
}
