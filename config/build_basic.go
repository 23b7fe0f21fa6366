package config

import (
	"github.com/clusterdns/clusterdns/plugin/whoami"
)

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

func buildWhoami(s *site, o whoami.Options) error {
	s.handle(whoami.New(o))
	return nil
}
