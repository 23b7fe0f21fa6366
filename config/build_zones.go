package config

import (
	"fmt"
	"iter"
	"net/netip"
	"sync/atomic"

	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/plugin/auto"
	"github.com/clusterdns/clusterdns/plugin/file"
	k8sexternal "github.com/clusterdns/clusterdns/plugin/k8s_external"
	"github.com/clusterdns/clusterdns/plugin/secondary"
	"github.com/clusterdns/clusterdns/plugin/transfer"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// This file has the directives that serve whole zones, and what stands between them.

// notifier brings changes of a server block's zones to its transfer directive. It is that of the block for as long as there is one, so that
// zones which a reload leaves alone find a transfer directive which it does not.
type notifier struct {
	to atomic.Pointer[transfer.Transfer]
}

// changed is called by whatever serves a zone.
func (n *notifier) changed(origin wire.Zone) {
	if t := n.to.Load(); t != nil {
		t.Changed(origin)
	}
}

// notifier gives the one of a server block.
func (g *generation) notifier(key string) *notifier {
	n := new(notifier)
	if g.prev != nil && g.prev.changes[key] != nil {
		n = g.prev.changes[key]
	}
	g.changes[key] = n
	return n
}

func buildFile(s *site, all []file.Options) error {
	f, err := keep(s, all, func() (*file.File, error) { return file.New(all, s.logger(), s.notify.changed), nil })
	if err == nil {
		s.sources = append(s.sources, f)
		s.handle(f)
		s.refuse("auto", "secondary")
	}
	return err
}

// refuse has the block refuse names that are in no zone of its file and secondary directives, unless something stands behind them: these, or what
// answers any name.
func (s *site) refuse(behind ...string) {
	for _, name := range append(behind, "forward", "erratic", "whoami") {
		if s.block.use(name) != nil {
			return
		}
	}
	var ours file.Options
	for _, u := range s.block.Uses {
		switch o := u.Options.(type) {
		case file.Options:
			ours.Zones = append(ours.Zones, o.Zones...)
		case secondary.Options:
			ours.Zones = append(ours.Zones, o.Zones...)
		}
	}
	s.handle(file.NewRefusal(ours.Zones))
}

func buildAuto(s *site, o auto.Options) error {
	a, err := keep(s, o, func() (*auto.Auto, error) { return auto.New(o, s.logger(), s.notify.changed), nil })
	if err == nil {
		s.sources = append(s.sources, a)
		s.handle(a)
	}
	return err
}

func buildSecondary(s *site, all []secondary.Options) error {
	z, err := keep(s, all, func() (*secondary.Secondary, error) { return secondary.New(all, s.logger(), s.notify.changed), nil })
	if err == nil {
		s.sources = append(s.sources, z)
		s.handle(z)
		s.refuse()
	}
	return err
}

// transferOptions are what a transfer part is made of: it is another one if what it transfers is.
type transferOptions struct {
	all     []transfer.Options
	sources []string
}

func buildTransfer(s *site, all []transfer.Options) error {
	s.finally(func() error {
		o := transferOptions{all: all}
		for _, src := range s.sources {
			o.sources = append(o.sources, fmt.Sprintf("%p", src))
		}
		t, err := keep(s, o, func() (*transfer.Transfer, error) { return transfer.New(all, s.sources, s.logger()), nil })
		if err == nil {
			s.handle(t)
			s.transfer = t
		}
		return err
	})
	return nil
}

func buildExternal(s *site, o k8sexternal.Options) error {
	source := &later{}
	s.sources = append(s.sources, source)
	s.finally(func() error {
		if s.cluster == nil {
			s.logger().Warn("this server block has no kubernetes to read Services from: nothing is answered")
			return nil
		}
		h := k8sexternal.New(o, outside{s.cluster.Kubernetes})
		source.Source = h
		s.handle(h)
		return nil
	})
	return nil
}

// later is a source whose handler is made after the transfer directive has asked for it.
type later struct{ transfer.Source }

// TransferZone implements transfer.Source; a handler that was not made has no zones.
func (l *later) TransferZone(origin wire.Zone) (all iter.Seq[server.Record], serial uint32, ok bool) {
	if l.Source == nil {
		return nil, 0, false
	}
	return l.Source.TransferZone(origin)
}

// outside shows a cluster to k8s_external.
type outside struct{ *kubernetes.Kubernetes }

// ExternalService implements k8sexternal.Cluster.
func (c outside) ExternalService(namespace, name string) (k8sexternal.Service, bool) {
	v, exists := c.Kubernetes.ExternalService(namespace, name)
	s := k8sexternal.Service{Addrs: v.Addrs, Ports: outsidePorts(v.Ports), Headless: v.Headless}
	for _, e := range v.Endpoints {
		s.Endpoints = append(s.Endpoints, k8sexternal.Endpoint{Host: e.Host, Addr: e.Addr, Ports: outsidePorts(e.Ports)})
	}
	return s, exists
}

func outsidePorts(ports []kubernetes.Port) []k8sexternal.Port {
	out := make([]k8sexternal.Port, len(ports))
	for i, p := range ports {
		out[i] = k8sexternal.Port{Name: p.Name, Protocol: p.Protocol.String(), Number: p.Number}
	}
	return out
}

// ExternalServicesAt implements k8sexternal.Cluster.
func (c outside) ExternalServicesAt(addr netip.Addr) (out []k8sexternal.ServiceName) {
	for _, n := range c.Kubernetes.ExternalServicesAt(addr) {
		out = append(out, k8sexternal.ServiceName{Namespace: n.Namespace, Name: n.Name})
	}
	return out
}
