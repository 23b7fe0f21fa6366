// Package k8sexternal is the directive k8s_external: a zone in which Services are found by the addresses that they have outside the cluster.
package k8sexternal

import (
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/internal/zones"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Options are those of the directive.
type Options struct {
	Zones       zones.Set
	Primary     wire.Zone // the first zone that is no reverse zone: PTR records lead there
	Apex        string    // the label under which the zone's own servers are found
	TTL         uint32
	Headless    bool
	Fallthrough zones.Fallthrough
}

// Rows are the directive's options.
func Rows() []directive.Option[Options] {
	return []directive.Option[Options]{
		{Name: "apex", Usage: "LABEL", Min: 1, Max: 1, Help: "label under which the zone's name servers are found; dns by default", Set: setApex},
		{Name: "ttl", Usage: "SECONDS", Min: 1, Max: 1, Help: "TTL of the records; 5 by default",
			Set: func(o *Options, l *directive.Line) error {
				n, err := l.Args[0].Int(0, 3600)
				o.TTL = uint32(n)
				return err
			}},
		{Name: "headless", Help: "answers headless Services, and endpoints, with the endpoints' addresses",
			Set: func(o *Options, _ *directive.Line) error { o.Headless = true; return nil }},
		{Name: "fallthrough", Usage: "[ZONE...]", Max: directive.Many, Help: "passes names on that do not exist",
			Set: func(o *Options, l *directive.Line) (err error) {
				o.Fallthrough, err = zones.ParseFallthrough(l)
				return err
			}},
	}
}

// Parse reads the directive.
func Parse(in *directive.Input) (Options, error) {
	o := Options{Apex: "dns", TTL: 5}
	names, err := in.ZonesOf(in.Args)
	if err != nil {
		return o, err
	}
	o.Zones = zones.New(names)
	for _, n := range names {
		if !strings.HasSuffix("."+n, ".in-addr.arpa.") && !strings.HasSuffix("."+n, ".ip6.arpa.") {
			o.Primary = wire.NewZone(wire.MustCanonical(n))
			break
		}
	}
	if err := directive.ParseOptions(in, &o, Rows()); err != nil {
		return o, err
	}
	if o.Primary == (wire.Zone{}) {
		return o, in.Name.Errorf("k8s_external: needs a zone that is no reverse zone")
	}
	return o, nil
}

func setApex(o *Options, l *directive.Line) error {
	o.Apex = strings.ToLower(l.Args[0].Text)
	if c, err := wire.ParseCanonical(o.Apex); err != nil || c.Labels() != 1 {
		return l.Args[0].Errorf("%q is not one label", l.Args[0].Text)
	}
	return nil
}
