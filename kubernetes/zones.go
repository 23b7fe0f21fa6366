package kubernetes

import (
	"slices"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server/wire"
)

// The trees of reverse names (RFC 1035 3.5, RFC 3596 2.5).
const (
	reverse4 wire.Canonical = "\x07in-addr\x04arpa\x00"
	reverse6 wire.Canonical = "\x03ip6\x04arpa\x00"
)

// isReverse says whether z is a zone of addresses.
func isReverse(z wire.Zone) bool {
	return wire.NewZone(reverse4).Contains(z.Name()) || wire.NewZone(reverse6).Contains(z.Name())
}

// parseZones takes the zones of the directive or else of the server block. One must not be a reverse zone: Services have their
// names in it.
func (o *Options) parseZones(in *directive.Input) error {
	var err error
	if o.Zones, err = zones(in, in.Args); err != nil {
		return err
	}
	if o.primary() < 0 {
		return in.Name.Errorf("kubernetes: all zones are reverse zones; one for the names of Services is needed")
	}
	return nil
}

// primary is the index of the first zone that is not a reverse zone, in which PTR records point, or -1.
func (o *Options) primary() int {
	return slices.IndexFunc(o.Zones, func(z wire.Zone) bool { return !isReverse(z) })
}

// zones reads zones and networks. Repetitions are dropped.
func zones(in *directive.Input, args []directive.Arg) ([]wire.Zone, error) {
	names, err := in.ZonesOf(args)
	if err != nil {
		return nil, err
	}
	out := make([]wire.Zone, 0, len(names))
	for _, n := range names {
		c, err := wire.ParseCanonical(n)
		if err != nil {
			return nil, in.Name.Errorf("kubernetes: %q is not a zone: %w", n, err)
		}
		if z := wire.NewZone(c); !slices.Contains(out, z) {
			out = append(out, z)
		}
	}
	return out, nil
}
