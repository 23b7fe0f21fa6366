package config

import (
	"crypto/tls"

	"github.com/clusterdns/clusterdns/plugin/bufsize"
	"github.com/clusterdns/clusterdns/plugin/cancel"
	"github.com/clusterdns/clusterdns/plugin/errors"
	"github.com/clusterdns/clusterdns/plugin/health"
	"github.com/clusterdns/clusterdns/plugin/log"
	"github.com/clusterdns/clusterdns/plugin/metadata"
	"github.com/clusterdns/clusterdns/plugin/pprof"
	"github.com/clusterdns/clusterdns/plugin/prometheus"
	"github.com/clusterdns/clusterdns/plugin/ready"
	tlsconf "github.com/clusterdns/clusterdns/plugin/tls"
	"github.com/clusterdns/clusterdns/plugin/view"
	"github.com/clusterdns/clusterdns/server"
)

// This file has the directives that set something, look on, or serve HTTP.

func buildMetadata(s *site, o metadata.Options) error {
	s.finally(func() error {
		s.providers = append(s.providers, metadata.New(o, s.provided...))
		return nil
	})
	return nil
}

func buildTLS(s *site, o tlsconf.Options) error {
	c, err := keep(s, o, func() (*tls.Config, error) { return o.Load(s.logger()) })
	s.tls = c
	return err
}

func buildTimeouts(s *site, o timeoutsOptions) error {
	s.timeouts = o.timeouts()
	return nil
}

func buildMultisocket(s *site, o multisocketOptions) error {
	s.sockets = o.Sockets
	return nil
}

func buildView(s *site, all []view.Options) error {
	// The block of a query is not known yet when views are asked, so its providers are.
	v, err := view.New(all, func(q *server.Query, label string) string {
		for _, p := range s.providers {
			if value, ok := p.Metadata(q, label); ok {
				return value
			}
		}
		return ""
	})
	if err == nil {
		s.view, s.match = v.Name(), v.Match
		s.options.Reserved = true
		s.provide(v)
	}
	return err
}

func buildCancel(s *site, o cancel.Options) error {
	o.Apply(&s.options)
	return nil
}

func buildBufsize(s *site, o bufsize.Options) error {
	o.Apply(&s.options)
	return nil
}

func buildReload(s *site, o reloadOptions) error {
	// Of several server blocks, the one that wants to look most often counts.
	if s.generation.reload == nil || o.Interval < s.generation.reload.Interval {
		s.generation.reload = &o
	}
	return nil
}

func buildBind(s *site, o bindOptions) error {
	hosts, err := o.resolve()
	s.hosts = append(s.hosts, hosts...)
	return err
}

func buildDebug(s *site, _ debugOptions) error {
	s.options.PanicHard = true
	s.generation.debug = true
	return nil
}

func buildReady(s *site, o ready.Options) error {
	s.route(s.shared.ready.Route(o))
	s.finally(func() error {
		for k, p := range s.kept {
			if r, ok := p.value.(server.Readiness); ok && k.block == s.key {
				s.generation.ready = append(s.generation.ready, ready.Part{Name: k.name, Part: r, Monitor: o.Monitor})
			}
		}
		return nil
	})
	return nil
}

func buildHealth(s *site, o health.Options) error {
	h, err := keep(s, o, func() (*health.Health, error) {
		return health.New(o, s.shared.admin, s.shared.health, s.logger()), nil
	})
	if err == nil {
		s.route(h.Route())
		s.generation.health = append(s.generation.health, o)
	}
	return err
}

func buildPprof(s *site, o pprof.Options) error {
	s.route(pprof.Routes(o)...)
	s.generation.pprof = append(s.generation.pprof, o)
	return nil
}

func buildPrometheus(s *site, o prometheus.Options) error {
	r, err := s.shared.prometheus.Route(o, s.logger())
	if err != nil {
		return err
	}
	s.route(r)
	s.metrics = append(s.metrics, o)
	s.observeEach(func(b *server.Block) server.Observer { return s.shared.prometheus.Observer(o, b) })
	s.unrouted = s.shared.prometheus.Unrouted
	return nil
}

func buildErrors(s *site, o errors.Options) error {
	e, err := keep(s, o, func() (*errors.Errors, error) { return errors.New(o, s.logger()), nil })
	if err == nil {
		s.observe(e)
		s.stacks = s.stacks || o.Stacktrace
	}
	return err
}

func buildLog(s *site, all []log.Options) error {
	s.observe(log.New(s.shared.out, all...))
	return nil
}
