package kubernetes

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server/wire"
)

// The trees of reverse names (RFC 1035 3.5, RFC 3596 2.5).
var (
	reverse4 = wire.NewZone("\x07in-addr\x04arpa\x00")
	reverse6 = wire.NewZone("\x03ip6\x04arpa\x00")
)

// isReverse says whether z is a zone of addresses.
func isReverse(z wire.Zone) bool { return reverse4.Contains(z.Name()) || reverse6.Contains(z.Name()) }

// parseZones takes the zones of the directive or else of the server block. One must not be a reverse zone: Services have their
// names in it.
func (o *Options) parseZones(in *directive.Input) error {
	args := in.Args
	if len(args) == 0 {
		for _, z := range in.Zones {
			args = append(args, directive.Arg{Text: z, File: in.Name.File, Line: in.Name.Line})
		}
	}
	var err error
	if o.Zones, err = zones(args); err != nil {
		return err
	}
	for _, z := range o.Zones {
		if !isReverse(z) {
			return nil
		}
	}
	return in.Name.Errorf("kubernetes: all zones are reverse zones; one for the names of Services is needed")
}

// zones reads zone names and networks in CIDR notation, which stand for their reverse zones. Repetitions are dropped.
func zones(args []directive.Arg) ([]wire.Zone, error) {
	var out []wire.Zone
	var errs []error
	seen := map[wire.Zone]bool{}
	for _, a := range args {
		names := []string{a.Text}
		if strings.Contains(a.Text, "/") {
			p, err := netip.ParsePrefix(a.Text)
			if err != nil {
				errs = append(errs, a.Errorf("%q is neither a zone nor a network", a.Text))
				continue
			}
			names = reverseZones(p.Masked())
		}
		for _, n := range names {
			c, err := wire.ParseCanonical(n)
			if err != nil {
				errs = append(errs, a.Errorf("%q is not a zone: %v", a.Text, err))
				continue
			}
			if z := wire.NewZone(c); !seen[z] {
				seen[z] = true
				out = append(out, z)
			}
		}
	}
	return out, errors.Join(errs...)
}

// reverseZones are the reverse zones that make up a network: one where its length is a multiple of the bits of a label (8, or 4 for
// IPv6), otherwise the 2 to 128 of the next longer multiple.
func reverseZones(p netip.Prefix) []string {
	step := 8
	if p.Addr().Is6() {
		step = 4
	}
	labels := (p.Bits() + step - 1) / step
	n := 1 << (labels*step - p.Bits())
	b := p.Addr().AsSlice()
	out := make([]string, 0, n)
	for i := range n {
		out = append(out, reverseName(b, labels, step, i))
	}
	return out
}

// reverseName writes the first labels of an address in reverse, with add added to the last of them.
func reverseName(b []byte, labels, step, add int) string {
	var s strings.Builder
	for i := labels - 1; i >= 0; i-- {
		v := int(b[i*step/8])
		if step == 4 {
			v = v >> (4 - i%2*4) & 0xF
			fmt.Fprintf(&s, "%x.", v+add)
		} else {
			fmt.Fprintf(&s, "%d.", v+add)
		}
		add = 0
	}
	if step == 4 {
		return s.String() + "ip6.arpa."
	}
	return s.String() + "in-addr.arpa."
}
